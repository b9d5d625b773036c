"""What each kind of part promises, as functions: give one your own part and it raises AssertionError if a promise is broken.

>>> from openjepa import checks
>>> from openjepa.masks.random import Random
>>> checks.mask(Random(target_scale=0.75))

Our own tests call the same functions on every registered part (tests/contracts).
"""

from openjepa.checks.masks import mask
from openjepa.checks.methods import method
from openjepa.checks.monitors import monitor
from openjepa.checks.probes import probe
from openjepa.checks.sources import source
from openjepa.checks.tasks import task

__all__ = ["mask", "method", "monitor", "probe", "source", "task"]
