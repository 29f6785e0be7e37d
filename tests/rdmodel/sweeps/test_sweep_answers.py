"""`sweep`: results are those of single calls, for any number of processes, and are not made twice."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel.errors import ConfigError, LaunchError, SimulationError, TraceError
from rdmodel.gpu.overrides import override
from rdmodel.sweeps import points
from rdmodel.sweeps import sweep as sweep_module
from rdmodel.trace import ALL_NEEDS, Op
from tests.support.builders import make_trace
from tests.support.ptx_texts import GATHER
from tracegen import cuda
from tracegen.formats import compressed, trc
from tracegen.formats.trc import write_trc

ATAX = tracegen.kernel("atax.1", NX=64, NY=64, block=(32, 1, 1))
BICG = tracegen.kernel("bicg.1", NX=64, NY=64, block=(32, 1, 1))
BASE = rd.presets.gpu("gtx470-16k")
LINEAR = BASE.replace(l1=rd.CacheConfig(size=16384, ways=4, index=rd.policies.Linear()))
GRID: dict[str, Any] = {"ways": [1, 2, 4], "l1_size": ["8K", "16K"], "sched": ["random", "gto"]}


@pytest.fixture
def at_once(monkeypatch):
    """Let other processes begin at once, however little there is to do."""
    monkeypatch.setattr(sweep_module, "SINGLE_PROCESS_SECONDS", 0.0)
    monkeypatch.setattr(sweep_module, "PROCESS_STARTUP_SECONDS", 0.0)


@pytest.fixture
def calls(monkeypatch):
    """Return a list that gets the options of every run, checks apart."""
    found: list[dict[str, Any]] = []
    for name in ("predict", "estimate", "simulate"):
        function = getattr(points, name)

        def counted(trace, gpu, *, function=function, **options):
            if not isinstance(trace, points.UnreadableTrace):
                found.append({**options, "gpu": gpu})
            return function(trace, gpu, **options)

        monkeypatch.setattr(points, name, counted)
    return found


# ---- results are those of single calls


def test_every_row_is_the_prediction_of_a_single_call():
    found = rd.sweep([ATAX, BICG], LINEAR, n_jobs=1, **GRID)
    assert len(found.rows) == 24
    for row in found.rows:
        gpu = override(LINEAR, {"l1.ways": row.point["ways"], "l1.size": row.point["l1_size"]})
        trace = (ATAX, BICG)[row.trace]
        wanted = rd.predict(trace, gpu, sched=row.point["sched"], histogram=False)
        assert (row.kernel, row.result, row.reason) == (trace.launch.kernel, wanted, None)
        assert row.result.config == wanted.config


SOME = {
    "ways": st.sampled_from([1, 2, 4, 8]),
    "l1_size": st.sampled_from([4096, "8K", 16384]),
    "line": st.sampled_from([64, 128]),
    "mshrs": st.sampled_from([1, 8, None, "inf"]),
    "index": st.sampled_from(["linear", "pmod", "bxor"]),
    "definition": st.sampled_from(["hardware", "paper"]),
    "sched": st.sampled_from(["random", "gto", "lrr"]),
    "seed": st.integers(0, 99),
    "seeds": st.integers(1, 2),
    "lat_min": st.integers(0, 300),
    "sigma": st.sampled_from([0, 40.0]),
    "stores": st.sampled_from(["free", "evict", "allocate", True]),
    "model_sms": st.sampled_from([1, 2, "all"]),
    "l2": st.booleans(),
    "histogram": st.booleans(),
}


@settings(max_examples=60)
@given(st.fixed_dictionaries({}, optional=SOME))
def test_any_point_is_a_single_call_or_has_the_reason_for_which_that_fails(point):
    fields = {"ways": "l1.ways", "l1_size": "l1.size", "line": "l1.line"}
    own = {name: value for name, value in point.items() if name not in fields}
    wanted: Any
    try:
        keys = {fields[name]: value for name, value in point.items() if name in fields}
        l1 = {f"l1.{name}": own.pop(name) for name in ("mshrs", "index") if name in own}
        if l1.get("l1.mshrs") in (None, "inf"):
            l1 |= {"l1.mshrs": float("inf")} if "l1.mshrs" in l1 else {}
        wanted = rd.predict(ATAX, override(LINEAR, {**keys, **l1}), **{"histogram": False, **own})
    except ConfigError as error:
        wanted = str(error)
    if isinstance(wanted, str):
        with pytest.raises(ConfigError) as failed:
            rd.sweep(ATAX, LINEAR, n_jobs=1, **point)
        assert str(failed.value) == wanted
        return
    (row,) = rd.sweep(ATAX, LINEAR, n_jobs=1, **point).rows
    assert timeless(row.result) == timeless(wanted)


def timeless(result: Any) -> dict[str, Any]:
    """Return a result without what it took, and without who changed its GPU."""
    plain = json.loads(json.dumps(result.to_dict()))
    plain["config"]["gpu"].pop("sources")
    return {name: value for name, value in plain.items() if not name.endswith("seconds")}


def test_options_of_the_l1_are_those_of_predict():
    (row,) = rd.sweep(ATAX, mshrs=4, index="pmod", n_jobs=1).rows
    assert row.result == rd.predict(ATAX, mshrs=4, index="pmod", histogram=False)


def test_simulations_and_estimates_are_those_of_single_calls():
    (row,) = rd.sweep(ATAX, engine="simulate", sched="gto", dram_latency=50, n_jobs=1).rows
    assert row.result == rd.simulate(ATAX, override(BASE, {"dram.latency": 50}), sched="gto")
    gemm = tracegen.kernel("gemm", NI=256, NJ=256, NK=256)
    rows = rd.sweep(gemm, engine="estimate", work=[2000, None], seed=2, l2=True, n_jobs=1).rows
    assert [row.result for row in rows] == [rd.estimate(gemm, work=work, seed=2, l2=True) for work in (2000, None)]


def test_the_gpu_is_one_of_the_names():
    found = rd.sweep(ATAX, gpu=["gtx470-16k", LINEAR.replace(name="mine")], n_jobs=1)
    assert [row.point["gpu"] for row in found.rows] == [row.result.gpu for row in found.rows] == ["gtx470-16k", "mine"]
    assert found.axes == {"gpu": ("gtx470-16k", "mine")}
    assert rd.sweep(ATAX, seed=[0, 1], n_jobs=1).fixed == {"gpu": "gtx470-16k"}


# ---- the same for any number of processes


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
    found = rd.sweep(trace, model_sms=[1, 3, "all"], n_jobs=2)
    assert [row.result for row in found.rows] == [
        rd.predict(trace, model_sms=sms, histogram=False) for sms in (1, 3, "all")
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
    assert rd.sweep(trace, seed=[0, 1, 2], n_jobs=2) == rd.sweep(trace, seed=[0, 1, 2], n_jobs=1)


def test_a_program_is_emulated_once_and_does_the_same_at_every_point(tmp_path, at_once):
    (tmp_path / "k.ptx").write_text(GATHER)
    found = []
    for jobs in (1, 2):
        trace = cuda.trace(tmp_path / "k.ptx", "k", (2, 1, 1), (64, 1, 1), {"x": "int[1024]:random"})
        found.append(rd.sweep(trace, model_sms="all", ways=[1, 2, 4], index="linear", n_jobs=jobs))
    assert found[0] == found[1]
    assert len({row.result.transactions for row in found[0].rows}) == 1


def test_blocks_are_made_once_for_all_points():
    made: list[int] = []

    class Watched(rd.Trace):
        def __init__(self) -> None:
            self.launch, self.blocks = ATAX.launch, ATAX.blocks

        def block(self, block: int):
            made.append(block)
            return ATAX.block(block)

    rd.sweep(Watched(), model_sms=2, seed=range(5), n_jobs=1)
    assert sorted(made) == [0, 1]


# ---- what was made is not made again


def test_what_is_kept_is_not_run_again_and_is_the_same(tmp_path, calls):
    fresh = rd.sweep([ATAX, BICG], LINEAR, n_jobs=1, **GRID)
    calls.clear()
    first = rd.sweep([ATAX, BICG], LINEAR, n_jobs=1, answers=tmp_path / "a", **GRID)
    assert (first.kept, len(calls)) == (0, 24)
    second = rd.sweep([ATAX, BICG], LINEAR, n_jobs=1, answers=str(tmp_path / "a"), **GRID)
    assert (second.kept, len(calls)) == (24, 24)
    assert fresh == first == second
    assert [row.to_dict() for row in second.rows] == [row.to_dict() for row in first.rows]


def test_a_larger_grid_runs_only_what_is_new(tmp_path, calls):
    small = {"ways": [2, 4], "seed": 0}
    rd.sweep(ATAX, LINEAR, answers=tmp_path / "a", n_jobs=1, **small)
    calls.clear()
    large = {"ways": [2, 4, 8], "seed": [0, 1], "sched": ["random", "lrr"]}
    found = rd.sweep(ATAX, LINEAR, answers=tmp_path / "a", n_jobs=1, **large)
    assert (found.kept, len(calls)) == (2, 10)
    assert found == rd.sweep(ATAX, LINEAR, n_jobs=1, **large)


@pytest.mark.parametrize("engine", ["predict", "estimate", "simulate"])
def test_answers_are_of_one_engine(tmp_path, calls, engine):
    kept = {
        name: rd.sweep(ATAX, engine=name, answers=tmp_path / "a", n_jobs=1)
        for name in ("predict", "estimate", "simulate")
    }
    calls.clear()
    assert rd.sweep(ATAX, engine=engine, answers=tmp_path / "a", n_jobs=1) == kept[engine]
    assert calls == []


OTHERS: dict[str, dict[str, Any]] = {
    "another seed": {"seed": 1},
    "another size": {"l1_size": "8K"},
    "another field": {"clock": 100},
    "with the histogram": {"histogram": True},
    "more SMs": {"model_sms": 2},
    "another name of the GPU": {"gpu": LINEAR.replace(name="other")},
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_differs_in_anything_is_run(tmp_path, calls, name):
    with rd.Answers(tmp_path / "a") as answers:
        rd.sweep(ATAX, LINEAR, answers=answers, n_jobs=1)
        calls.clear()
        point = {"gpu": LINEAR, **OTHERS[name]}
        found = rd.sweep(ATAX, answers=answers, n_jobs=1, **point)
        assert (found.kept, len(calls)) == (0, 1)
        assert found == rd.sweep(ATAX, n_jobs=1, **point)
        assert rd.sweep(ATAX, answers=answers, n_jobs=1, **point).kept == 1


def test_a_trace_is_known_by_what_it_does_not_by_where_it_is_from(tmp_path, calls):
    with rd.Answers(tmp_path / "a") as answers:
        rd.save(ATAX, tmp_path / "t")
        wanted = rd.sweep(rd.load(tmp_path / "t"), seed=[0, 1], answers=answers, n_jobs=1)
        rd.save(ATAX, tmp_path / "u")
        assert rd.sweep(rd.load(tmp_path / "u"), seed=[0, 1], answers=answers, n_jobs=1) == wanted
        assert len(calls) == 2
        rd.save(
            tracegen.kernel("atax.1", NX=64, NY=64, block=(32, 1, 1), base=ATAX.launch.arrays[0].base + 256),
            tmp_path / "u",
            overwrite=True,
        )
        assert rd.sweep(rd.load(tmp_path / "u"), seed=[0, 1], answers=answers, n_jobs=1).kept == 0


def test_blocks_that_a_point_does_not_ask_for_do_not_matter_to_its_answer(tmp_path):
    blocks = [[[(Op.LOAD, ALL_NEEDS, 0, [line])]] for line in (1, 2, 3)]
    changed = [*blocks[:2], [[(Op.LOAD, ALL_NEEDS, 0, [9])]]]
    with rd.Answers(tmp_path / "a") as answers:
        rd.sweep(make_trace(blocks, warps=1), LINEAR, sms=2, model_sms=[1, 2], answers=answers, n_jobs=1)
        found = rd.sweep(make_trace(changed, warps=1), LINEAR, sms=2, model_sms=[1, 2], answers=answers, n_jobs=1)
        # SM 0 has blocks 0 and 2; both SMs have all.
        assert found.kept == 0
        found = rd.sweep(make_trace(changed, warps=1), LINEAR, sms=3, model_sms=[1, 2], answers=answers, n_jobs=1)
        again = rd.sweep(make_trace(blocks, warps=1), LINEAR, sms=3, model_sms=[1, 2, 3], answers=answers, n_jobs=1)
        assert again.kept == 2


def test_a_damaged_file_costs_time_and_no_result(tmp_path, calls):
    path = tmp_path / "a"
    wanted = rd.sweep(ATAX, LINEAR, answers=path, n_jobs=1, **GRID)
    with sqlite3.connect(path) as file:
        file.execute("UPDATE rdmodel_answers SET answer = replace(answer, '\"hits\":', '\"hits\":1')")
    file.close()
    calls.clear()
    assert rd.sweep(ATAX, LINEAR, answers=path, n_jobs=1, **GRID) == wanted
    assert len(calls) == 12


def test_an_answer_that_is_no_result_is_not_taken_for_one(tmp_path, monkeypatch, calls):
    wanted = rd.sweep(ATAX, n_jobs=1)
    for wrong in ({}, {"config": {}}, {"config": {"gpu": None}}, {"config": {"gpu": None}, "hits": 3, "runs": []}):
        monkeypatch.setattr(sweep_module, "result_to_record", lambda *_, wrong=wrong: wrong)
        rd.sweep(ATAX, answers=tmp_path / "a", n_jobs=1)
        monkeypatch.undo()
        assert rd.sweep(ATAX, answers=tmp_path / "a", n_jobs=1) == wanted
        (tmp_path / "a").unlink()


def test_a_file_that_is_not_a_cache_is_left_alone_and_said_so(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("mine\n" * 100)
    found = rd.sweep(ATAX, answers=path, n_jobs=1)
    assert "is not a cache of answers; left alone" in found.trouble
    assert path.read_text() == "mine\n" * 100
    assert rd.sweep(ATAX, n_jobs=1).trouble is None


# ---- interruptions


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_was_finished_before_an_interruption_is_kept(tmp_path, calls, error):
    def stop(done: int, total: int) -> None:
        if done == 5 and total == 12:
            raise error

    with pytest.raises(error):
        rd.sweep(ATAX, LINEAR, answers=tmp_path / "a", n_jobs=1, progress=stop, **GRID)
    assert len(calls) == 5
    found = rd.sweep(ATAX, LINEAR, answers=tmp_path / "a", n_jobs=1, **GRID)
    assert (found.kept, len(calls)) == (5, 12)
    assert found == rd.sweep(ATAX, LINEAR, n_jobs=1, **GRID)


SCRIPT = """
import sys, time, rdmodel as rd, tracegen
from rdmodel.sweeps import sweep as sweep_module

