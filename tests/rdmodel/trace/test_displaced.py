"""Traces whose arrays lie further apart."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel.errors import TraceError
from rdmodel.trace import ArrayInfo, Trace
from rdmodel.trace.coalescing import StoreRule, coalesce
from rdmodel.trace.displaced import DisplacedTrace
from rdmodel.trace.expansion import expand
from tests.support.examples import examples

GEMM = tracegen.kernel("gemm", NI=32, NJ=32, NK=8)
GAPS = st.lists(st.integers(0, 20).map(lambda n: 256 * n), min_size=1, max_size=4)


def addresses(trace: Trace, block: int) -> np.ndarray:
    content = trace.block(block)
    return (content if hasattr(content, "addresses") else expand(content, trace.launch.block_warps)).addresses


def stored() -> Trace:
    return Trace(GEMM.launch, GEMM.columns)


@examples(50)
@given(GAPS, st.sampled_from(["generated", "stored"]))
def test_every_address_moves_by_the_gaps_before_its_array(gaps, kind):
    trace = GEMM if kind == "generated" else stored()
    moved = DisplacedTrace(trace, gaps)
    arrays = sorted(GEMM.launch.arrays, key=lambda array: array.base)
    for block in (0, GEMM.launch.blocks - 1):
        for before, after in zip(addresses(trace, block), addresses(moved, block), strict=True):
            place = next(at for at, array in enumerate(arrays) if array.base <= before < array.base + array.bytes)
            assert after - before == sum(gaps[: place + 2])
    assert [array.bytes for array in moved.launch.arrays] == [array.bytes for array in arrays]


@examples(20)
@given(GAPS)
def test_instructions_coalesce_as_before(gaps):
    moved = DisplacedTrace(stored(), gaps)
    for block in range(GEMM.launch.blocks):
        for one, other in zip(
            coalesce(stored().block(block), 128, StoreRule.LINES),
            coalesce(moved.block(block), 128, StoreRule.LINES),
            strict=True,
        ):
            assert one.count[: one.n].tolist() == other.count[: other.n].tolist()


def test_a_trace_without_names_moves_as_a_whole():
    trace = stored()
    trace = Trace(dataclasses.replace(trace.launch, arrays=()), trace.columns)
    moved = DisplacedTrace(trace, [512])
    assert (addresses(moved, 0) - addresses(trace, 0) == 512).all()


def test_a_displaced_trace_has_the_properties_of_its_original():
    moved = DisplacedTrace(GEMM, [256])
    assert (len(moved), dict(moved.params), moved.any_order) == (len(GEMM), GEMM.params, GEMM.any_order)
    assert moved.block_work(0) == GEMM.block_work(0)
    assert set(moved.sources) == set(GEMM.sources)
    assert rd.predict(moved, "v100", definition="hardware").transactions == rd.predict(GEMM, "v100").transactions


@pytest.mark.parametrize("gaps", [[], [100], [-256], [256] * 5])
def test_gaps_that_are_no_multiples_or_too_many_are_refused(gaps):
    with pytest.raises(TraceError, match="must be multiples of 256, at most one more than arrays"):
        DisplacedTrace(GEMM, gaps)


def test_arrays_stay_inside_the_address_space():
    launch = dataclasses.replace(GEMM.launch, arrays=(ArrayInfo("a", (1 << 63) - 4096, 4000),))
    with pytest.raises(TraceError, match="would end above address"):
        DisplacedTrace(Trace(launch, GEMM.columns, trusted=True), [256])
