"""iNaturalist 2018: which of 8,142 species. Official training and validation json; the linear probe is VISSL's."""

from openjepa.evaluation.tasks.definition import Definition, tasks

tasks.register("inat18")(
    Definition(
        "which species, 8,142 classes",
        "inat18",
        crop=0.875,
        linear={"epochs": 84, "milestones": (24, 48, 72)},
        folders=("inat18", "inat2018", "iNaturalist2018"),
    ),
)