def tell(done, total):
    print(done, flush=True)
    time.sleep(0.1 * (done > 2))

sweep_module.SINGLE_PROCESS_SECONDS = sweep_module.PROCESS_STARTUP_SECONDS = float(sys.argv[2])
trace = tracegen.kernel("atax.1", NX=256, NY=256)
try:
    rd.sweep(trace, engine="simulate", l1_mshrs=range(8, 28), answers=sys.argv[1], n_jobs=2, progress=tell)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("head_start", ["0", "1000"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_sweep_that_is_ended_from_outside_is_gone_on_with(tmp_path, number, head_start):
    path = tmp_path / "a"
    argv = [sys.executable, "-c", SCRIPT, str(path), head_start]
    script = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    with script:
        while int(script.stdout.readline()) < 3:
            pass
        begun = time.monotonic()
        # Ctrl-C is for all processes; one that is killed tells nobody, and the others, which share its pipes, end too.
        (os.killpg if number == signal.SIGINT else os.kill)(script.pid, number)
        out, err = script.communicate(timeout=60)
        assert time.monotonic() - begun < 30
    if number == signal.SIGINT:
        assert out.splitlines()[-1] == "interrupted"
        assert err == ""
    trace = tracegen.kernel("atax.1", NX=256, NY=256)
    with rd.Answers(path) as answers:
        left = len(answers)
        assert 3 <= left < 20
        found = rd.sweep(trace, engine="simulate", l1_mshrs=range(8, 28), answers=answers, n_jobs=1)
    assert found.kept == left
    for at in (0, 19):
        assert found.rows[at].result == rd.simulate(trace, override(BASE, {"l1.mshrs": 8 + at}))


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
    with pytest.raises(SimulationError, match=r"a worker process was killed.*try fewer jobs"):
        rd.sweep(Deadly(), seed=range(4), n_jobs=2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_is_told_in_points(at_once, jobs):
    told: list[tuple[int, int]] = []
    rd.sweep([ATAX, BICG], LINEAR, ways=[1, 2, 4], n_jobs=jobs, progress=lambda *at: told.append(at))
    assert told[-1] == (6, 6)
    done = [done for done, total in told if total == 6]
    assert done == sorted(done)
    assert set(done) >= {1, 2, 3, 4, 5, 6} or jobs == 1


# ---- points that cannot be run


def test_points_that_cannot_exist_have_the_reason_and_the_others_run():
    found = rd.sweep(ATAX, LINEAR, ways=[2, 3, 4], l1_size=["16K", 100], n_jobs=1)
    reasons = {(row.point["ways"], row.point["l1_size"]): row.reason for row in found.rows}
    assert reasons[2, 16384] is reasons[4, 16384] is None
    assert reasons[3, 16384] == "l1.size=16384: is not a multiple of line x ways = 128 x 3 = 384"
    assert reasons[2, 100].startswith("l1.size=100: is not a multiple")
    assert found.infeasible == tuple(row for row in found.rows if row.reason is not None)
    assert found.rows[2].to_dict()["result"] is None


def test_options_that_do_not_go_together_are_a_reason():
    found = rd.sweep(ATAX, LINEAR, definition=["hardware", "paper"], sched=["random", "gto"], n_jobs=1)
    assert [row.reason for row in found.rows][:3] == [None] * 3
    assert found.rows[3].reason == "sched='gto': only the definition 'hardware' has this option"


def test_a_kernel_that_does_not_fit_on_one_of_the_gpus_runs_on_the_others():
    found = rd.sweep(ATAX, [LINEAR.replace(name="a", max_block_threads=16), LINEAR.replace(name="b")], n_jobs=1)
    assert "32 threads, a allows at most 16 per block" in found.rows[0].reason
    assert found.rows[1].result == rd.predict(ATAX, LINEAR.replace(name="b"), histogram=False)


def test_blocks_that_a_trace_lacks_are_a_reason(tmp_path):
    rd.save(ATAX.cut([0]), tmp_path / "t")
    found = rd.sweep(rd.load(tmp_path / "t"), model_sms=[1, 2], n_jobs=1)
    assert found.rows[0].reason is None
    assert found.rows[1].reason == "block 1 is not in the trace of atax.1: it holds 1 of 2 blocks"


class Faulty(rd.Trace):
    """A trace whose second block turns out to be bad."""

    def __init__(self) -> None:
        self.launch, self.blocks = ATAX.launch, ATAX.blocks

    def block(self, block: int):
        if block == 1:
            raise TraceError("line 7: is bad")
        return ATAX.block(block)


def test_points_that_fail_have_the_reason_and_are_not_kept(tmp_path, at_once):
    for jobs in (1, 2):
        found = rd.sweep(Faulty(), model_sms=[1, 2], seed=[0, 1], n_jobs=jobs)
        assert [row.reason for row in found.rows] == [None, None, "line 7: is bad", "line 7: is bad"]


def test_a_point_whose_blocks_cannot_be_read_has_no_answer_and_its_reason_each_time(tmp_path):
    for kept in (0, 1):
        found = rd.sweep(Faulty(), model_sms=[1, 2], n_jobs=1, answers=tmp_path / "a")
        assert [row.reason for row in found.rows] == [None, "line 7: is bad"]
        assert found.kept == kept


def test_a_program_that_fails_has_the_reason_at_every_point():
    ptx = GATHER.replace("mul.wide.u32 %a3, %r2, 128;", "mul.wide.u32 %a3, %r2, 1280;")
    trace = cuda.trace(ptx, "k", (2, 1, 1), (64, 1, 1), {"x": "int[1024]:random"})
    with pytest.raises(TraceError, match=r"none of 2 points can be run: k: PTX line 16: .* past the end of x"):
        rd.sweep([trace], seed=[0, 1], n_jobs=1)
    assert [row.kernel for row in rd.sweep([trace, ATAX], seed=0, n_jobs=1).rows if row.result] == ["atax.1"]


@pytest.mark.parametrize(
    ("traces", "gpu", "grid", "error", "message"),
    [
        ([], LINEAR, {}, ConfigError, "traces: there is nothing to run"),
        (3, LINEAR, {}, TraceError, "traces=3: must be a Trace, or several"),
        ([ATAX, "gemm"], LINEAR, {}, TraceError, "traces='gemm': must be a Trace"),
        ("gemm", LINEAR, {}, TraceError, "traces='gemm': must be a Trace"),
        (ATAX, LINEAR, {"engine": "guess"}, ConfigError, "unknown value for engine: 'guess'"),
        (ATAX, LINEAR, {"n_jobs": 0}, ConfigError, "n_jobs=0: must be at least 1"),
        (ATAX, LINEAR, {"answers": 3}, ConfigError, "answers=3: must be an Answers, or the path of its file"),
        (ATAX, LINEAR, {"sched": ["gto", "shed"]}, ConfigError, "unknown value for sched: 'shed'"),
        (ATAX, LINEAR, {"way": 2}, ConfigError, "did you mean 'ways'"),
        (ATAX, LINEAR, {"ways": [3, 5]}, ConfigError, "none of 2 points can be run: l1.size=16384: is not a multiple"),
        (ATAX, LINEAR, {"ways": 3}, ConfigError, "^l1.size=16384: is not a multiple"),
        (ATAX, LINEAR, {"seed": -1}, ConfigError, "^seed=-1"),
        (
            ATAX,
            LINEAR.replace(max_block_threads=16),
            {"seed": [0, 1]},
            LaunchError,
            "none of 2 points can be run: block",
        ),
        (ATAX, LINEAR, {"engine": "estimate", "threads": 32}, ConfigError, "threads: not an option of estimate"),
        (ATAX, LINEAR, {"engine": "estimate", "work": 0}, ConfigError, "work=0: must be a number of transactions"),
        (
            ATAX,
            LINEAR,
            {"engine": "estimate", "definition": "paper", "sched": "gto"},
            ConfigError,
            "only the definition",
        ),
        (ATAX, LINEAR, {"engine": "simulate", "memory": -1}, ConfigError, "memory=-1: must be at least 0"),
        (ATAX, LINEAR, {"sample_sms": 2, "l2": True}, ConfigError, "sample_sms cannot be combined with l2"),
    ],
)
def test_mistakes_are_told_before_a_block_is_read(monkeypatch, traces, gpu, grid, error, message):
    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(type(ATAX), "block", never)
    with pytest.raises(error, match=message):
        rd.sweep(traces, gpu, **{"n_jobs": 1, **grid})


# ---- laws of caches


LINES = [int(n) for n in np.random.default_rng(7).zipf(1.3, 400) % 64]
ONE_WARP = make_trace([[[(Op.LOAD, ALL_NEEDS, 0, [line]) for line in LINES]]], warps=1)
PLAIN: dict[str, Any] = {"definition": "paper", "lat_min": 0, "sigma": 0, "hit_latency": 0, "mshrs": "inf"}


def test_more_ways_of_as_many_sets_never_miss_more():
    # Without latencies the order of accesses depends on no cache, and LRU has the inclusion property in each set.
    sizes = [128 << n for n in range(8)]
    found = rd.sweep(ONE_WARP, LINEAR, ways=[1, 2, 4, 8, 16, 32], l1_size=sizes, n_jobs=1, **PLAIN)
    misses: dict[int, list[float]] = {}
    for row in found.rows:
        if row.result is not None:
            sets = row.point["l1_size"] // 128 // row.point["ways"]
            misses.setdefault(sets, []).append(row.result.misses.total)
    assert sorted(map(len, misses.values())) == [1, 2, 3, 4, 5, 6, 6, 6]
    assert all(counts == sorted(counts, reverse=True) for counts in misses.values())


def test_fully_associative_points_are_the_miss_ratio_curve():
    curve = rd.miss_ratio_curve(LINES, sizes=[1, 2, 4, 8, 16, 32])
    found = rd.sweep(
        ONE_WARP, LINEAR, ways=[1, 2, 4, 8, 16, 32], l1_size=[128 << n for n in range(6)], n_jobs=1, **PLAIN
    )
    whole = [row for row in found.rows if row.point["l1_size"] == 128 * row.point["ways"]]
    assert [row.result.miss_rate for row in whole] == [curve.at(row.point["ways"]) for row in whole]
    assert len(whole) == 6


# ---- what a sweep says


def test_rows_and_dicts_have_every_point():
    found = rd.sweep([ATAX, BICG], LINEAR, ways=[2, 3], seed=4, n_jobs=1)
    assert found.axes == {"ways": (2, 3)}
    assert found.fixed == {"gpu": "gtx470-16k", "seed": 4}
    assert [(row.trace, row.kernel, dict(row.point)) for row in found.rows] == [
        (number, kernel, {"ways": ways}) for number, kernel in enumerate(["atax.1", "bicg.1"]) for ways in (2, 3)
    ]
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["axes"] == {"ways": [2, 3]}
    assert plain["rows"][0]["result"] == json.loads(json.dumps(found.rows[0].result.to_dict()))
    rows = found.to_rows()
    assert rows[0] == {"trace": 0, "ways": 2, **found.rows[0].result.to_row(), "reason": None}
    assert rows[1] == {"trace": 0, "kernel": "atax.1", "ways": 3, "reason": found.rows[1].reason}
    assert str(found) == "2 kernels, 4 points (predict), 2 with a result"


def test_a_frame_has_a_row_for_each_point():
    pytest.importorskip("pandas")
    table = rd.sweep(ATAX, LINEAR, ways=[1, 2, 3], n_jobs=1).to_frame()
    assert list(table["ways"]) == [1, 2, 3]
    assert list(table["reason"].isna()) == [True, True, False]


def test_the_best_point_is_the_one_with_the_least_of_what_is_asked_for():
    found = rd.sweep(ATAX, LINEAR, ways=[1, 2, 3, 4], seed=[0, 1], n_jobs=1)
    ran = [row for row in found.rows if row.result is not None]
    assert found.best() is min(ran, key=lambda row: row.result.miss_rate)
    assert found.best("misses.capacity") is min(ran, key=lambda row: row.result.misses.capacity)
    assert found.best(lambda one: -one.steps) is max(ran, key=lambda row: row.result.steps)
    for measure in ("cycles", "misses", "miss_rat"):
        with pytest.raises(ConfigError, match=f"measure='{measure}': the results have no such number"):
            found.best(measure)


def test_little_work_begins_no_other_process():
    code = (
        "import sys, rdmodel as rd, tracegen; trace = tracegen.kernel('atax.1', NX=64, NY=64)\n"
        "rd.sweep(trace, seed=[0, 1, 2], n_jobs=2); print('joblib' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(rd.__file__).parents[1]), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "False\n"
