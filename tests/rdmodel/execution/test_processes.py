"""Worker processes: how they end, and how they are replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rdmodel.execution import processes
from rdmodel.execution.processes import run_in_processes


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        ("ExecutorManagerThread", KeyError, False),
        ("ExecutorManagerThread", ValueError, True),
        ("other", KeyError, True),
    ],
)
def test_only_the_race_of_lokys_thread_is_ignored(name, error, told, monkeypatch):
    reported = []
    monkeypatch.setattr(threading, "excepthook", lambda failure: reported.append(failure.exc_type))

    def fail() -> None:
        raise error("work")

    with processes._ignoring_withdrawn_work():
        thread = threading.Thread(target=fail, name=name)
        thread.start()
        thread.join()
    assert reported == ([error] if told else [])


def test_an_error_that_is_thrown_into_the_runs_is_raised_and_ends_them():
    results = run_in_processes(abs, [(-number,) for number in range(8)], 2)
    first = next(results)
    assert first in range(8)
    with pytest.raises(ZeroDivisionError):
        results.throw(ZeroDivisionError())
    assert list(results) == []


def test_runs_that_are_not_wanted_any_more_can_be_closed():
    results = run_in_processes(abs, [(-number,) for number in range(4)], 1)
    assert next(results) == 0
    results.close()
    assert list(results) == []


def test_runs_that_are_under_way_are_given_up_without_a_warning():
    results = run_in_processes(time.sleep, [(0,), (60,), (60,)], 2)
    assert next(results) is None
    results.close()
    assert list(results) == []


def test_all_results_come_in_any_order():
    assert sorted(run_in_processes(abs, [(-number,) for number in range(8)], 2)) == list(range(8))


def _place(_number: int) -> tuple[str, str | None]:
    time.sleep(0.02)  # so that both workers get some
    return os.getcwd(), os.environ.get("RDMODEL_CACHE")


def test_workers_of_an_earlier_call_work_where_the_caller_works_now(tmp_path, monkeypatch):
    for name, cache in (("a", "here"), ("b", None), ("c", "there")):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        monkeypatch.delenv("RDMODEL_CACHE", raising=False)
        if cache is not None:
            monkeypatch.setenv("RDMODEL_CACHE", cache)
        assert set(run_in_processes(_place, [(number,) for number in range(8)], 2)) == {(str(tmp_path / name), cache)}


def test_a_caller_whose_folder_is_deleted_can_have_workers(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert sorted(run_in_processes(abs, [(-number,) for number in range(8)], 2)) == list(range(8))


def _die_once(folder: Path, number: int) -> int:
    """Return the number, but kill the process of the first call with number 3."""
    with (folder / str(number)).open("a") as calls:
        calls.write("called\n")
    if number == 3 and (folder / "3").read_text() == "called\n":
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.filterwarnings("ignore:A worker stopped")
def test_a_worker_that_is_killed_is_replaced_and_its_run_runs_again(tmp_path):
    assert sorted(run_in_processes(_die_once, [(tmp_path, number) for number in range(6)], 2)) == list(range(6))
    assert (tmp_path / "3").read_text() == "called\n" * 2


ONE_RUN = """
import os
import time
from rdmodel.execution.processes import run_in_processes

def work(seconds):
    os.write(1, b"at work\\n")  # at once: print writes the end of the line on its own
    time.sleep(seconds)

list(run_in_processes(work, [(0,), (100,)], n_jobs=4))
"""


def test_workers_without_a_run_end_with_a_parent_that_is_killed():
    # Of four workers, at least two have nothing to do. All hold the pipe, which `communicate` waits for.
    argv = [sys.executable, "-c", ONE_RUN]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as script:
        assert script.stdout.readline() == "at work\n"
        assert script.stdout.readline() == "at work\n"
        begun = time.monotonic()
        script.kill()
        script.communicate(timeout=60)
        assert time.monotonic() - begun < 30
