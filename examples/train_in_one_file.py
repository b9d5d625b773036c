"""I-JEPA in one file: the whole idea without the package, to read in ten minutes and run in one.

It learns from noisy images of blobs made on the spot. A linear probe on frozen features then predicts the colour of the
blobs. Nothing here is fast, resumable or checked; for that, use the package. `python examples/train_in_one_file.py [steps]`

Assran et al., "Self-Supervised Learning from Images with a Joint-Embedding Predictive Architecture", CVPR 2023.
Shapes: B images · N patches · K context patches · M target blocks · T patches per block · D width.
"""

import copy
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

IMAGE, PATCH, GRID, DIM, WIDTH, BATCH = 32, 4, 8, 64, 32, 64
NUM_TARGETS, CONTEXT_PATCHES = 4, 20
COLOURS = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 3)


def blob_images(number: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """-> [B, 3, 32, 32] and the class of each: four small blobs share one of eight colours, in light of any tint and much noise."""
    labels = torch.randint(len(COLOURS), (number,), generator=generator)
    ticks = torch.arange(IMAGE).float()
    images = torch.zeros(number, 3, IMAGE, IMAGE)
    for _ in range(4):
        centre = 3 + 26 * torch.rand(number, 2, 1, generator=generator)
        rows, columns = (ticks - centre[:, 0]) ** 2, (ticks - centre[:, 1]) ** 2  # [B, 32]
        blob = torch.exp(-(rows[:, :, None] + columns[:, None, :]) / 12)[:, None]  # [B, 1, 32, 32]
        images = images * (1 - blob) + COLOURS[labels][:, :, None, None] * blob
    tint = 0.5 * torch.randn(number, 3, 1, 1, generator=generator)
    return images + tint + 0.3 * torch.randn(images.shape, generator=generator), labels


def positions(dim: int) -> torch.Tensor:
    """Fixed sine-cosine positions of the 8×8 grid -> [N, dim]: half for the column, half for the row."""
    frequencies = 10000.0 ** (-torch.arange(dim // 4) / (dim // 4))
    angles = torch.arange(GRID)[:, None] * frequencies  # [8, dim/4]
    axis = torch.cat([angles.sin(), angles.cos()], dim=1)  # [8, dim/2]
    columns, rows = axis.repeat(GRID, 1), axis.repeat_interleave(GRID, dim=0)
    return torch.cat([columns, rows], dim=1)


def pick(tokens: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """[B, N, D], [B, K] -> [B, K, D]"""
    return tokens.gather(1, index[..., None].expand(-1, -1, tokens.shape[2]))


def transformer(dim: int, depth: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(dim, 2, 4 * dim, 0.0, "gelu", batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, depth, nn.LayerNorm(dim), enable_nested_tensor=False)


class Encoder(nn.Module):
    """Patches in, tokens out. With `keep` it reads only these patches and never touches the others."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3 * PATCH**2, DIM)
        self.blocks = transformer(DIM, 3)

    def forward(self, images: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        patches = F.unfold(images, PATCH, stride=PATCH).transpose(1, 2)  # [B, N, 48]
        where = positions(DIM).expand(len(images), -1, -1)  # [B, N, D]
        if keep is not None:
            patches, where = pick(patches, keep), pick(where, keep)
        return self.blocks(self.embed(patches) + where)


class Predictor(nn.Module):
    """Predicts the target encoder's output in a target block from context tokens and the block's positions."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(DIM, WIDTH), nn.Linear(WIDTH, DIM)
        self.mask_token = nn.Parameter(0.02 * torch.randn(WIDTH))
        self.blocks = transformer(WIDTH, 2)

    def forward(self, context: torch.Tensor, context_index: torch.Tensor, target_index: torch.Tensor) -> torch.Tensor:
        """[B, K, D], [B, K], [B, T] -> [B, T, D]"""
        seen = self.enter(context) + positions(WIDTH)[context_index]
        queries = self.mask_token + positions(WIDTH)[target_index]
        x = self.blocks(torch.cat([seen, queries], dim=1))  # [B, K+T, P]
        return self.leave(x[:, -target_index.shape[1] :])


def draw_masks(number: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """-> context [B, K], targets [B, M, T]: blocks of 3×3 or 4×3 patches, and K patches that none of them covers."""
    height, width = ((3, 3), (4, 3))[torch.randint(2, (1,), generator=generator).item()]
    block = (torch.arange(height)[:, None] * GRID + torch.arange(width)).flatten()  # [T]
    top = torch.randint(GRID - height + 1, (number, NUM_TARGETS, 1), generator=generator)
    left = torch.randint(GRID - width + 1, (number, NUM_TARGETS, 1), generator=generator)
    targets = top * GRID + left + block  # [B, M, T]
    taken = torch.zeros(number, GRID**2).scatter_(1, targets.flatten(1), 1.0)
    # Free patches first, in random order. Targets cover at most 48 of 64 patches, and then 16 are free: K must fit.
    order = (taken + 0.5 * torch.rand(taken.shape, generator=generator)).argsort(dim=1)
    num_context = min(CONTEXT_PATCHES, int((taken == 0).sum(dim=1).min()))
    return order[:, :num_context], targets


def train(steps: int, seed: int = 0) -> tuple[Encoder, list[float]]:
    """-> the trained target encoder and the loss of every step."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    encoder, predictor = Encoder(), Predictor()
    target_encoder = copy.deepcopy(encoder).requires_grad_(False)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *predictor.parameters()], weight_decay=0.04)
    losses, mean = [], torch.zeros(GRID**2, DIM)
    for step in range(steps):
        progress = step / steps
        for group in optimizer.param_groups:  # warm-up, then half a cosine
            group["lr"] = 1e-3 * min(progress / 0.1, 0.5 * (1 + math.cos(math.pi * progress)))
        images, _ = blob_images(BATCH, generator)
        context_index, targets_index = draw_masks(BATCH, generator)

        with torch.no_grad():  # targets come from the target encoder, which sees the whole image
            tokens = target_encoder(images)
            # Not in the paper: we subtract the mean of each position, or so small a model learns only positions.
            mean = mean.lerp(tokens.mean(dim=0), 1.0 if step == 0 else 0.05)  # [N, D]
            tokens = F.layer_norm(tokens - mean, (DIM,))
        context = encoder(images, context_index)  # the context encoder sees only the context patches
        loss = torch.zeros(())
        for block in targets_index.unbind(dim=1):  # M separate predictions
            loss = loss + F.smooth_l1_loss(predictor(context, context_index, block), pick(tokens, block)) / NUM_TARGETS

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        momentum = 0.98 + (1.0 - 0.98) * progress
        for slow, fast in zip(target_encoder.parameters(), encoder.parameters(), strict=True):
            slow.lerp_(fast.detach(), 1 - momentum)  # the target encoder follows
        losses.append(loss.item())
    return target_encoder, losses


@torch.no_grad()
def probe(encoder: Encoder, seed: int = 1) -> float:
    """Accuracy of a linear probe (ridge regression to one-hot labels) on the mean token."""
    generator = torch.Generator().manual_seed(seed)
    (x, y), (test_x, test_y) = blob_images(1000, generator), blob_images(1000, generator)
    features, test_features = (encoder(images).mean(dim=1) for images in (x, test_x))
    mean, std = features.mean(dim=0), features.std(dim=0)
    features, test_features = (features - mean) / std, (test_features - mean) / std
    gram = features.T @ features + 10.0 * torch.eye(DIM)
    weights = torch.linalg.solve(gram, features.T @ F.one_hot(y).float())
    return ((test_features @ weights).argmax(dim=1) == test_y).float().mean().item()


if __name__ == "__main__":
    num_steps = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    torch.manual_seed(123)
    print(f"random weights: {100 * probe(Encoder()):.1f} %  (chance {100 / len(COLOURS):.0f} %)")
    trained, history = train(num_steps)
    print(f"loss {history[0]:.3f} -> {history[-1]:.3f} in {num_steps} steps")
    print(f"I-JEPA:         {100 * probe(trained):.1f} %")
