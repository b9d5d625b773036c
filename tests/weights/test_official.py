"""Other layouts: the official archive, and Hugging Face's I-JEPA as an independent truth for our encoder."""

import copy
from pathlib import Path

import pytest
import torch

import openjepa
from openjepa.core.errors import BadInput
from openjepa.models.predictor import Predictor
from openjepa.models.sizes import SIZES
from openjepa.models.vit import VisionTransformer
from openjepa.weights import huggingface, official

pytestmark = pytest.mark.slow


@pytest.fixture
def encoder() -> VisionTransformer:
    torch.manual_seed(0)
    made = VisionTransformer(SIZES["nano"], patch_size=8, image_size=(48, 48), patch_init=0.1)
    for parameter in made.parameters():  # away from the zeros and ones of a fresh model
        parameter.data += 0.1 * torch.randn_like(parameter)
    return made.eval()


def test_our_encoder_equals_transformers_ijepa(encoder: VisionTransformer, tmp_path: Path) -> None:
    from transformers import IJepaModel

    huggingface.write(tmp_path, encoder)
    theirs, loading = IJepaModel.from_pretrained(tmp_path, add_pooling_layer=False, output_loading_info=True)
    assert not loading["missing_keys"] and not loading["unexpected_keys"] and not loading["mismatched_keys"]
    images = torch.randn(2, 3, 48, 48)
    with torch.no_grad():
        difference = (encoder(images) - theirs.eval()(pixel_values=images).last_hidden_state).abs().max()
    assert difference <= 1e-5


def write_archive(path: Path, encoder: VisionTransformer) -> tuple[VisionTransformer, Predictor]:
    torch.manual_seed(1)
    target = copy.deepcopy(encoder)
    for parameter in target.parameters():
        parameter.data += 0.01 * torch.randn_like(parameter)
    predictor = Predictor(dim=64, width=32, depth=2, num_heads=2)
    official.write(path, context_encoder=encoder, target_encoder=target, predictor=predictor, extra={"epoch": 3})
    return target, predictor


def test_the_official_archive_survives_a_round_trip(encoder: VisionTransformer, tmp_path: Path) -> None:
    path = tmp_path / "x-latest.pth.tar"
    target, predictor = write_archive(path, encoder)
    images = torch.randn(2, 3, 48, 48)
    with torch.no_grad():
        assert torch.equal(openjepa.load_encoder(path)(images), target(images))
        assert torch.equal(openjepa.load_encoder(path, which="context")(images), encoder(images))
    archive = official.read(path)
    assert archive["epoch"] == 3
    again = official.predictor_from(archive["predictor"], num_heads=2)
    for name, tensor in predictor.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)


def test_the_archive_has_the_official_names_and_shapes(encoder: VisionTransformer, tmp_path: Path) -> None:
    write_archive(tmp_path / "x.pth.tar", encoder)
    archive = official.read(tmp_path / "x.pth.tar")
    shapes = {name: tuple(tensor.shape) for name, tensor in archive["target_encoder"].items()}
    assert shapes["module.patch_embed.proj.weight"] == (64, 3, 8, 8)
    assert shapes["module.pos_embed"] == (1, 36, 64)
    assert shapes["module.blocks.2.attn.qkv.weight"] == (192, 64)
    assert shapes["module.blocks.0.mlp.fc1.bias"] == (256,)
    assert {"module.norm.weight", "module.blocks.0.norm1.weight", "module.blocks.0.attn.proj.bias"} <= shapes.keys()
    predictor = {name: tuple(tensor.shape) for name, tensor in archive["predictor"].items()}
    assert predictor["module.mask_token"] == (1, 1, 32) and predictor["module.predictor_pos_embed"] == (1, 36, 32)
    assert predictor["module.predictor_embed.weight"] == (32, 64) and predictor["module.predictor_proj.weight"] == (
        64,
        32,
    )
    assert {"module.predictor_norm.bias", "module.predictor_blocks.1.mlp.fc2.weight"} <= predictor.keys()


class Evil:
    """Would write a file when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_an_archive_with_code_is_refused_and_the_code_not_run(tmp_path: Path) -> None:
    torch.save({"target_encoder": Evil(tmp_path / "ran")}, tmp_path / "evil.pth.tar")
    with pytest.raises(BadInput, match="cannot|not an I-JEPA archive that can be read safely"):
        openjepa.load_encoder(tmp_path / "evil.pth.tar")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [b"", b"hello", None])
def test_what_is_not_an_archive_is_refused_in_one_sentence(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "x.pth.tar"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput) as error:
        openjepa.load_encoder(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_an_archive_of_another_shape_is_refused(tmp_path: Path) -> None:
    torch.save({"model": {}}, tmp_path / "x.pth")
    with pytest.raises(BadInput, match="expected the keys encoder, predictor and target_encoder"):
        openjepa.load_encoder(tmp_path / "x.pth")
