"""Commands and signals: a command that is asked to end leaves no files, and a later one deletes those of a kill."""

from __future__ import annotations

import enum
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import rdmodel as rd
from rdmodel.trace import Op

STOPS = [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 129, "hung up")]
RDMODEL = [sys.executable, "-m", "rdmodel"]

HALTING = (
    "import sys, time\nfrom pathlib import Path\nfrom rdmodel.cli import main\nwrite = Path.write_bytes\n"
    "def half(path, data):\n    write(path, data[:100])\n    print('now', flush=True)\n    time.sleep(60)\n"
    "Path.write_bytes = half\nsys.exit(main())\n"
)
"""A program that writes the first half of a report, says so, and sleeps."""

REPORT = ["report", "atax.1", "--param", "NX=64", "--param", "NY=64", "--no-what-if", "--no-ablation"]


LONG_TRACE = ["trace", "atax.1", "--all", "--param", "NX=1048576"]
"""A command that takes minutes: on a busy machine, a test may send its signal many seconds after it began."""


def start(argv: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outputs(running: subprocess.Popen[str]) -> tuple[str, str]:
    """Return what a command prints until it ends; kill it if it does not end in time."""
    try:
        return running.communicate(timeout=60)
    finally:
        running.kill()


@pytest.fixture(autouse=True)
def heard():
    """Let commands hear the signals that those of a caller in the background ignore."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    ignored = [number for number in handlers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, handlers[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def wait_for_a_file(folder: Path) -> None:
    deadline = time.monotonic() + 60
    while not any(folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)


def write_half_a_page(page: Path) -> subprocess.Popen[str]:
    running = start([sys.executable, "-c", HALTING, *REPORT, "-o", str(page)])
    assert running.stdout is not None
    assert running.stdout.readline() == "now\n"
    return running


@pytest.mark.parametrize(("number", "status", "said"), STOPS)
@pytest.mark.parametrize("name", ["out", "out.trc"])
def test_a_signal_that_ends_a_long_trace_leaves_nothing_behind(tmp_path, number, status, said, name):
    with start([*RDMODEL, *LONG_TRACE, "-o", str(tmp_path / name)]) as running:
        wait_for_a_file(tmp_path)
        running.send_signal(number)
        out, err = outputs(running)
    assert (running.returncode, out, err) == (status, "", f"rdmodel: error: {said}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "status", "said"), STOPS)
def test_a_signal_that_ends_a_report_leaves_nothing_behind(tmp_path, number, status, said):
    with write_half_a_page(tmp_path / "page.html") as running:
        running.send_signal(number)
        _, err = outputs(running)
    assert (running.returncode, err) == (status, f"rdmodel: error: {said}\n")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_of_code_that_was_given_as_text_ends_a_command_as_any_other(tmp_path):
    (tmp_path / "halting.py").write_text(
        "import sys\nfrom rdmodel.cli import kernels_command, main\n"
        "kernels_command.run_kernels = lambda _: exec('raise KeyboardInterrupt')\nsys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-m", "halting", "kernels"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "rdmodel: error: interrupted\n")


def test_a_hang_up_that_the_caller_ignores_stays_ignored(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        running = start([*RDMODEL, "trace", "atax.1", "-o", str(tmp_path / "out"), "--sms", "1", "--threads", "512"])
    finally:
        signal.signal(signal.SIGHUP, before)
    with running:
        wait_for_a_file(tmp_path)
        running.send_signal(signal.SIGHUP)
        _, err = outputs(running)
    assert (running.returncode, err) == (0, "")


def test_the_signals_of_the_caller_are_restored(run):
    run("kernels")
    assert signal.getsignal(signal.SIGTERM) is signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_the_next_writer_of_a_name_deletes_what_killed_runs_have_left(run, tmp_path):
    page = tmp_path / "page.html"
    with write_half_a_page(page) as killed:
        killed.send_signal(signal.SIGKILL)
    assert [path.name.startswith(".page.html.") for path in tmp_path.iterdir()] == [True]
    assert run(*REPORT, "-o", str(page))[0] == 0
    assert list(tmp_path.iterdir()) == [page]


def test_the_unfinished_file_of_a_running_command_is_left_alone(run, tmp_path):
    page = tmp_path / "page.html"
    with write_half_a_page(page) as running:
        [partial] = tmp_path.iterdir()
        assert run(*REPORT, "-o", str(page))[0] == 0
        assert set(tmp_path.iterdir()) == {page, partial}
        running.send_signal(signal.SIGTERM)
    assert list(tmp_path.iterdir()) == [page]


def test_a_hang_up_of_the_terminal_ends_the_workers_of_a_sweep_as_well(tmp_path):
    argv = [*RDMODEL, "sweep", "atax.1", "--engine", "simulate", "--vary", "mshrs=8,16,24,32,40,48", "--jobs", "2"]
    argv += ["--param", "NX=512", "--param", "NY=512"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*argv, "--cache", str(tmp_path / "a")], start_new_session=True, **pipes) as command:
        with rd.Answers(tmp_path / "a") as answers:
            while not len(answers) and command.poll() is None:
                time.sleep(0.02)
        os.killpg(command.pid, signal.SIGHUP)
        out, err = outputs(command)
    assert (command.returncode, out) == (129, "")
    assert err.endswith("rdmodel: error: hung up\n")


@pytest.mark.skipif(not hasattr(enum.EnumMeta, "__getattr__"), reason="this Python looks up members in C")
@pytest.mark.parametrize("command", ["trace", "predict", "simulate", "info", "mrc", "locality"])
def test_numpy_looks_up_no_attribute_of_an_enumeration_and_so_cannot_lose_an_interruption(
    command, run, tmp_path, monkeypatch
):
    asked = []
    look_up = enum.EnumMeta.__getattr__

    def remember(cls, name):
        if name.startswith("__array"):
            asked.append((cls.__name__, name))
        return look_up(cls, name)

    monkeypatch.setattr(enum.EnumMeta, "__getattr__", remember)
    options = {"trace": ["-o", str(tmp_path / "out")], "simulate": ["--sms", "1", "--blocks", "2"]}
    assert run(command, "gemm", "--param", "NI=64", "--param", "NJ=64", *options.get(command, []))[0] == 0
    assert asked == []
    np.arange(2) == Op.LOAD  # noqa: B015 - NumPy asks the type of an operand that it does not know
    assert asked != []
