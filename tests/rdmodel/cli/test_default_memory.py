"""Without `--memory`, a command takes at most 80 % of the machine's memory, and ends with one line beyond it."""

from __future__ import annotations

import re
import shutil
import sys
from importlib import import_module

import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor

import rdmodel as rd
from rdmodel.cli import trace_command as info_command
from rdmodel.errors import SimulationError
from rdmodel.execution import processes
from tests.support.measured_commands import MB, measured, on_machine, taken, walk, walk_launch
from tests.support.paths import ROOT
from tests.support.random_traces import ProgramTrace
from tests.support.sanitizers import not_sanitized

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits data"),
    not_sanitized,
]

COMMANDS = {
    "predict": "--gpu gtx470-16k --sms 1 --threads all",
    "mrc": "--sms 1 --threads all",
    "report": "--sms 1 --threads all --json --no-what-if",
    "simulate": "--sms 1",
    "locality": "--sms 1",
    "compare": "--gpu gtx470-16k --sms 1",
    "policies": "--gpu gtx470-16k --sms 1 --jobs 1",
    "sweep": "--gpu gtx470-16k --sms 1 --threads all --jobs 1 --vary ways=4,8 --no-cache",
}


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Return a trace in which 8 blocks load 1126400 lines once each."""
    path = tmp_path_factory.mktemp("memory") / "wide"
    rd.save(ProgramTrace(walk_launch(8, 4), {block: [walk(32, 1100, 4, block)] for block in range(8)}), path)
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_needs_more_ends_in_one_line(wide, command):
    machine = 200 * MB
    status, _, err, peak = measured(command, wide, *COMMANDS[command].split(), setup=on_machine(machine))
    assert status == 1
    assert err.startswith("rdmodel: error: the run needs more than 160M, 80% of the memory of this machine; fewer bl")
    assert err.count("\n") == 1
    assert peak <= 0.8 * machine


def test_a_module_for_which_there_is_no_room_is_told_as_any_lack_of_memory(wide, run, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise ImportError("numpy/random/_generator.so: failed to map segment from shared object")

    monkeypatch.setattr(info_command, "open_source", refuse)
    status, _, err = run("info", wide)
    assert status == 1
    assert err.startswith("rdmodel: error: the run needs more than ")
    monkeypatch.setattr(info_command, "open_source", lambda *_: import_module("no_such_module"))
    with pytest.raises(ImportError):
        run("info", wide)


def test_a_given_limit_replaces_the_share_of_the_machine(wide):
    argv, machine = ("predict", wide, *COMMANDS["predict"].split()), 120 * MB
    status, out, err, peak = measured(*argv, "--memory", "2G", setup=on_machine(machine))
    assert (status, err) == (0, "")
    assert out
    assert peak > 0.8 * machine


def test_worker_processes_share_the_memory_of_the_machine(monkeypatch):
    monkeypatch.setattr(processes, "room_bytes", lambda: 900 * MB)
    get_reusable_executor().shutdown(kill_workers=True)  # workers of other tests have loaded more than new ones
    assert list(processes.run_in_processes(taken, [(200 * MB,), (200 * MB,)], 2)) == [200 * MB, 200 * MB]
    with pytest.raises(SimulationError, match=r"its share of the memory, one of 3; try fewer jobs"):
        list(processes.run_in_processes(taken, [(400 * MB,), (1,)], 2))
    assert list(processes.run_in_processes(taken, [(400 * MB,)], 2)) == [400 * MB]


def test_an_array_from_a_file_takes_its_size_once(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(20_000_000, dtype=np.float32))
    shutil.copy(ROOT / "tests/data/ptx/emulator_saxpy.ptx", tmp_path / "saxpy.ptx")
    argv = ["predict", str(tmp_path / "saxpy.ptx"), "--grid", "4", "--block", "128"]
    for argument in ("n=512", "a=2", f"x=@{tmp_path / 'x.npy'}", "y=float[512]"):
        argv += ["--arg", argument]
    status, _, err, peak = measured(*argv, "--memory", "220M")
    assert (status, err) == (0, "")
    assert peak <= 220 * MB
    status, _, err, _ = measured(*argv, "--memory", "130M")
    assert status == 2
    assert re.search(r"x\.npy: needs about 76\.3M, more than the \S+ that are left; use a smaller array, or", err)


def test_a_matrix_beyond_the_limit_is_said_to_be_too_large(tmp_path):
    path = tmp_path / "a.mtx"
    rows = "".join(f"{row} {row}\n" for row in range(1, 300_001))
    path.write_text(f"%%MatrixMarket matrix coordinate pattern general\n300000 300000 300000\n{rows}")
    argv = ("predict", "spmv", "--param", f"matrix={path}")
    assert measured(*argv, "--memory", "400M")[0] == 0
    status, _, err, _ = measured(*argv, "--memory", "105M")
    assert status == 2, err
    assert re.search(r"a\.mtx: needs about \S+M, more than the \S+ that are left; use a smaller matrix, or", err)
