"""What can go wrong, by who can mend it. The command line prints the message as one sentence and exits with `exit_code`."""


class OpenJepaError(Exception):
    """The work failed; nothing is wrong with what the user typed."""

    exit_code = 1


class BadInput(OpenJepaError, ValueError):
    """Something the user gave cannot be used: says what, which value, what was expected and what to do."""

    exit_code = 2


class BrokenImage(OpenJepaError):
    """One picture cannot be decoded. Training skips and lists it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)  # both in args, so that it survives pickling from a worker process
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class NoSuchSplit(BadInput):
    """The source has no such part, for example training pictures only."""
