"""How a decoding process behaves: it leaves signals to its parent, and ends when its parent says so or is gone."""

import signal


def start(worker: int) -> None:
    """Ctrl-C, and SIGTERM from torchrun or a cluster, go to the whole group; only the parent may decide, save and stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
