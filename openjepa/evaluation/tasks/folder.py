"""Your own labelled images: class folders, with train and val (or test) folders above them, or split by us.

`folder:DIR` or just DIR; any other labelled source (`npz:FILE`, a list) works in the same way.
"""

from openjepa.evaluation.tasks.definition import Definition, tasks

tasks.register("folder")(Definition("which class", "folder"))
