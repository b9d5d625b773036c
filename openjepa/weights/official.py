"""The official I-JEPA archive (.pth.tar): three networks saved from DDP wrappers, so every name starts with `module.`.

Loaded with weights_only: nothing in the file is executed. The official weights are CC-BY-NC 4.0.
"""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from openjepa.core.errors import BadInput
from openjepa.core.types import Grid
from openjepa.models.predictor import Predictor
from openjepa.models.sizes import SIZES, Size
from openjepa.models.vit import CHANNELS, VisionTransformer
from openjepa.nn import positions

PREFIX = "module."
ARCHIVE_NAMES = {"context": "encoder", "target": "target_encoder"}
PREDICTOR_NAMES = (
    ("embed.", "predictor_embed."),
    ("blocks.", "predictor_blocks."),
    ("norm.", "predictor_norm."),
    ("proj.", "predictor_proj."),
)


def read(path: Path) -> dict[str, Any]:
    """The archive as saved: networks by name, and optimiser state, epoch and so on if present."""
    try:
        archive = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise BadInput(f'no file "{path}"; expected an I-JEPA archive (.pth.tar)') from None
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BadInput(f"{path} is not an I-JEPA archive that can be read safely: {reason}") from None
    if not isinstance(archive, dict) or "target_encoder" not in archive:
        raise BadInput(f"{path} is not an I-JEPA archive; expected the keys encoder, predictor and target_encoder")
    return archive


def read_encoder(path: Path, which: Literal["target", "context"] = "target") -> VisionTransformer:
    """The encoder, its size derived from the shapes; by default the target encoder, which the paper evaluates."""
    archive = read(path)
    name = ARCHIVE_NAMES[which]
    if name not in archive:
        raise BadInput(f'{path} holds no network "{name}"')
    try:
        return encoder_from(archive[name])
    except (KeyError, ValueError, RuntimeError, AttributeError, IndexError) as error:
        reason = str(error).strip().splitlines()[0]
        raise BadInput(f'the network "{name}" in {path} is not an I-JEPA encoder: {reason}') from None


def encoder_from(state: Mapping[str, Tensor]) -> VisionTransformer:
    """A VisionTransformer in eval mode from official names."""
    state = _without_prefix(state)
    kernel = state["patch_embed.proj.weight"]  # [D, 3, p, p]
    depth = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("blocks."))
    size = _size(dim=kernel.shape[0], depth=depth, mlp_hidden=state["blocks.0.mlp.fc1.weight"].shape[0])
    patch_size = kernel.shape[2]
    side = patch_size * round(state["pos_embed"].shape[1] ** 0.5)  # the archive's grids are square
    encoder = VisionTransformer(size, patch_size=patch_size, image_size=(side, side))
    encoder.load_state_dict(_encoder_names_to_ours(state))
    return encoder.eval()


def predictor_from(state: Mapping[str, Tensor], *, num_heads: int) -> Predictor:
    state = _without_prefix(state)
    width, dim = state["predictor_embed.weight"].shape
    depth = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("predictor_blocks."))
    predictor = Predictor(dim=dim, width=width, depth=depth, num_heads=num_heads)
    ours = {}
    for name, tensor in state.items():
        if name != "predictor_pos_embed":  # computed, not stored, here
            ours[_renamed(name, [(theirs, mine) for mine, theirs in PREDICTOR_NAMES])] = tensor
    predictor.load_state_dict(ours)
    return predictor.eval()


def write(
    path: Path,
    *,
    context_encoder: VisionTransformer,
    target_encoder: VisionTransformer,
    predictor: Predictor,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Writes an archive that the official code can load: three networks with `module.` names and their position tables."""
    if context_encoder.num_class:
        raise ValueError("the official archive has no class token, and this encoder has one")
    grid = context_encoder.grid
    archive = {
        "encoder": _with_prefix(encoder_to_official(context_encoder)),
        "predictor": _with_prefix(predictor_to_official(predictor, grid)),
        "target_encoder": _with_prefix(encoder_to_official(target_encoder)),
        **(extra or {}),
    }
    torch.save(archive, path)


def encoder_to_official(encoder: VisionTransformer) -> dict[str, Tensor]:
    state = {name: tensor.detach().clone() for name, tensor in encoder.state_dict().items()}
    patch = encoder.patch_size
    state["patch_embed.proj.weight"] = state.pop("patch_embed.weight").unflatten(1, (CHANNELS, patch, patch))
    state["patch_embed.proj.bias"] = state.pop("patch_embed.bias")
    state["pos_embed"] = positions.sincos(encoder.grid, encoder.dim)[None].clone()
    return state


def predictor_to_official(predictor: Predictor, grid: Grid) -> dict[str, Tensor]:
    state = {
        _renamed(name, PREDICTOR_NAMES): tensor.detach().clone() for name, tensor in predictor.state_dict().items()
    }
    state["predictor_pos_embed"] = positions.sincos(grid, predictor.width)[None].clone()
    return state


def _encoder_names_to_ours(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    ours = {name: tensor for name, tensor in state.items() if name != "pos_embed"}  # computed, not stored, here
    ours["patch_embed.weight"] = ours.pop("patch_embed.proj.weight").flatten(1)
    ours["patch_embed.bias"] = ours.pop("patch_embed.proj.bias")
    return ours


def _size(*, dim: int, depth: int, mlp_hidden: int) -> Size:
    """The weights do not show the number of heads; the published sizes do."""
    for size in SIZES.values():
        if (size.dim, size.depth, size.mlp_hidden) == (dim, depth, mlp_hidden):
            return size
    raise BadInput(
        f"no known model has width {dim}, {depth} blocks and an MLP of {mlp_hidden}; known: {', '.join(SIZES)}"
    )


def _renamed(name: str, prefixes: Any) -> str:
    for old, new in prefixes:
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def _without_prefix(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(PREFIX): tensor for name, tensor in state.items()}


def _with_prefix(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {PREFIX + name: tensor for name, tensor in state.items()}
