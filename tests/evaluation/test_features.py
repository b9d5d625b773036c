"""Frozen features: in eval mode, in order, the right blocks, from any encoder."""

import pytest
import torch
from torch import Tensor, nn

from openjepa.core.errors import BadInput
from openjepa.data.batches.build import open_images
from openjepa.data.batches.images import Images
from openjepa.data.crops.evaluation import EvaluationCrop
from openjepa.data.sources.arrays import ArraySource
from openjepa.evaluation import encoders, features
from openjepa.evaluation.probes.baselines import RawPixels
from openjepa.models.vit import VisionTransformer


class Spy(nn.Module):
    """The mean colour; notes in which mode it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Dropout()
        self.modes: list[tuple[bool, bool, bool]] = []

    def forward(self, images: Tensor) -> Tensor:
        self.modes.append((self.training, self.inner.training, torch.is_grad_enabled()))
        return images.mean(dim=(2, 3))


def grey(number: int) -> Images:
    levels = torch.arange(number, dtype=torch.uint8)[:, None, None, None].expand(number, 3, 8, 8).contiguous()
    return open_images(ArraySource("grey", levels), (EvaluationCrop((8, 8)),))


def test_features_are_extracted_in_eval_mode_without_gradients_and_in_order() -> None:
    spy = Spy().train()
    spy.inner.eval()  # one part in another mode than the rest, as people freeze batch norm
    index = torch.tensor([9, 0, 5, 7, 1])
    extracted = features.extract(grey(10), index, {"spy": spy}, batch_size=2)["spy"]
    assert spy.modes == [(False, False, False)] * 3
    assert spy.training and not spy.inner.training, "every part is back in its own mode"
    assert extracted.is_valid.all() and extracted.layers[:, 0].argsort().tolist() == index.argsort().tolist()


def test_an_encoder_that_fails_stays_in_its_mode() -> None:
    class Failing(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            raise RuntimeError("no")

    encoder = Failing().train()
    with pytest.raises(RuntimeError, match="no"):
        features.extract(grey(2), torch.arange(2), {"x": encoder})
    assert encoder.training


def test_features_can_be_learned_from() -> None:
    """A tensor of inference mode would refuse to be differentiated through."""
    extracted = features.extract(grey(4), torch.arange(4), {"spy": Spy()})["spy"]
    weight = torch.zeros(3, requires_grad=True)
    (extracted.layers @ weight).sum().backward()
    assert weight.grad is not None


def test_the_last_blocks_pass_the_final_norm_and_come_earliest_first(tiny_encoder: VisionTransformer) -> None:
    images, outputs = torch.randn(2, 3, 32, 32), []
    with torch.no_grad():
        nn.init.normal_(tiny_encoder.norm.weight)
        for block in tiny_encoder.blocks:
            block.register_forward_hook(lambda module, arguments, output: outputs.append(output))
        expected_last = tiny_encoder(images)
        vectors = encoders.pool_features(tiny_encoder, images)
        slow = [tiny_encoder.norm(output).mean(dim=1) for output in outputs[: len(tiny_encoder.blocks)]]
    assert torch.allclose(vectors, torch.cat(slow, dim=1), atol=1e-6)  # two blocks: fewer than four is all of them
    dim = encoders.width(tiny_encoder, vectors)
    assert torch.allclose(vectors[:, -dim:], expected_last.mean(dim=1), atol=1e-6)
    assert torch.allclose(vectors[:, -dim:], tiny_encoder.pool(images), atol=1e-6)


def test_of_many_blocks_the_last_four_are_taken(tiny_encoder: VisionTransformer) -> None:
    deep = VisionTransformer(
        tiny_encoder.size.__class__(16, 6, 2, 32, 8, 2), patch_size=4, image_size=(8, 8), patch_init=0.2
    )
    images = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        vectors = encoders.pool_features(deep, images)
        third = deep.norm(list(deep.layers(images))[2]).mean(dim=1)
    assert vectors.shape == (2, 4 * 16) and torch.allclose(vectors[:, :16], third, atol=1e-6)


class Returns(nn.Module):
    def __init__(self, output: object) -> None:
        super().__init__()
        self.output = output

    def forward(self, images: Tensor) -> object:
        return self.output


def test_tokens_are_averaged_and_vectors_taken_as_they_are() -> None:
    tokens = torch.randn(2, 5, 7)
    assert torch.allclose(encoders.pool_features(Returns(tokens), torch.zeros(2, 3, 4, 4)), tokens.mean(dim=1))
    assert torch.equal(encoders.pool_features(Returns(tokens[:, 0]), torch.zeros(2, 3, 4, 4)), tokens[:, 0])


@pytest.mark.parametrize("output", [torch.zeros(2, 3, 4, 4), torch.zeros(2), torch.zeros(3, 7), (torch.zeros(2, 3),)])
def test_any_other_output_is_refused(output: object) -> None:
    with pytest.raises(BadInput, match=r"the encoder Returns maps .* expected a tensor \[B, N, D\] or \[B, D\]"):
        encoders.pool_features(Returns(output), torch.zeros(2, 3, 4, 4))


def test_raw_pixels_of_small_images_are_the_pixels_and_of_large_ones_their_means() -> None:
    small, large = torch.randn(2, 3, 8, 8), torch.randn(1, 3, 64, 64)
    assert torch.equal(RawPixels()(small), small.flatten(1))
    shrunk = RawPixels()(large).unflatten(1, (3, 32, 32))
    assert torch.allclose(shrunk[0, 1, 0, 0], large[0, 1, :2, :2].mean(), atol=1e-6)


def test_the_weights_hash_sees_every_tensor_and_nothing_else() -> None:
    first, second = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    before = encoders.weights_hash(first)
    assert before == encoders.weights_hash(second) == encoders.weights_hash(first.eval())
    second.running_mean[2] += 1e-6
    assert encoders.weights_hash(second) != before


def test_equal_weights_in_different_code_behave_differently() -> None:
    class Other(Spy):
        def forward(self, images: Tensor) -> Tensor:
            return 2 * images.amax(dim=(2, 3))

    assert encoders.weights_hash(Spy()) == encoders.weights_hash(Other())
    assert encoders.behaviour(Spy(), (8, 8)) == encoders.behaviour(Spy(), (8, 8))
    assert encoders.behaviour(Spy(), (8, 8)) != encoders.behaviour(Other(), (8, 8))
