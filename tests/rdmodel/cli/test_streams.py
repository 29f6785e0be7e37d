"""The standard streams: closed ones, full disks, and terminals that cannot show every name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rdmodel as rd
import tracegen

COMMANDS = (
    "kernels",
    "gpus",
    "predict atax.1 --param NX=64 --param NY=64",
    "simulate atax.1 --param NX=64 --param NY=64",
    "sweep atax.1 --param NX=64 --param NY=64 --gpu gtx470-16k --vary ways=1,2 --no-cache",
    "tiles atax.1 --param NX=64 --param NY=64 --tile block=32,64 --no-cache",
    "info atax.1 --param NX=64 --param NY=64",
    "trace atax.1 --param NX=64 --param NY=64 -o OUT",
    "report atax.1 --param NX=64 --param NY=64 --no-what-if -o OUT",
    "serve --no-cache",
)


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command line of a shell, in which RDMODEL stands for the program."""
    text = command.replace("RDMODEL", f"{sys.executable} -m rdmodel").replace("OUT", str(folder / "out"))
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    return subprocess.run(text, shell=True, capture_output=True, env=variables, cwd=folder, check=False, timeout=120)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_stdout_is_told_before_any_work(tmp_path, command):
    done = shell(f"RDMODEL {command} >&- </dev/null", tmp_path)
    said = b"rdmodel: error: standard output: is closed; redirect it to a file or to /dev/null\n"
    assert (done.returncode, done.stderr) == (1, said)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS[2:4] + COMMANDS[-3:])
def test_a_closed_stderr_changes_nothing_else(tmp_path, command):
    done = shell(f"RDMODEL {command} 2>&- </dev/null", tmp_path)
    assert done.returncode == 0
    assert bool(done.stdout) == ("serve" not in command)


@pytest.mark.parametrize("command", ["kernels", "predict atax.1 --param NX=64 --param NY=64", "serve --no-cache"])
def test_a_closed_stdin_is_an_input_that_has_ended(tmp_path, command):
    done = shell(f"RDMODEL {command} <&-", tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(("closed", "status"), [("<&- >&- 2>&-", 1), ("<&- 2>&-", 0), (">&- 2>&-", 1)])
def test_several_closed_streams_crash_nothing(tmp_path, closed, status):
    assert shell(f"RDMODEL kernels {closed}", tmp_path).returncode == status


@pytest.mark.parametrize("command", ["predict nothing-of-this-name", "predict --nothing"])
def test_a_mistake_with_a_closed_stderr_keeps_its_status(tmp_path, command):
    assert shell(f"RDMODEL {command} 2>&-", tmp_path).returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device of a full disk")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["--help", "predict --help", "--version", "kernels", "gpus --json"])
def test_a_full_disk_behind_stdout_gives_status_1_and_one_line(tmp_path, command, unbuffered):
    done = shell(f"RDMODEL {command} >/dev/full", tmp_path, PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (1, b"rdmodel: error: No space left on device\n")


# ---- names that the terminal cannot show


@pytest.mark.parametrize(
    ("settings", "escaped"),
    [
        ({"PYTHONIOENCODING": "ascii"}, b"gr\\xf6\\xdfe"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, b"gr\\xf6\\xdfe"),
        ({"PYTHONIOENCODING": "ascii:xmlcharrefreplace"}, b"gr&#246;&#223;e"),
    ],
)
def test_a_name_that_the_terminal_cannot_show_is_escaped(tmp_path, settings, escaped):
    rd.save(tracegen.kernel("atax.1", NX=64, NY=64), tmp_path / "trace")
    meta = tmp_path / "trace" / "meta.json"
    meta.write_text(meta.read_text().replace('"atax.1"', '"gr\\u00f6\\u00dfe"', 1))
    forms = ("", "--csv", "--json")
    calls = "; print('----'); ".join(f"main('predict trace {form}'.split())" for form in forms)
    done = shell(f'{sys.executable} -c "from rdmodel.cli import main; {calls}"', tmp_path, **settings)
    assert (done.returncode, done.stderr) == (0, b"")
    text, table, record = done.stdout.split(b"----")
    assert escaped in text
    assert escaped in table
    assert b"gr\\u00f6\\u00dfe" in record


def test_the_encoding_of_the_caller_is_left_as_it_was(run):
    before = sys.stdout.errors
    run("kernels")
    assert sys.stdout.errors == before
