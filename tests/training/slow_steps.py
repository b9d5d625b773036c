"""`openjepa …` whose steps take a quarter of a second longer, so that a test can interrupt them."""

import time

from openjepa.cli.main import main
from openjepa.training import loop

original = loop._step


def slow(*arguments):
    time.sleep(0.25)
    return original(*arguments)


loop._step = slow
main()
