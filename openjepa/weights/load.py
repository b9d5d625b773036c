"""Loads trained networks from a run folder, a checkpoint folder, a weights file, or the official I-JEPA archive."""

from pathlib import Path
from typing import Literal, get_args

import yaml
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from openjepa.core import config as configs
from openjepa.core import settings
from openjepa.core.config import Config
from openjepa.core.contracts import Method
from openjepa.core.errors import BadInput
from openjepa.methods import build
from openjepa.runs import checkpoint
from openjepa.runs.directory import RunFolder
from openjepa.weights import official

Which = Literal["target", "context"]


def load(run: str | Path) -> Method:
    """The whole method with its trained weights, in eval mode.

    >>> import openjepa, tempfile
    >>> data = {"source": "scenes:16", "image_size": 32, "workers": 0}
    >>> config = {"data": data, "model": {"name": "vit-nano/8"}, "train": {"batch_size": 8, "steps": 2}}
    >>> folder = tempfile.TemporaryDirectory()
    >>> result = openjepa.pretrain(config, run=folder.name)
    >>> method = openjepa.load(result.folder)
    >>> type(method).__name__, method.training
    ('IJEPA', False)
    >>> folder.cleanup()
    """
    config, weights = read_weights(run)
    method = build.method(config)
    try:
        method.load_state_dict(weights)
    except RuntimeError as error:
        raise BadInput(f"the weights in {run} do not fit the model of their config: {_first_line(error)}") from None
    return method.eval()


def load_encoder(run: str | Path, which: Which = "target") -> nn.Module:
    """`encoder(images) -> [B, N, D]`, `encoder.pool(images) -> [B, D]`; the target encoder, as in the paper, by default.

    "target" is what a method's authors evaluate, "context" what gradients train; for MAE and others they are the same.

    >>> import openjepa, tempfile, torch
    >>> data = {"source": "scenes:16", "image_size": 32, "workers": 0}
    >>> config = {"data": data, "model": {"name": "vit-nano/8"}, "train": {"batch_size": 8, "steps": 2}}
    >>> folder = tempfile.TemporaryDirectory()
    >>> result = openjepa.pretrain(config, run=folder.name)
    >>> encoder = openjepa.load_encoder(result.folder)
    >>> encoder.pool(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 64])
    >>> folder.cleanup()
    """
    return load_encoders(run, which)[0]


def load_encoders(run: str | Path, which: Which = "target") -> tuple[nn.Module, nn.Module]:
    """The encoder, and the network that fine-tuning starts from; usually the same."""
    if which not in get_args(Which):
        raise BadInput(f'there is no "{which}" encoder; choose {" or ".join(get_args(Which))}')
    if _is_archive(Path(run)):
        encoder = official.read_encoder(Path(run), which)
        return encoder, encoder
    method = load(run)
    return (method.encoder, method.tuned_encoder) if which == "target" else (method.learner, method.learner)


def read_config(run: str | Path) -> Config | None:
    """The settings that produced some weights; None for an official archive."""
    if _is_archive(Path(run)):
        return None
    with safe_open(weights_file(Path(run)), framework="pt") as file:
        return configs.load(yaml.safe_load((file.metadata() or {})["config"]))


def read_weights(run: str | Path) -> tuple[Config, dict[str, Tensor]]:
    """The config and the tensors of a run folder, a checkpoint folder or a weights file."""
    path = weights_file(Path(run))
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError) as error:
        raise BadInput(f"{path} is not a readable weights file: {_first_line(error)}") from None
    if "config" not in metadata:
        raise BadInput(f"{path} has no OpenJEPA config; expected a weights.safetensors that a run wrote")
    config = configs.load(yaml.safe_load(metadata["config"]))
    _check_belongs(path, config, RunFolder(Path(run)))
    return config, weights


def _check_belongs(path: Path, config: Config, folder: RunFolder) -> None:
    """Weights that were copied into another run's folder must not pass for that run's."""
    if not folder.holds_a_run:
        return
    stored = configs.load(settings.read(folder.config))
    if stored.model.name != config.model.name:
        raise BadInput(
            f"{path} holds a {config.model.name}, but {folder.config} says {stored.model.name}; "
            "they come from different runs: give the weights file itself, or restore the folder"
        )


def weights_file(path: Path) -> Path:
    """The run's final weights, else those of its newest intact checkpoint."""
    if path.is_file():
        return path
    if (path / checkpoint.MANIFEST).exists() or (path / checkpoint.STATE).exists():
        checkpoint.verify(path)
        return path / checkpoint.WEIGHTS
    folder = RunFolder(path)
    if folder.weights.exists():
        return folder.weights
    newest, damaged = checkpoint.newest_intact(folder.checkpoints)
    if newest is not None:
        return newest / checkpoint.WEIGHTS
    if damaged:
        raise damaged[0]
    raise BadInput(f'no weights in "{path}"; expected a run folder, a checkpoint folder or a weights.safetensors file')


def _is_archive(path: Path) -> bool:
    return path.name.endswith((".pth.tar", ".pth"))


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[min(1, len(lines) - 1)] if lines else type(error).__name__
