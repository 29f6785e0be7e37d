"""`sweep`: points that cannot run have a reason, and mistakes are reported before a block is read."""

from __future__ import annotations

import pytest

import rdmodel as rd
from rdmodel.errors import ConfigError, LaunchError, TraceError
from tests.support.presets import FERMI
from tests.support.ptx_texts import GATHER
from tests.support.sweep_grids import ATAX, LINEAR
from tracegen import cuda


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
    found = rd.sweep(rd.load(tmp_path / "t"), gpu=FERMI, model_sms=[1, 2], n_jobs=1)
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
        found = rd.sweep(Faulty(), gpu=FERMI, model_sms=[1, 2], seed=[0, 1], n_jobs=jobs)
        assert [row.reason for row in found.rows] == [None, None, "line 7: is bad", "line 7: is bad"]


def test_a_point_whose_blocks_cannot_be_read_has_no_answer_and_its_reason_each_time(tmp_path):
    for kept in (0, 1):
        found = rd.sweep(Faulty(), gpu=FERMI, model_sms=[1, 2], n_jobs=1, answers=tmp_path / "a")
        assert [row.reason for row in found.rows] == [None, "line 7: is bad"]
        assert found.kept == kept


def test_a_program_that_fails_has_the_reason_at_every_point():
    ptx = GATHER.replace("mul.wide.u32 %a3, %r2, 128;", "mul.wide.u32 %a3, %r2, 1280;")
    trace = cuda.trace(ptx, "k", (2, 1, 1), (64, 1, 1), {"x": "int[1024]:random"})
    with pytest.raises(TraceError, match=r"none of 2 points can be run: k: PTX line 16: .* past the end of x"):
        rd.sweep([trace], gpu=FERMI, seed=[0, 1], n_jobs=1)
    assert [row.kernel for row in rd.sweep([trace, ATAX], gpu=FERMI, seed=0, n_jobs=1).rows if row.result] == ["atax.1"]


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
