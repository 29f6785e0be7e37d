"""Counters of the late part of a run: against the reference by instruction, by line, and on paper."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import Trace, predict
from rdmodel.gpu.config import GPU, replace
from rdmodel.model import cores
from rdmodel.model.divided_runs import predict_parts
from rdmodel.model.late_counts import LATE, LateCounts
from rdmodel.model.options import Options
from rdmodel.results.origins import TALLIED_COUNTERS
from rdmodel.results.prediction import Prediction
from rdmodel.trace import Op
from tests.support.builders import load, make_gpu, store
from tests.support.builders import make_trace as trace_of_lines
from tests.support.examples import examples
from tests.support.random_predictions import COMMON_HARDWARE, PAPER, Requests, expected, fed_in_portions
from tests.support.random_sectors import (
    LINE,
    OPTIONS,
    POOL,
    Program,
    coalesced,
    machines,
    make_trace,
    programs_with_operators,
)

STEADY = {"sigma": 0.0, "lat_min": 10, "hit_latency": 2, "sched": "fifo"}
"""Options without random numbers."""


@st.composite
def divided_programs(draw: st.DrawFn) -> Program:
    """Return a program whose instructions are in either part, as often as not in one and then in the other."""
    program = [
        [[{**row, "pc": draw(st.integers(0, 1))} for row in w] for w in b] for b in draw(programs_with_operators())
    ]
    if draw(st.booleans()):
        return [[sorted(warp, key=lambda row: row["pc"]) for warp in block] for block in program]
    return program


ALL_OPTIONS = given(divided_programs(), machines(), OPTIONS, st.integers(0, 3))
FAST_CORES = given(divided_programs(), machines(), COMMON_HARDWARE, st.integers(0, 3))
DEFINITION_PAPER = given(divided_programs(), machines(), st.fixed_dictionaries(PAPER), st.integers(0, 3))
"""Arguments of tests: a program in two parts, a GPU, options, and a seed."""


def plain_rows(program: Program) -> Program:
    """Return a program without operators, as the fast cores run it."""
    return [[[{**row, "cache_op": 0, "space": 0} for row in warp] for warp in block] for block in program]


def whole_lines(gpu: GPU) -> GPU:
    return gpu.replace(l1=replace(gpu.l1, sector=None, request_bytes=128))


def without_limit_per_warp(gpu: GPU) -> GPU:
    return gpu.replace(l1=replace(gpu.l1, mshr_per_warp=None))


def run(trace: Trace, gpu: GPU, seed: int = 0, **options: object) -> tuple[Prediction, LateCounts]:
    """Return the prediction and its late part; assert that the division changes nothing else."""
    options = {"model_sms": 1, **options}
    prediction, late = predict_parts(trace, gpu, seed=seed, **options)
    plain = predict(trace, gpu, seed=seed, work=None, histogram=False, **options)
    assert (prediction.per_sm, prediction.l2) == (plain.per_sm, plain.l2)
    return prediction, late


# ---- counters of the L1


def check(program: Program, gpu: GPU, seed: int, **given_options: object) -> None:
    """Compare the counters of the late part with those that the reference keeps for its instructions."""
    trace, options = make_trace(program), Options(**given_options).resolve(gpu)
    want: Counter[str] = Counter(dict.fromkeys(TALLIED_COUNTERS, 0))
    for counts in expected(trace, coalesced(program, gpu.l1, options), gpu, options, seed):
        for (pc, _line), some in counts.origins.items():
            if pc == LATE:
                want.update({name: getattr(some, name) for name in TALLIED_COUNTERS})
    _, late = run(trace, gpu, seed, **given_options)
    assert late.tallied == dict(want)


@examples(200)
@ALL_OPTIONS
def test_counters_of_the_late_part_equal_those_of_the_reference(program, gpu, options, seed):
    check(program, gpu, seed, **options)


@examples(200)
@FAST_CORES
def test_so_do_those_of_the_fast_cores(program, gpu, options, seed):
    check(plain_rows(program), without_limit_per_warp(gpu), seed, **options)


@examples(100)
@DEFINITION_PAPER
def test_so_do_those_of_the_definition_paper(program, gpu, options, seed):
    check(program, whole_lines(gpu), seed, **options)


@examples(100)
@given(divided_programs(), machines(), COMMON_HARDWARE, st.booleans())
def test_all_cores_count_the_same_late_part(program, gpu, options, l2):
    trace, gpu = make_trace(plain_rows(program)), without_limit_per_warp(gpu)
    if l2:
        gpu = gpu.replace(l2=replace(gpu.l2, sector=gpu.l1.sector))
    options = {**options, "l2": l2}
    _, fast = run(trace, gpu, **options)
    with patch.object(cores, "runs_fast", return_value=False):
        _, general = run(trace, gpu, **options)
    assert fast == general


# ---- requests of the L2


def apart(program: Program) -> Program:
    """Return a program whose late part accesses lines of its own, far from all others."""

    def moved(row: dict) -> dict:
        lanes = {lane: address + (64 * POOL if row["pc"] == LATE else 0) for lane, address in row["lanes"].items()}
        return {**row, "lanes": lanes}

    return [[[moved(row) for row in warp] for warp in block] for block in program]


def check_requests(program: Program, gpu: GPU, seed: int, **given_options: object) -> None:
    """Compare the L2's counters of the late part with the reference's requests for the late lines."""
    gpu = gpu.replace(l2=replace(gpu.l2, sector=gpu.l1.sector))
    program, given_options = apart(program), {**given_options, "l2": True}
    trace, options = make_trace(program), Options(**given_options).resolve(gpu)
    requests: Requests = {}
    expected(trace, coalesced(program, gpu.l1, options, full=True), gpu, options, seed, requests)
    sectors = Counter()
    for request in (one for log in requests.values() for one in log if one.line * LINE >= 32 * POOL):
        sectors["writes" if request.write else "reads"] += request.sectors.bit_count()
    _, late = run(trace, gpu, seed, **given_options)
    assert (late.l2["reads"], late.l2["writes"]) == (sectors["reads"], sectors["writes"])


@examples(200)
@ALL_OPTIONS
def test_the_l2_counts_the_requests_of_the_late_part(program, gpu, options, seed):
    check_requests(program, gpu, seed, **options)


@examples(200)
@FAST_CORES
def test_so_it_does_for_the_fast_cores(program, gpu, options, seed):
    check_requests(plain_rows(program), without_limit_per_warp(gpu), seed, **options)


@examples(100)
@DEFINITION_PAPER
def test_so_it_does_for_the_definition_paper(program, gpu, options, seed):
    check_requests(plain_rows(program), whole_lines(gpu), seed, **options)


@examples(60)
@given(divided_programs(), machines(), COMMON_HARDWARE, st.integers(1, 40), st.integers(1, 5))
def test_the_size_of_the_portions_changes_nothing(program, gpu, options, draws, instructions):
    gpu = without_limit_per_warp(gpu).replace(l2=replace(gpu.l2, sector=gpu.l1.sector))
    whole = run(make_trace(program), gpu, l2=True, **options)[1]
    with fed_in_portions(draws, instructions):
        assert run(make_trace(program), gpu, l2=True, **options)[1] == whole


# ---- on paper


def divided(rows: list[list], parts: list[list[int]], warps: int = 1) -> Trace:
    """Return a trace of blocks of `warps` warps whose instructions are in given parts."""
    blocks = [rows[first : first + warps] for first in range(0, len(rows), warps)]
    trace = trace_of_lines(blocks, warps=warps)
    return Trace(trace.launch, replace_pc(trace, [part for warp in parts for part in warp]))


def replace_pc(trace: Trace, parts: list[int]):
    columns = trace.columns
    return type(columns)(**{name: getattr(columns, name) for name in columns.__slots__} | {"pc": np.array(parts)})


def test_instructions_behind_the_late_part_are_not_in_it():
    rows = [[load(0), load(1), load(2), store(3), load(4)]]
    _, late = run(divided(rows, [[0, 1, 1, 0, 0]]), make_gpu(), l2=True, **STEADY)
    assert (late.tallied["transactions"], late.l2["reads"], late.l2["writes"]) == (2, 2, 0)


def test_a_run_without_a_late_part_counts_none():
    _, late = run(divided([[load(0), load(1)]], [[0, 0]]), make_gpu(), l2=True, **STEADY)
    assert not any(late.tallied.values())
    assert not any(late.l2.values())


def test_stores_that_warps_pass_are_in_the_part_of_each():
    # Both warps pass all of their stores at once.
    rows = [[store(line) for line in range(7)]] * 2
    assert all(row[0] == Op.STORE for warp in rows for row in warp)
    _, late = run(divided(rows, [[0, 0, 0, 1, 1, 1, 1], [1] * 7], warps=2), make_gpu(), l2=True, **STEADY)
    assert late.l2["writes"] == 11
