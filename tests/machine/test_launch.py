"""Processes that we start ourselves: one result, one error, no survivors."""

import multiprocessing
import os
import time
from pathlib import Path

import pytest

import launched
from openjepa.core.errors import BadInput, OpenJepaError
from openjepa.machine import launch
from openjepa.machine.arrangement import Arrangement


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_result_of_rank_0_comes_back_from_a_group_with_the_threads_and_folder_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = os.environ.get("OMP_NUM_THREADS")
    result = launch.run(launched.report, ("hello",), Arrangement(2, 3))
    assert result["word"] == "hello" and result["rank"] == 0 and result["threads"] == 3
    assert result["seen"] == [["0", "2", "3"], ["1", "2", "3"]]
    assert Path(result["in"]).samefile(tmp_path), "relative paths mean the same there"
    assert os.environ.get("OMP_NUM_THREADS") == before and "RANK" not in os.environ


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("raise", BadInput, "^the second process has a reason$"),
        ("kill", OpenJepaError, "^training process 1 was killed by signal 9"),
    ],
)
def test_one_failing_process_ends_all_with_one_sentence(tmp_path: Path, how: str, kind: type, message: str) -> None:
    with pytest.raises(kind, match=message):
        launch.run(launched.fail_on_rank_1, (tmp_path, how), Arrangement(2, 1))
    assert not any(is_alive(int((tmp_path / rank).read_text())) for rank in ("0", "1"))
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_processes_that_take_too_long_are_ended(tmp_path: Path) -> None:
    with pytest.raises(launch.TookTooLong):
        launch.run(time.sleep, (60,), Arrangement(2, 1), seconds=0.5)
    assert not multiprocessing.active_children()
