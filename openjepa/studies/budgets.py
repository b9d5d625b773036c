"""Equal compute: each arm trains for as many steps as a number of floating-point operations allows."""

import math
from dataclasses import replace

from openjepa.core import config as configs
from openjepa.core.errors import BadInput
from openjepa.planning import cost
from openjepa.studies.study import Study
from openjepa.training import setup


def with_equal_flops(study: Study, flops: float) -> Study:
    """Counts the operations of a step as `openjepa plan` does."""
    if not math.isfinite(flops) or flops <= 0:
        raise BadInput(f"--flops is {flops}; expected a number of operations, such as 1e15")
    arms = []
    for arm in study.arms:
        config = setup.resolve(configs.load(study.settings(arm, study.terms.seeds[0])))
        size = config.train.batch_size
        step_flops = size * cost.count(config, num_images=size, precision="float32").flops
        num_steps = round(flops / step_flops)
        if not num_steps:
            raise BadInput(f"--flops {flops:g} is less than one step of {arm.name}, which takes {step_flops:.3g}")
        arms.append(replace(arm, settings={**arm.settings, "train.steps": num_steps}))
    return replace(study, arms=tuple(arms))
