"""The command `openjepa`: a thin layer that turns words into calls of openjepa.app and prints what comes back.

Exit codes: 0, 1 failed, 2 bad input.
"""

import sys

from cyclopts import App, CycloptsError

import openjepa
from openjepa.cli import looking, machine, pictures, planning, studying, training
from openjepa.core.errors import BadInput, OpenJepaError

app = App(
    name="openjepa",
    version=openjepa.__version__,
    help="Learn image representations from unlabelled pictures (I-JEPA). Start with: openjepa demo",
    help_format="plaintext",
)
for verb in (
    training.demo,
    training.pretrain,
    planning.plan,
    studying.compare,
    studying.ablate,
    looking.evaluate,
    looking.masks,
    looking.report,
    looking.runs,
    machine.doctor,
):
    app.command(verb)
data = App(name="data", help="Look at pictures before training on them.")
data.command(pictures.check)
data.command(pictures.info)
bench = App(name="bench", help="Measure this machine: masks, training step, scaling, data, features, probes.")
for measure in (machine.masks, machine.step, machine.scaling, machine.data, machine.features, machine.probes):
    bench.command(measure)
app.command(data)
app.command(bench)


def main() -> None:
    """Runs the command; one clear sentence on stderr and an exit code for everything a user can mend."""
    try:
        app(sys.argv[1:], exit_on_error=False, print_error=False)
    except OpenJepaError as error:
        _fail(str(error), error.exit_code)
    except CycloptsError as error:
        _fail(" ".join(str(error).split()), BadInput.exit_code)
    except BrokenPipeError:  # the reader of our output has gone, as in `openjepa runs | head`
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # a full disk, a folder that may not be written
        _fail(
            " ".join(str(part) for part in (error.filename, error.strerror or error) if part), OpenJepaError.exit_code
        )
    except KeyboardInterrupt:
        _fail("interrupted", 130)


def _fail(text: str, exit_code: int) -> None:
    print(f"openjepa: {text}", file=sys.stderr)
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
