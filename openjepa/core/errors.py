"""Errors, by who can fix them. The command line prints the message and exits with `exit_code`."""


class OpenJepaError(Exception):
    """The work failed, although the input was valid."""

    exit_code = 1


class BadInput(OpenJepaError, ValueError):
    """Invalid input: the message says what, which value, what was expected and what to do."""

    exit_code = 2


class BrokenImage(OpenJepaError):
    """An image cannot be decoded. Training skips and lists it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)  # both in args, so that it survives pickling from a worker process
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class NoSuchSplit(BadInput):
    """The source does not have this split; some have training images only."""
