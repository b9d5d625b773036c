"""ImageNet-1k: all labels, as in table 1 of I-JEPA, and 1 % of them, as in table 2. Data: class folders, or Kaggle's layout.

The linear probe is VISSL's for ViT-H/16: LARS, batch 16,384, 50 epochs, a tenth at 15, 30 and 45; rates are per 256 images.
"""

from openjepa.evaluation.tasks.definition import Definition, tasks

LINEAR = {
    "optimizer": "lars",
    "batch_size": 16384,
    "epochs": 50,
    "milestones": (15, 30, 45),
    "learning_rates": (0.1, 0.01),
    "weight_decays": (5e-4, 0.0),
}
FOLDERS = ("imagenet", "imagenet1k", "ILSVRC2012", "ILSVRC")

tasks.register("imagenet1k")(
    Definition("what is it, 1,000 classes", "imagenet", crop=0.875, linear=LINEAR, folders=FOLDERS),
)

# 12,811 images in the list that SimCLR published and MSN uses too. Logistic regression comes first: as
# far as we know, the paper's ablations used it. Its main table fine-tunes (--probe finetune).
tasks.register("imagenet1k-1pct")(
    Definition(
        "what is it, 1,000 classes, from 1 % of the labels",
        "imagenet",
        crop=0.875,
        linear=LINEAR,
        probes=("logistic", "linear", "knn"),
        labels=("1percent.txt", "imagenet_1percent.txt", "1pct.txt", "subset1.txt"),
        folders=FOLDERS,
    ),
)
