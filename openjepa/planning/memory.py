"""What fills a device's memory, in bytes, with all weights on every device (DDP) or a share on each (FSDP)."""

from dataclasses import dataclass

from openjepa.planning.cost import Work

FLOAT32 = 4  # bytes; weights, gradients and moments stay float32 also under autocast
USABLE = 0.9  # share of a device's memory; the driver, NCCL and fragmentation take some
FULL_BLOCKS = 3  # under FSDP: the weights of the current block and of the next one, and one gradient
GIB = 2**30


@dataclass(frozen=True)
class Memory:
    weights: float
    gradients: float
    moments: float  # AdamW's two
    exchange: float  # DDP's second copy of the gradients in buckets, or FSDP's whole blocks
    weight_copies: float  # bfloat16, made by autocast
    activations: float

    @property
    def fixed(self) -> float:
        """The part that does not depend on the number of images."""
        return self.weights + self.gradients + self.moments + self.exchange + self.weight_copies

    @property
    def total(self) -> float:
        return self.fixed + self.activations

    def fits(self, gibibytes: float) -> bool:
        return self.total <= USABLE * GIB * gibibytes


def ddp(work: Work, *, num_images: int, gpus: int) -> Memory:
    """`num_images` on one device at a time."""
    trained = FLOAT32 * work.num_trained
    return Memory(
        weights=FLOAT32 * sum(work.parameters.values()),
        gradients=trained,
        moments=2 * trained,
        exchange=trained if gpus > 1 else 0,
        weight_copies=work.weight_copies,
        activations=num_images * work.activations,
    )


def fsdp(work: Work, *, num_images: int, gpus: int) -> Memory:
    """No copies of weights: FSDP casts a block when it gathers it and drops it after use."""
    trained = FLOAT32 * work.num_trained
    return Memory(
        weights=FLOAT32 * sum(work.parameters.values()) / gpus,
        gradients=trained / gpus,
        moments=2 * trained / gpus,
        exchange=FULL_BLOCKS * FLOAT32 * work.largest_block if gpus > 1 else 0,
        weight_copies=0,
        activations=num_images * work.activations,
    )


def most_images(memory: Memory, work: Work, gibibytes: float) -> int:
    """The number of images that fit on a device at a time; 0 if even the weights do not fit."""
    room = USABLE * GIB * gibibytes - memory.fixed
    return max(int(room // work.activations), 0)
