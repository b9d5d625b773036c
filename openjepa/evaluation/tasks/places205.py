"""Places205 (Zhou et al. 2014): which kind of place. Trained on its training list, tested on its validation list, as in VISSL."""

from openjepa.evaluation.tasks.definition import Definition, tasks

tasks.register("places205")(
    Definition(
        "which kind of place, 205 classes",
        "places205",
        crop=0.875,
        linear={"epochs": 14, "milestones": (4, 8, 12)},
        folders=("places205", "Places205"),
    ),
)
