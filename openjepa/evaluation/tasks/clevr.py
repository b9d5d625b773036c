"""Clevr/Count and Clevr/Dist, the low-level tasks of I-JEPA's table 4, on CLEVR_v1.0 (Johnson et al. 2017).

Labels as in VTAB (Zhai et al. 2019); data/sources/clevr.py has the bins. Trained on the official training scenes, tested on the
validation scenes, as in VISSL, whose configs squeeze the 480×320 images; the paper's text says centre crop.
"""

from openjepa.evaluation.tasks.definition import Definition, tasks

FOLDERS = ("CLEVR_v1.0", "clevr", "CLEVR")

tasks.register("clevr-count")(
    Definition(
        "how many objects, 3 to 10",
        "clevr",
        "count",
        squeeze=True,
        linear={"epochs": 50, "milestones": (), "final_ratio": 0.01},
        folders=FOLDERS,
    ),
)

tasks.register("clevr-dist")(
    Definition(
        "how near the nearest object is, 6 bins",
        "clevr",
        "distance",
        squeeze=True,
        linear={"epochs": 100, "milestones": (), "final_ratio": 0.01},
        folders=FOLDERS,
    ),
)
