"""Hugging Face's I-JEPA layout: an encoder as a folder that `transformers.IJepaModel.from_pretrained` opens.

This layout has the encoder only (no predictor), splits q, k and v, and stores the position table.
"""

import json
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from openjepa.models.vit import CHANNELS, VisionTransformer
from openjepa.nn.block import LAYER_NORM_EPS
from openjepa.weights.official import encoder_to_official

_LAYER = {
    "norm1": "layernorm_before",
    "norm2": "layernorm_after",
    "attn.proj": "attention.output.dense",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
}


def write(folder: Path, encoder: VisionTransformer) -> None:
    """Writes config.json and model.safetensors."""
    if encoder.num_class:
        raise ValueError("transformers' I-JEPA has no class token, and this encoder has one")
    if len(set(encoder.image_size)) > 1:
        raise ValueError(f"transformers' I-JEPA takes square images, not {encoder.image_size}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(encoder), indent=1), encoding="utf-8")
    save_file(state(encoder), folder / "model.safetensors", metadata={"format": "pt"})


def config(encoder: VisionTransformer) -> dict[str, object]:
    size = encoder.size
    return {
        "architectures": ["IJepaModel"],
        "model_type": "ijepa",
        "hidden_size": size.dim,
        "num_hidden_layers": size.depth,
        "num_attention_heads": size.num_heads,
        "intermediate_size": size.mlp_hidden,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "initializer_range": 0.02,
        "layer_norm_eps": LAYER_NORM_EPS,
        "image_size": encoder.image_size[0],
        "patch_size": encoder.patch_size,
        "num_channels": CHANNELS,
        "qkv_bias": True,
    }


def state(encoder: VisionTransformer) -> dict[str, Tensor]:
    """Their names for our tensors."""
    official = encoder_to_official(encoder)
    theirs = {
        "embeddings.position_embeddings": official.pop("pos_embed"),
        "embeddings.patch_embeddings.projection.weight": official.pop("patch_embed.proj.weight"),
        "embeddings.patch_embeddings.projection.bias": official.pop("patch_embed.proj.bias"),
        "layernorm.weight": official.pop("norm.weight"),
        "layernorm.bias": official.pop("norm.bias"),
    }
    for name, tensor in official.items():
        theirs |= _block_entry(name, tensor)
    return {name: tensor.contiguous() for name, tensor in theirs.items()}


def _block_entry(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """blocks.3.attn.qkv.weight -> three entries, anything else -> one."""
    _, index, rest = name.split(".", 2)
    part, kind = rest.rsplit(".", 1)
    layer = f"encoder.layer.{index}"
    if part == "attn.qkv":
        parts = zip(("query", "key", "value"), tensor.chunk(3), strict=True)
        return {f"{layer}.attention.attention.{which}.{kind}": chunk for which, chunk in parts}
    return {f"{layer}.{_LAYER[part]}.{kind}": tensor}
