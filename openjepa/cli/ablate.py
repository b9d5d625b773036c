"""`openjepa ablate`: change one setting at a time."""

from pathlib import Path

from openjepa.cli.compare import StudyOptions, run_study
from openjepa.cli.options import AsJson, Imports, Words


def ablate(
    name: str, *, only: Words = None, options: StudyOptions, json: AsJson = False, imports: Imports = ()
) -> None:
    """Change one thing at a time, as the paper's ablations do, and see what it does to the scores.

    Example: openjepa ablate masks --base cifar10_20min --data cifar10:DIR --minutes 3 --tasks cifar10:DIR

    Args:
        name: masks, targets, target-masking, predictor-depth, predictor-width, num-targets, target-scale, context-scale, ema,
            weight-decay, model-size, or a YAML file of your own.
        only: One arm; repeatable; default: all arms.
    """
    from openjepa.studies import ablate as ablation

    study = ablation.study(name, options.terms(imports), only=only or [])
    run_study(study, options, Path(f"ablation-{Path(name).stem}"), as_json=json)
