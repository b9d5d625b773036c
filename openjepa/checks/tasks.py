"""What every task promises: a source and probes that exist, options that the linear probe knows, a question in words."""

import torch

from openjepa.core import schema
from openjepa.core.contracts import probes, sources
from openjepa.core.errors import BadInput
from openjepa.data.open import open_source
from openjepa.evaluation.probes.linear.linear import Linear
from openjepa.evaluation.tasks.definition import Definition


def task(definition: Definition) -> None:
    """
    >>> from openjepa import checks
    >>> from openjepa.evaluation.tasks.definition import Definition
    >>> checks.task(Definition("which class", "folder", linear={"epochs": 10, "milestones": ()}))
    """
    assert definition.about, "the task does not say what it asks; fill in about"
    assert definition.source in sources, f'no data source "{definition.source}"'
    assert definition.probes, "the task names no probe"
    for name in definition.probes:
        assert name in probes, f'no probe "{name}"'
    try:
        schema.resolve(Linear, definition.linear, where="linear")
    except BadInput as error:
        raise AssertionError(f"the linear probe refuses its options: {error}") from error
    if definition.is_embedded:
        _check_embedded(definition)


def _check_embedded(definition: Definition) -> None:
    """Opens without data on disk; its path is a number of images."""
    for split, number in ((definition.train, 40), (definition.test, 20)):
        labels = open_source(f"{definition.source}:{number}", split=split, image_size=(16, 16)).all_labels()
        assert definition.label in labels, f'{definition.source} has no label "{definition.label}"'
        classes = labels[definition.label]
        assert len(classes) == number, f"{definition.source}:{number} has {len(classes)} images"
        assert len(torch.unique(classes)) > 1, f'"{definition.label}" has one class only'
