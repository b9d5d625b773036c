"""How a decoding process behaves: it leaves signals to its parent, and ends when it is told to."""

import signal


def start(worker: int) -> None:
    """Ctrl-C goes to every process of the terminal; the parent decides, saves and stops us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
