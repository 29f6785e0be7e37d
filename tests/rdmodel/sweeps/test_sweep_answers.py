"""`sweep` with an answers file: stored points are not run again, also after an interruption."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from typing import Any

import pytest

import rdmodel as rd
import tracegen
from rdmodel.gpu.overrides import override
from rdmodel.sweeps import sweep as sweep_module
from rdmodel.trace import ALL_NEEDS, Op
from tests.support.builders import make_trace
from tests.support.presets import FERMI
from tests.support.sweep_grids import ATAX, BASE, BICG, GRID, LINEAR

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
        name: rd.sweep(ATAX, gpu=FERMI, engine=name, answers=tmp_path / "a", n_jobs=1)
        for name in ("predict", "estimate", "simulate")
    }
    calls.clear()
    assert rd.sweep(ATAX, gpu=FERMI, engine=engine, answers=tmp_path / "a", n_jobs=1) == kept[engine]
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
        found = rd.sweep(ATAX, answers=answers, n_jobs=1, **{"gpu": FERMI, **point})
        assert (found.kept, len(calls)) == (0, 1)
        assert found == rd.sweep(ATAX, n_jobs=1, **{"gpu": FERMI, **point})
        assert rd.sweep(ATAX, answers=answers, n_jobs=1, **{"gpu": FERMI, **point}).kept == 1


def test_a_trace_is_known_by_what_it_does_not_by_where_it_is_from(tmp_path, calls):
    with rd.Answers(tmp_path / "a") as answers:
        rd.save(ATAX, tmp_path / "t")
        wanted = rd.sweep(rd.load(tmp_path / "t"), gpu=FERMI, seed=[0, 1], answers=answers, n_jobs=1)
        rd.save(ATAX, tmp_path / "u")
        assert rd.sweep(rd.load(tmp_path / "u"), gpu=FERMI, seed=[0, 1], answers=answers, n_jobs=1) == wanted
        assert len(calls) == 2
        rd.save(
            tracegen.kernel("atax.1", NX=64, NY=64, block=(32, 1, 1), base=ATAX.launch.arrays[0].base + 256),
            tmp_path / "u",
            overwrite=True,
        )
        assert rd.sweep(rd.load(tmp_path / "u"), gpu=FERMI, seed=[0, 1], answers=answers, n_jobs=1).kept == 0


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
    wanted = rd.sweep(ATAX, gpu=FERMI, n_jobs=1)
    for wrong in ({}, {"config": {}}, {"config": {"gpu": None}}, {"config": {"gpu": None}, "hits": 3, "runs": []}):
        monkeypatch.setattr(sweep_module, "result_to_record", lambda *_, wrong=wrong: wrong)
        rd.sweep(ATAX, gpu=FERMI, answers=tmp_path / "a", n_jobs=1)
        monkeypatch.undo()
        assert rd.sweep(ATAX, gpu=FERMI, answers=tmp_path / "a", n_jobs=1) == wanted
        (tmp_path / "a").unlink()


def test_a_file_that_is_not_a_cache_is_left_alone_and_said_so(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("mine\n" * 100)
    found = rd.sweep(ATAX, gpu=FERMI, answers=path, n_jobs=1)
    assert "is not a cache of answers; left alone" in found.trouble
    assert path.read_text() == "mine\n" * 100
    assert rd.sweep(ATAX, gpu=FERMI, n_jobs=1).trouble is None


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
    options = {"engine": "simulate", "l1_mshrs": range(8, 28), "answers": sys.argv[1]}
    rd.sweep(trace, "gtx470-16k", n_jobs=2, progress=tell, **options)
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
        found = rd.sweep(trace, gpu=FERMI, engine="simulate", l1_mshrs=range(8, 28), answers=answers, n_jobs=1)
    assert found.kept == left
    for at in (0, 19):
        assert found.rows[at].result == rd.simulate(trace, override(BASE, {"l1.mshrs": 8 + at}))
