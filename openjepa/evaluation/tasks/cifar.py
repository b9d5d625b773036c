"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009), official splits. CIFAR-100 is in table 3 of I-JEPA; the linear probe is VISSL's.

The paper enlarges the images to 256 pixels and crops 224. An encoder for small images sees all 32 × 32 pixels.
"""

from openjepa.evaluation.tasks.definition import Definition, tasks

LINEAR = {"epochs": 28, "milestones": (8, 16, 24)}

tasks.register("cifar10")(
    Definition(
        "what is it, 10 classes",
        "cifar10",
        crop=0.875,
        whole_below=128,
        linear=LINEAR,
        folders=("cifar10", "cifar-10-batches-bin", "cifar-10-batches-py", "cifar-10-binary.tar.gz", "cifar10.npz"),
    ),
)

tasks.register("cifar100")(
    Definition(
        "what is it, 100 classes",
        "cifar100",
        crop=0.875,
        whole_below=128,
        linear=LINEAR,
        folders=("cifar100", "cifar-100-binary", "cifar-100-python", "cifar-100-binary.tar.gz", "cifar100.npz"),
    ),
)
