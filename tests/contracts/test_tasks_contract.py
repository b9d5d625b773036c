"""Every registered task keeps its promises (openjepa/checks/tasks.py), and a broken promise is noticed."""

import pytest

from openjepa import checks
from openjepa.core import schema
from openjepa.evaluation.probes.linear.linear import Linear
from openjepa.evaluation.tasks.definition import Definition, tasks
from openjepa.evaluation.tasks.task import open_task

NAMES = tasks.names()
# FACTS 3.2 and 3.4: (optimiser, batch, epochs, milestones, published learning rate per 256, crop, squeezed)
PUBLISHED = {
    "imagenet1k": ("lars", 16384, 50, (15, 30, 45), 0.1, 0.875, False),
    "cifar100": ("sgd", 256, 28, (8, 16, 24), 0.01, 0.875, False),
    "places205": ("sgd", 256, 14, (4, 8, 12), 0.01, 0.875, False),
    "inat18": ("sgd", 256, 84, (24, 48, 72), 0.01, 0.875, False),
    "clevr-count": ("sgd", 256, 50, (), 0.01, 1.0, True),
    "clevr-dist": ("sgd", 256, 100, (), 0.01, 1.0, True),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_registered_task_keeps_its_promises_and_can_be_found_below_a_data_root(name: str) -> None:
    checks.task(tasks[name])
    assert tasks[name].is_embedded or tasks[name].folders or name == "folder"


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (Definition("", "folder"), "does not say what it asks"),
        (Definition("which class", "foldr"), 'no data source "foldr"'),
        (Definition("which class", "folder", probes=()), "names no probe"),
        (Definition("which class", "folder", probes=("knn", "kn")), 'no probe "kn"'),
        (Definition("which class", "folder", linear={"epoch": 3}), 'unknown setting "linear.epoch"'),
        (Definition("how many", "scenes", "counts", is_embedded=True), 'scenes has no label "counts"'),
    ],
)
def test_a_broken_promise_is_noticed(definition: Definition, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        checks.task(definition)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_linear_protocol_is_the_published_one(name: str) -> None:
    optimizer, batch_size, epochs, milestones, lr, crop, squeezed = PUBLISHED[name]
    probe = Linear(**schema.resolve(Linear, tasks[name].linear, where=name))
    assert (probe.optimizer, probe.batch_size, probe.epochs, probe.milestones) == (
        optimizer,
        batch_size,
        epochs,
        milestones,
    )
    assert lr in probe.learning_rates and set(probe.weight_decays) == {5e-4, 0.0}
    assert milestones or probe.final_ratio == 0.01
    preparation = tasks[name].evaluation_crop((224, 224))
    assert (preparation.crop, preparation.squeeze) == (crop, squeezed)


@pytest.mark.parametrize("name", [name for name in NAMES if tasks[name].is_embedded])
def test_an_embedded_task_opens_without_any_data(name: str) -> None:
    task = open_task(name, image_size=(16, 16), num_train=40, num_test=20)
    assert len(task.train.labels) == 40 and len(task.test.labels) == 20
    assert task.num_classes >= 2 and int(task.train.labels.max()) < task.num_classes


def test_small_encoders_see_all_of_a_small_image() -> None:
    assert tasks["cifar100"].evaluation_crop((32, 32)).crop == 1.0
    assert tasks["imagenet1k"].evaluation_crop((64, 64)).crop == 0.875
