"""A downstream task: which data, which label, which split, which metric, and how the paper probes it.

A task is one entry in one small file of this folder; `openjepa evaluate --task NAME[:PATH]` finds it by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from openjepa.core.registry import Registry
from openjepa.data.crops.evaluation import EvaluationCrop

Metric = Literal["accuracy", "balanced accuracy"]  # top-1; the mean of the classes' own accuracies


@dataclass(frozen=True)
class Definition:
    about: str  # the question, in a few words
    source: str  # a registered data source …
    label: str = "class"  # … and which of its labels
    train: str = "train"
    test: str = "test"  # the papers test on what the data sets call validation; our sources give it for "test" too
    metric: Metric = "accuracy"
    crop: float = 1.0  # side of the centred test crop; "resize 256, crop 224" is 0.875
    whole_below: int = 0  # encoders for images smaller than this see the whole image instead
    squeeze: bool = False  # change the proportions instead of cropping
    linear: Mapping[str, Any] = field(default_factory=dict)  # options of the linear probe, as published
    probes: tuple[str, ...] = ("knn", "logistic", "linear")
    labels: tuple[str, ...] = ()  # file names of the list of labelled images; not empty: only listed images have labels
    folders: tuple[str, ...] = ()  # usual folders or files of the data below a data root
    is_embedded: bool = False  # needs no data on disk; its path is a number of images

    def evaluation_crop(self, image_size: tuple[int, int]) -> EvaluationCrop:
        crop = 1.0 if max(image_size) < self.whole_below else self.crop
        return EvaluationCrop(image_size, crop=crop, squeeze=self.squeeze)


tasks: Registry[Definition] = Registry("task", "openjepa.evaluation.tasks")
