"""The embedded counterparts of Clevr/Count and Clevr/Dist, and three more questions about the same images (data/sources/scenes).

The distance has bins of its own, because this world has other distances. The probe's schedule is that of Clevr/Count.
"""

from openjepa.evaluation.tasks.definition import Definition, tasks

LINEAR = {"epochs": 50, "milestones": (), "final_ratio": 0.01}
QUESTIONS = {
    "scenes-count": ("count", "how many objects, 3 to 10"),
    "scenes-dist": ("distance", "how near the nearest object is, 6 bins"),
    "scenes-shape": ("shape", "shape of the largest object"),
    "scenes-colour": ("colour", "colour of the largest object, 8 classes"),
    "scenes-material": ("material", "metal or not, the largest object"),
}

for name, (label, about) in QUESTIONS.items():
    tasks.register(name)(Definition(about, "scenes", label, linear=LINEAR, is_embedded=True))
