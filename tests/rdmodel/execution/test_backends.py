"""Runs on the workers of another backend of joblib, which is in charge of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import joblib
import pytest

import rdmodel as rd
from rdmodel.execution import processes
from tests.support.presets import FERMI
from tests.support.sweep_grids import ATAX, BICG


@pytest.fixture
def not_ours(monkeypatch):
    """Fail if workers that are not ours would be watched or limited."""

    def refuse(*_):
        raise AssertionError("these workers are not ours")

    for name in ("_begin_worker", "limit_worker"):
        monkeypatch.setattr(processes, name, refuse)
    monkeypatch.setattr(processes, "room_bytes", lambda: 1 << 30)
    monkeypatch.setattr("rdmodel.sweeps.sweep.SINGLE_PROCESS_SECONDS", 0.0)
    monkeypatch.setattr("rdmodel.sweeps.sweep.PROCESS_STARTUP_SECONDS", 0.0)


@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_a_sweep_on_the_workers_of_a_backend_has_the_results_of_one_process(not_ours, backend):
    grid = {"ways": [1, 2, 4], "seed": [0, 1]}
    with joblib.parallel_config(backend=backend):
        assert not processes.has_own_processes()
        found = rd.sweep([ATAX, BICG], FERMI, n_jobs=2, **grid)
    assert processes.has_own_processes()
    assert found == rd.sweep([ATAX, BICG], FERMI, n_jobs=1, **grid)


def test_so_has_a_contest(not_ours):
    with joblib.parallel_config(backend="threading"):
        found = rd.contest([ATAX, BICG], ["swl:warps=2", "mrpb"], FERMI, n_jobs=2, sms=2)
    assert found == rd.contest([ATAX, BICG], ["swl:warps=2", "mrpb"], FERMI, n_jobs=1, sms=2)


def test_a_backend_that_returns_all_results_at_once_gets_slices_whose_answers_outlive_the_driver(
    not_ours, monkeypatch, tmp_path
):
    slices = []

    class Counted(joblib.Parallel):
        def __call__(self, calls):
            slices.append(len(calls))
            return super().__call__(calls)

    def stop(done: int, _: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(joblib, "Parallel", Counted)
    monkeypatch.setattr(processes, "SLICE_SECONDS", 0.0)
    answers = str(tmp_path / "answers.sqlite")
    with joblib.parallel_config(backend="multiprocessing"):
        with pytest.raises(KeyboardInterrupt):
            rd.sweep(ATAX, FERMI, n_jobs=2, seed=list(range(6)), progress=stop, answers=answers)
        assert slices == [2, 2]
        assert rd.sweep(ATAX, FERMI, n_jobs=2, seed=list(range(6)), answers=answers).kept == 4
    assert slices == [2, 2, 2]


RAY_DRIVER = """
import joblib, ray
from ray.util.joblib import register_ray
import rdmodel as rd, tracegen
from rdmodel.sweeps import sweep as module

module.SINGLE_PROCESS_SECONDS = module.PROCESS_STARTUP_SECONDS = 0.0
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
register_ray()
trace = tracegen.kernel("atax.1", NX=128, NY=128)
with joblib.parallel_config(backend="ray"):
    found = rd.sweep(trace, "gtx470-16k", seed=list(range(20)))
print(found == rd.sweep(trace, "gtx470-16k", n_jobs=1, seed=list(range(20))))
"""


def test_workers_of_ray_run_a_sweep():
    pytest.importorskip("ray")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run([sys.executable, "-c", RAY_DRIVER], env=environment, capture_output=True, text=True)
    assert told.stdout.splitlines()[-1:] == ["True"], told.stderr


DRIVER = """
import subprocess, sys, threading, time
import joblib
import rdmodel as rd, tracegen
from distributed import Client
from rdmodel.sweeps import sweep as module

module.SINGLE_PROCESS_SECONDS = module.PROCESS_STARTUP_SECONDS = 0.0
trace = tracegen.kernel("atax.1", NX=128, NY=128)
grid = dict(lat_min=list(range(100, 120)), seed=list(range(10)))
with Client(sys.argv[1]) as client, joblib.parallel_config(backend="dask"):
    told = lambda done, total: print(done, total, flush=True)
    found = rd.sweep(trace, "gtx470-16k", progress=told, **grid)
print(found == rd.sweep(trace, "gtx470-16k", n_jobs=1, **grid))
"""


def test_workers_of_dask_that_were_started_from_a_shell_finish_a_sweep_though_one_is_killed(tmp_path):
    pytest.importorskip("distributed")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    file = tmp_path / "scheduler.json"

    def start(program: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{program}", "--scheduler-file", str(file), *options]
        return subprocess.Popen([*command, "--no-dashboard"], env=environment, stderr=subprocess.DEVNULL)

    scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0")
    workers = [start("worker", "--nthreads", "1", "--no-nanny") for _ in range(2)]
    try:
        while not file.exists() or not file.read_text():
            assert scheduler.poll() is None
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, address], env=environment, stdout=subprocess.PIPE, text=True
        )
        assert driver.stdout is not None
        done = 0
        while done < 40:
            done = int(driver.stdout.readline().split()[0])
        workers[0].send_signal(signal.SIGKILL)
        assert driver.communicate(timeout=120)[0].splitlines()[-1] == "True"
        assert workers[1].poll() is None
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()
