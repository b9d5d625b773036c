"""The parts of a report that need no images: the headline, the curves, the list of broken images, the config."""

from collections.abc import Mapping

from torch import nn

from openjepa.core import config as configs
from openjepa.core.contracts import Method
from openjepa.machine.console import duration
from openjepa.report import captions, scores
from openjepa.report.figures import curves
from openjepa.report.page import Fold, Paragraph, Part, Plot, Section, Table, Tiles
from openjepa.report.record import Record
from openjepa.training import verdict

NUM_BROKEN_SHOWN = 10


def headline(record: Record, method: Method) -> Tiles:
    """What was trained, in four tiles and a list."""
    tiles = [_model_tile(record, method), _data_tile(record), _time_tile(record), scores.tile(record)]
    return Tiles(tiles, _facts(record))


def _model_tile(record: Record, method: Method) -> tuple[str, str, str]:
    note = f"{record.config.method['name']} · {_millions(method.encoder)} parameters in the encoder"
    return "Model", record.config.model.name, note


def _data_tile(record: Record) -> tuple[str, str, str]:
    height, width = record.config.data.height_width
    return "Images", record.config.data.source, f"{height} × {width} pixels, no labels used"


def _time_tile(record: Record) -> tuple[str, str, str]:
    batch_size = record.config.train.batch_size
    return "Training", duration(record.seconds), f"{record.steps:,} steps of {batch_size} images"


def _facts(record: Record) -> list[tuple[str, str]]:
    source = record.provenance
    machine, gpus = source.machine, ", ".join(source.machine.gpus)
    cores = f"{machine.processor}, {machine.cores} cores" if machine.cores is not None else ""
    masks = record.config.method.get("masks", {})
    return [
        ("Command", source.command),
        ("Commit", source.commit or "not under version control"),
        ("Status", _status(record)),
        ("Masks", str(masks.get("name", "")) if isinstance(masks, Mapping) else ""),
        ("Machine", " · ".join(part for part in (gpus, cores, source.precision) if part)),
        ("Versions", " · ".join(f"{name} {version}" for name, version in source.versions.items() if version)),
        ("Data fingerprint", source.data.fingerprint or ""),
    ]


def _status(record: Record) -> str:
    status, started = record.provenance.status, record.provenance.started
    if status == "running":
        status = "running or killed; the figures show the newest checkpoint"
    return f"{status}, started {started[:16].replace('T', ' ')} UTC" if started else status


def training(record: Record) -> Section:
    if not record.metrics:
        return Section("training", "Training", [Paragraph("The run has no metrics yet.")])
    plot = Plot(curves.figure(record.metrics), "training curves")
    return Section("training", "Training", [*_verdict(record), Paragraph(captions.TRAINING), plot])


def _verdict(record: Record) -> list[Part]:
    """The watch's verdict at the end of the run, and those before it."""
    changes, now = verdict.changes(record.metrics), verdict.judge(record.metrics)
    since = f", since step {changes[-1][0]}" if changes else ""
    text = captions.VERDICT.format(kind=now.kind.capitalize(), since=since, text=now.text)
    parts: list[Part] = [Paragraph(text, "warning" if now.is_bad else "verdict")]
    if changes[:-1]:
        parts.append(Fold("Earlier verdicts of the watch", [f"Step {step}: {was}." for step, was in changes[:-1]]))
    return parts


def broken(record: Record) -> Section | None:
    if not record.broken:
        return None
    rows = record.broken[:NUM_BROKEN_SHOWN]
    text = f"Images that could not be decoded and were replaced: {len(record.broken):,}."
    if len(record.broken) > len(rows):
        text += f" These are the first {len(rows)}; broken.jsonl lists all."
    cells = [[str(row.get("path", "")), str(row.get("reason", ""))] for row in rows]
    return Section("broken", "Broken images", [Paragraph(text), Table(["image", "reason"], cells)])


def config(record: Record) -> Section:
    return Section("config", "Config", [Fold("Every setting, with its value", code=configs.dump(record.config))])


def _millions(network: nn.Module) -> str:
    count = sum(parameter.numel() for parameter in network.parameters())
    return f"{count / 1e6:.1f} M" if count >= 1e6 else f"{count / 1e3:.0f} k"
