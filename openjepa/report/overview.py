"""The sections of a report that need no pictures: the headline, the curves, broken pictures, the config."""

from collections.abc import Mapping
from html import escape

from torch import nn

from openjepa.core import config as configs
from openjepa.core.contracts import Method
from openjepa.machine.console import duration
from openjepa.report import captions, scores
from openjepa.report.figures import curves
from openjepa.report.page import Section, figure_html, paragraph, table
from openjepa.report.record import Record
from openjepa.training import verdict

NUM_BROKEN_SHOWN = 10


def headline(record: Record, method: Method) -> str:
    """What was trained, in four tiles and a list."""
    tiles = [_model_tile(record, method), _data_tile(record), _time_tile(record), scores.tile(record)]
    boxes = "".join(
        f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b><small>{escape(note)}</small></div>'
        for name, value, note in tiles
    )
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in _facts(record) if text)
    return f'<div class="tiles">{boxes}</div><dl>{lines}</dl>'


def _model_tile(record: Record, method: Method) -> tuple[str, str, str]:
    note = f"{record.config.method['name']} · {_millions(method.encoder)} parameters in the encoder"
    return "Model", record.config.model.name, note


def _data_tile(record: Record) -> tuple[str, str, str]:
    height, width = record.config.data.height_width
    return "Pictures", record.config.data.source, f"{height} × {width} pixels, no labels used"


def _time_tile(record: Record) -> tuple[str, str, str]:
    batch_size = record.config.train.batch_size
    return "Training", duration(record.seconds), f"{record.steps:,} steps of {batch_size} pictures"


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
        status = "running or killed: the figures show its newest checkpoint"
    return f"{status}, started {started[:16].replace('T', ' ')} UTC" if started else status


def training(record: Record) -> Section:
    if not record.metrics:
        return Section("training", "Training", paragraph("The run has no metrics yet."))
    drawn = figure_html(curves.figure(record.metrics), "training curves")
    return Section("training", "Training", _verdict(record) + paragraph(captions.TRAINING) + drawn)


def _verdict(record: Record) -> str:
    """What the watch says at the end, and what it said on the way."""
    said, now = verdict.changes(record.metrics), verdict.judge(record.metrics)
    since = f", since step {said[-1][0]}" if said else ""
    text = f"<b>{escape(now.kind.capitalize())}</b>{since}: {escape(now.text)}."
    past = "".join(f"<li>Step {step}: {escape(str(was))}.</li>" for step, was in said[:-1])
    before = f"<details><summary>What the watch said before</summary><ul>{past}</ul></details>" if past else ""
    return paragraph(text, "warning" if now.is_bad else "verdict") + before


def broken(record: Record) -> Section | None:
    if not record.broken:
        return None
    rows = record.broken[:NUM_BROKEN_SHOWN]
    text = f"Pictures that could not be decoded and were replaced: {len(record.broken):,}."
    if len(record.broken) > len(rows):
        text += f" The first {len(rows)}; all are in <code>broken.jsonl</code>."
    cells = [[escape(str(row.get("path", ""))), escape(str(row.get("reason", "")))] for row in rows]
    return Section("broken", "Broken pictures", paragraph(text) + table(["picture", "reason"], cells))


def config(record: Record) -> Section:
    settings = f"<pre>{escape(configs.dump(record.config))}</pre>"
    return Section("config", "Config", f"<details><summary>Every setting, with its value</summary>{settings}</details>")


def _millions(network: nn.Module) -> str:
    count = sum(parameter.numel() for parameter in network.parameters())
    return f"{count / 1e6:.1f} M" if count >= 1e6 else f"{count / 1e3:.0f} k"
