"""Counters by origin: the compiled cores against the reference, which keeps a ledger for each origin."""

from __future__ import annotations

import dataclasses
from collections import Counter
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from rdmodel import predict
from rdmodel.gpu.config import GPU, replace
from rdmodel.model import origins as tally
from rdmodel.model.options import Options
from rdmodel.results.origin_kinds import ORIGINS
from rdmodel.results.origins import TALLIED_COUNTERS
from rdmodel.results.prediction import Prediction
from rdmodel.trace import ArrayInfo, Trace
from tests.support.examples import examples
from tests.support.random_predictions import COMMON_HARDWARE, PAPER, counts_of, expected, fed_in_portions
from tests.support.random_sectors import (
    LINE,
    OPTIONS,
    Program,
    coalesced,
    machines,
    make_trace,
    programs_with_operators,
)

ARRAYS = (ArrayInfo("b", 10 * LINE, 2 * LINE + 40), ArrayInfo("a", 3 * LINE, 4 * LINE), ArrayInfo("none", 3 * LINE, 0))
"""Arrays that hold some of the lines that the programs access, in any order; two have lines in common with none."""

PLACE_LINES = 4
"""Lines of a place outside the arrays."""


def place_of(line: int) -> int:
    """Return the place of a line, found one array after the other."""
    known = sorted((array.base, array.bytes) for array in ARRAYS if array.bytes)
    for place, (base, size) in enumerate(known):
        if base < (line + 1) * LINE and line * LINE < base + size:
            return place
    return len(known) + line // PLACE_LINES


@st.composite
def numbered_programs(draw: st.DrawFn) -> Program:
    """Return a program whose instructions have any numbers."""
    numbers = st.sampled_from([0, 1, 2, 7, -3, 2**31 - 1])
    program = draw(programs_with_operators())
    return [[[{**row, "pc": draw(numbers)} for row in warp] for warp in block] for block in program]


def with_arrays(program: Program) -> Trace:
    trace = make_trace(program)
    return Trace(dataclasses.replace(trace.launch, arrays=ARRAYS), trace.columns)


def check(program: Program, gpu: GPU, seed: int, **given_options: object) -> Prediction:
    """Compare the counters of every instruction and place with the reference's, and all sums with the counters."""
    trace, options = with_arrays(program), Options(**given_options).resolve(gpu)
    want: dict[tuple[int, int], Counter[str]] = {}
    for counts in expected(trace, coalesced(program, gpu.l1, options), gpu, options, seed):
        for (pc, line), some in counts.origins.items():
            sums = want.setdefault((pc, place_of(line)), Counter())
            sums.update({name: getattr(some, name) for name in TALLIED_COUNTERS})
    with patch.object(tally, "PLACE_BYTES", PLACE_LINES * LINE):
        got = predict(trace, gpu, seed=seed, origins=True, **given_options)
    found = {
        (entry.pc, entry.place): dict(zip(TALLIED_COUNTERS, entry.numbers, strict=True))
        for entry in got.origins.entries
    }
    assert found == {origin: dict(sums) for origin, sums in want.items() if any(sums.values())}
    plain = predict(trace, gpu, seed=seed, **given_options)
    assert got.per_sm == plain.per_sm
    assert got.histogram == plain.histogram
    assert_sums_are_the_counters(got)
    return got


def assert_sums_are_the_counters(result: Prediction) -> None:
    totals = [counts_of(sm) for sm in result.per_sm]
    for kind in ORIGINS:
        rows = result.by(kind).to_rows()
        for name in TALLIED_COUNTERS:
            column = name.replace("store_", "stores_")
            column = f"misses_{name}" if name in ("compulsory", "capacity", "associativity") else column
            assert sum(row[column] for row in rows) == sum(counts[name] for counts in totals)


@examples(200)
@given(numbered_programs(), machines(), OPTIONS, st.integers(0, 3))
def test_counters_by_origin_equal_those_of_the_reference(program, gpu, options, seed):
    check(program, gpu, seed, **options)


@examples(200)
@given(numbered_programs(), machines(), COMMON_HARDWARE, st.integers(0, 3))
def test_so_do_those_of_the_fast_core(program, gpu, options, seed):
    served = [[[{**row, "cache_op": 0, "space": 0} for row in warp] for warp in block] for block in program]
    check(served, gpu.replace(l1=replace(gpu.l1, mshr_per_warp=None)), seed, **options)


@examples(100)
@given(numbered_programs(), machines(), st.fixed_dictionaries(PAPER), st.integers(0, 3))
def test_so_do_those_of_the_definition_paper(program, gpu, options, seed):
    check(program, gpu.replace(l1=replace(gpu.l1, sector=None, request_bytes=128)), seed, **options)


@examples(30)
@given(numbered_programs(), machines(), OPTIONS, st.integers(1, 40), st.integers(1, 5))
def test_the_size_of_the_portions_changes_no_counter_by_origin(program, gpu, options, draws, instructions):
    whole = predict(with_arrays(program), gpu, origins=True, **options)
    with fed_in_portions(draws, instructions):
        assert predict(with_arrays(program), gpu, origins=True, **options).origins == whole.origins


@examples(30)
@given(numbered_programs(), machines(), OPTIONS)
def test_counters_by_origin_over_seeds_are_means(program, gpu, options):
    result = predict(with_arrays(program), gpu, origins=True, seeds=3, **options)
    for kind in ORIGINS:
        total = sum(row.counts.misses.total for row in result.by(kind).rows)
        assert abs(total - result.misses.total) < 1e-9
