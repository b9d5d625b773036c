"""`openjepa bench …`: measure this machine."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from openjepa.cli import tables
from openjepa.cli.options import AsJson, Count, Overrides
from openjepa.core.errors import BadInput


def masks(*, batch_size: Count = 256, grid: Count = 14, json: AsJson = False) -> None:
    """Measure the milliseconds to draw masks for a batch, on one thread, for every strategy.

    Example: openjepa bench masks

    Args:
        batch_size: Images.
        grid: Patches along a side.
    """
    from openjepa.benchmarks import masks as bench_masks

    tables.rows(bench_masks.masks(batch_size=batch_size, side=grid), as_json=json)


def step(
    *,
    model: str | None = None,
    image_size: Count | None = None,
    batch_size: Count | None = None,
    steps: Count = 10,
    beside_load: Annotated[bool, Parameter(negative=())] = False,
    reference: Path | None = None,
    set_: Overrides = None,
    json: AsJson = False,
) -> None:
    """Measure images per second of a training step, and the share of this machine's matrix-product peak.

    Without --model: three fixed shapes, the first also with the shared predictor. They take some minutes on a CPU.
    With --model: 32 px and a batch of 128 by default. compile, accumulate and clip are not measured.

    Example: openjepa bench step --model vit-small/8 --image-size 96 --batch-size 64

    Example: openjepa bench step --beside-load

    Example: openjepa bench step --reference ijepa/

    Args:
        model: Size and patch, such as vit-small/8.
        image_size: In pixels.
        batch_size: Images in a step.
        steps: Number of timed steps, or of rounds with --beside-load.
        beside_load: Measure how much speed is left beside one busy core, with the processes that pretrain would use.
        reference: A checkout of the published I-JEPA code; its training step and ours take turns.
        set_: Any setting by its dotted path, such as --set method.predictor.attention=shared; repeatable.
    """
    from openjepa.benchmarks import load as bench_load
    from openjepa.benchmarks import reference as bench_reference
    from openjepa.benchmarks import step as bench_step

    words = [f"model.name={model or 'vit-tiny/4'}", f"data.image_size={image_size or 32}"]
    words += [f"train.batch_size={batch_size or 128}", *(set_ or [])]
    if beside_load and reference is not None:
        raise BadInput("--beside-load and --reference are two measurements; give one of them")
    if beside_load:
        tables.mapping(bench_load.beside_load(words, num_rounds=steps), as_json=json)
        return
    if reference is not None:
        tables.mapping(bench_reference.against(words, reference, num_steps=steps), as_json=json)
        return
    if model is None:
        if image_size is not None or batch_size is not None:
            raise BadInput("--image-size and --batch-size need a --model; without one three fixed shapes are measured")
        tables.rows(bench_step.shapes(set_ or [], num_steps=steps), as_json=json)
        return
    tables.mapping(bench_step.step(words, num_steps=steps), as_json=json)


def scaling(*, figure: Path | None = None, json: AsJson = False) -> None:
    """Measure how the cost of each part of a step grows with patches, width and batch: 1 is linear.

    Example: openjepa bench scaling --figure scaling.png

    Args:
        figure: The file for a figure of the curves.
    """
    from openjepa.benchmarks import scaling as bench_scaling
    from openjepa.report.figures import scaling as drawing

    points = bench_scaling.measure()
    if figure is not None:
        drawing.figure(bench_scaling.curves(points)).savefig(figure, dpi=120)
    tables.rows(bench_scaling.exponents(points), as_json=json)


def probes(
    *, train: Count = 50_000, test: Count = 10_000, dim: Count = 192, classes: Count = 10, json: AsJson = False
) -> None:
    """Measure the seconds that each probe takes on random features.

    Example: openjepa bench probes --classes 100

    Args:
        train: Labelled samples.
        test: Samples to classify.
        dim: Width of the features.
        classes: Number of classes.
    """
    from openjepa.benchmarks import probes as bench_probes
    from openjepa.core.contracts import probes as known

    rows = bench_probes.on_features(num_train=train, num_test=test, dim=dim, num_classes=classes, names=known.names())
    tables.rows(rows, as_json=json)


def features(*, model: str = "vit-mini/4", image_size: Count = 32, images: Count = 2048, json: AsJson = False) -> None:
    """Measure images per second of feature extraction, and of the forward pass alone on images in memory.

    Example: openjepa bench features --model vit-small/8 --image-size 96 --images 512

    Args:
        model: Size and patch.
        image_size: In pixels.
        images: Number of images.
    """
    from openjepa.benchmarks import probes as bench_probes

    speeds = bench_probes.extraction(model=model, image_size=image_size, num_images=images)
    tables.mapping(speeds, as_json=json)


def data(
    *,
    images: Count = 512,
    image_size: Annotated[tuple[Count, ...], Parameter(consume_multiple=False, negative=())] = (64, 224),
    workers: Annotated[int, Parameter(validator=validators.Number(gte=0))] = 0,
    batch_size: Count = 64,
    json: AsJson = False,
) -> None:
    """Measure images per second from a folder of 640×480 JPEG files to training batches, and with plain Pillow.

    Example: openjepa bench data --image-size 64 --image-size 224

    Args:
        images: Number of files to write and read.
        image_size: Of the training crops, in pixels; repeatable.
        workers: Decoding processes; 0: decode in the main process.
        batch_size: Images in a batch.
    """
    from openjepa.benchmarks import data as bench_data

    rows = bench_data.run(num_images=images, sizes=list(image_size), num_workers=workers, batch_size=batch_size)
    tables.rows(rows, as_json=json)
