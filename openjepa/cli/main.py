"""The command `openjepa`: turns words into calls and prints the results. Exit codes: 0, 1 failed, 2 bad input.

Heavy imports are inside the verbs, so that --help and typos respond at once.
"""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

import openjepa
from openjepa.cli import (
    ablate,
    bench,
    compare,
    data,
    demo,
    doctor,
    evaluate,
    masks,
    plan,
    pretrain,
    recipes,
    report,
    runs,
    speedrun,
)
from openjepa.core import registry
from openjepa.core.errors import BadInput, OpenJepaError

app = App(
    name="openjepa",
    version=openjepa.__version__,
    help="Learn image representations from unlabelled images (I-JEPA). Start with: openjepa demo",
    help_format="plaintext",
)
app.meta.suppress_keyboard_interrupt = False  # main() says what an interruption left
for verb in (
    *(demo.demo, recipes.recipes, pretrain.pretrain, plan.plan, compare.compare, ablate.ablate, speedrun.speedrun),
    *(evaluate.evaluate, masks.masks, report.report, runs.runs, doctor.doctor),
):
    app.command(verb)
data_app = App(name="data", help="Look at images before training on them.\n\nExample: openjepa data check photos/")
data_app.command(data.check)
data_app.command(data.info)
bench_app = App(
    name="bench",
    help="Measure this machine: masks, training step, scaling, data, features, probes.\n\nExample: openjepa bench step",
)
for measure in (bench.masks, bench.step, bench.scaling, bench.data, bench.features, bench.probes):
    bench_app.command(measure)
app.command(data_app)
app.command(bench_app)


@app.meta.default
def run(
    *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    import_: Annotated[list[Path] | None, Parameter(name="--import", negative=(), consume_multiple=False)] = None,
) -> None:
    """Any verb, after somebody's own parts are imported.

    Args:
        import_: A Python file with your own mask, method, probe, source, monitor or task; repeatable.
    """
    imports = registry.import_files(import_ or [])
    command, bound, not_parsed = app.parse_args(words, exit_on_error=False, print_error=False)
    command(*bound.args, **bound.kwargs, **({"imports": imports} if "imports" in not_parsed else {}))


def main() -> None:
    """Runs the command; one clear sentence on stderr and an exit code for everything that a user can fix."""
    try:
        app.meta(sys.argv[1:], exit_on_error=False, print_error=False)
    except OpenJepaError as error:
        _fail(str(error), error.exit_code)
    except CycloptsError as error:
        _fail(" ".join(str(error).split()), BadInput.exit_code)
    except BrokenPipeError:  # whoever read our output has stopped, as in `openjepa runs | head`
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # a full disk, a folder without write permission
        _fail(
            " ".join(str(part) for part in (error.filename, error.strerror or error) if part), OpenJepaError.exit_code
        )
    except KeyboardInterrupt as error:
        _fail(str(error) or "interrupted", 130)


def _fail(text: str, exit_code: int) -> None:
    print(f"openjepa: {text}", file=sys.stderr)
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
