"""`openjepa --help` and typos respond at once: the command line starts without the libraries that take seconds."""

import subprocess
import sys

import pytest

import runner

HEAVY = ("torch", "numpy", "matplotlib", "pydantic")


def test_the_command_line_is_imported_without_heavy_libraries() -> None:
    code = f"import sys, openjepa.cli.main; sys.exit(', '.join(m for m in {HEAVY} if m in sys.modules) or None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [["--help"], ["pretrain", "--help"], ["recipes", "--help"]])
def test_help_names_the_option_for_own_parts(words: list[str]) -> None:
    done = runner.command(*words)
    assert done.returncode == 0 and "--import" in done.stdout
