"""`sweep`: results and progress are the same for any number of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rdmodel as rd
import tracegen
from rdmodel.errors import SimulationError
from tests.support.presets import FERMI
from tests.support.ptx_texts import GATHER
from tests.support.sweep_grids import ATAX, BICG, LINEAR
from tracegen import cuda
from tracegen.formats import compressed, trc
from tracegen.formats.trc import write_trc


@pytest.mark.parametrize("engine", ["predict", "estimate", "simulate"])
def test_the_result_is_the_same_for_any_number_of_processes(at_once, engine):
    grid = {"ways": [1, 2, 3, 4], "seed": [0, 1]}
    one = rd.sweep([ATAX, BICG], LINEAR, engine=engine, n_jobs=1, **grid)
    two = rd.sweep([ATAX, BICG], LINEAR, engine=engine, n_jobs=2, **grid)
    assert one == two
    assert [row.reason is None for row in one.rows] == [True, True, True, True, False, False, True, True] * 2


def test_a_kernel_within_a_function_is_run_by_other_processes_too(at_once):
    def copy(k, A, B):
        k.load(A, k.x)
        k.store(B, k.x)

    trace = tracegen.trace(copy, grid=4, block=64, arrays={"A": 256, "B": 256})
    found = rd.sweep(trace, gpu=FERMI, model_sms=[1, 3, "all"], n_jobs=2)
    assert [row.result for row in found.rows] == [
        rd.predict(trace, gpu=FERMI, model_sms=sms, histogram=False) for sms in (1, 3, "all")
    ]


MAIN = """
import rdmodel as rd, tracegen
from rdmodel.sweeps import sweep as sweep_module

def copy(k, A, B):
    k.load(A, k.x)
    k.store(B, k.x)

class Mine(rd.Trace):
    def __init__(self, trace):
        self.launch, self.blocks, self.trace = trace.launch, trace.blocks, trace

    def block(self, block):
        return self.trace.block(block)

sweep_module.SINGLE_PROCESS_SECONDS = sweep_module.PROCESS_STARTUP_SECONDS = 0
traces = [tracegen.trace(copy, grid=4, block=64, arrays={"A": 256, "B": 256})]
traces.append(Mine(traces[0]))
found = [rd.sweep(traces, seed=[0, 1, 2], n_jobs=jobs) for jobs in (1, 2)]
print(found[0] == found[1], len(found[1].infeasible))
"""


def test_what_a_script_declares_is_run_by_other_processes_too(tmp_path):
    (tmp_path / "script.py").write_text(MAIN)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(rd.__file__).parents[1]), *sys.path])}
    argv = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
    assert (done.stdout, done.stderr) == ("True 0\n", "")


@pytest.mark.parametrize("named", [True, False])
def test_columns_that_are_mapped_from_files_are_run_by_other_processes_too(tmp_path, monkeypatch, at_once, named):
    write_trc(tracegen.kernel("atax.1", NX=64, NY=200, block=(32, 1, 1)), tmp_path / "t.trc")
    monkeypatch.setattr(compressed, "CHUNK_BYTES", 1 << 10)
    trace = trc.read_trc(tmp_path / "t.trc", memory=1 << 14)
    assert isinstance(trace.columns.addresses.base, np.memmap)
    if not named:
        monkeypatch.setattr(trace.columns.addresses.base, "filename", None)
    assert rd.sweep(trace, gpu=FERMI, seed=[0, 1, 2], n_jobs=2) == rd.sweep(trace, gpu=FERMI, seed=[0, 1, 2], n_jobs=1)


def test_a_program_is_emulated_once_and_does_the_same_at_every_point(tmp_path, at_once):
    (tmp_path / "k.ptx").write_text(GATHER)
    found = []
    for jobs in (1, 2):
        trace = cuda.trace(tmp_path / "k.ptx", "k", (2, 1, 1), (64, 1, 1), {"x": "int[1024]:random"})
        found.append(rd.sweep(trace, gpu=FERMI, model_sms="all", ways=[1, 2, 4], index="linear", n_jobs=jobs))
    assert found[0] == found[1]
    assert len({row.result.transactions for row in found[0].rows}) == 1


class Deadly(rd.Trace):
    """A trace that ends the process that reads it, unless it is the one that made it."""

    def __init__(self) -> None:
        self.launch, self.blocks = ATAX.launch, ATAX.blocks
        self.parent = os.getpid()

    def block(self, block: int):
        if os.getpid() != self.parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return ATAX.block(block)


@pytest.mark.filterwarnings("ignore:A worker stopped")
def test_a_process_that_is_ended_from_outside_is_told_in_one_line(at_once):
    with pytest.raises(SimulationError, match=r"3 worker processes were killed.*try fewer jobs"):
        rd.sweep(Deadly(), gpu=FERMI, seed=range(4), n_jobs=2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_is_told_in_points(at_once, jobs):
    told: list[tuple[int, int]] = []
    rd.sweep([ATAX, BICG], LINEAR, ways=[1, 2, 4], n_jobs=jobs, progress=lambda *at: told.append(at))
    assert told[-1] == (6, 6)
    done = [done for done, total in told if total == 6]
    assert done == sorted(done)
    assert set(done) >= {1, 2, 3, 4, 5, 6} or jobs == 1


def test_little_work_begins_no_other_process():
    code = (
        "import sys, rdmodel as rd, tracegen; trace = tracegen.kernel('atax.1', NX=64, NY=64)\n"
        "rd.sweep(trace, seed=[0, 1, 2], n_jobs=2); print('joblib' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(rd.__file__).parents[1]), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "False\n"
