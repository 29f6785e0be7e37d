"""Check the time of a warp alone against a follower that keeps the end of every access."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import presets
from rdmodel.timing.demands import matrix_rate
from rdmodel.timing.latency import SAMPLED_WARPS, TRIPS, WINDOW, Latencies, follow_warps, unit_cycles
from rdmodel.trace import ALL_NEEDS, Launch, Op
from rdmodel.trace.expansion import expand
from tests.support.examples import examples
from tests.support.random_traces import ProgramTrace, segment

WARPS = SAMPLED_WARPS  # of a block, so that all of them are followed
LATENCIES = Latencies(load=(30.0, 40.0, 50.0, 60.0), atomic=70.0, gap=4.0, barrier=9.0)


def follow_alone(rows, latencies):
    """Return (cycles, accesses, gaps) from barrier to barrier of the rows (op, space, gap, needs) of a warp."""
    phases, ends, now, begun, accesses, gaps = [], [], 0.0, 0.0, 0, 0
    for op, space, gap, needs in rows:
        now, gaps = now + gap * latencies.gap, gaps + gap
        if op == Op.BARRIER:
            now = max([now, *ends]) + latencies.barrier
            phases.append((now - begun, accesses, gaps))
            begun, accesses, gaps = now, 0, 0
            continue
        for back, end in enumerate(reversed(ends)):
            if needs == ALL_NEEDS or (needs and (back >= WINDOW or needs >> back & 1)):
                now = max(now, end)
        now, accesses = now + 1, accesses + 1
        wait = {Op.LOAD: latencies.load[space], Op.ATOMIC: latencies.atomic}.get(Op(op), 0.0)
        ends.append(now + wait if wait else 0.0)
    return [*phases, (max([now, *ends]) - begun, accesses, gaps)]


@st.composite
def traces_of_short_loops(draw):
    """Draw a trace whose loops are followed to their ends; warps may have the same lanes, or all the same needs."""
    same_lanes, needs = draw(st.booleans()), draw(st.sampled_from([None, 0, 1, ALL_NEEDS]))
    shapes = st.lists(st.tuples(st.integers(1, TRIPS), st.integers(1, 5)), min_size=1, max_size=4)
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def change(part):
        return replace(
            part,
            mask=np.repeat(part.mask[:1], WARPS, axis=0) if same_lanes else part.mask,
            needs=part.needs if needs is None else np.full_like(part.needs, needs),
        )

    programs = {b: [change(segment(random, WARPS, *shape)) for shape in draw(shapes)] for b in range(2)}
    return ProgramTrace(Launch(kernel="k", grid=(2, 1, 1), block=(32 * WARPS, 1, 1)), programs)


@examples(400)
@given(traces_of_short_loops())
def test_each_warp_takes_as_long_as_if_it_were_followed_alone(trace):
    for block, found in zip(trace.blocks, follow_warps(trace, trace.blocks, LATENCIES), strict=True):
        columns = expand(trace.block(block), WARPS)
        parts = (columns.op, columns.space, columns.gap, columns.needs)
        rows = list(zip(*(part.tolist() for part in parts), strict=True))
        starts = columns.warp_start.tolist()
        wanted = [follow_alone(rows[a:b], LATENCIES) for a, b in pairwise(starts)]
        assert len(found) == WARPS
        for phases, expected in zip(found, wanted, strict=True):
            assert [tuple(phase)[:3] for phase in phases] == [pytest.approx(one) for one in expected]


# ---- units that instructions occupy


def units_of(name):
    gpu = presets.gpu(name)
    return unit_cycles(gpu, presets.rates_of(gpu)[0])


@pytest.mark.parametrize(
    ("name", "type", "m", "n", "k", "warps", "cycles"),
    [
        ("a100-80g", "fp16", 16, 8, 16, 1, 8),
        ("a100-80g", "tf32", 16, 8, 8, 1, 8),
        ("a100-80g", "int8", 16, 8, 32, 1, 8),
        ("h100-sxm", "bf16", 64, 128, 16, 4, 64),
        ("h100-sxm", "fp8", 64, 256, 32, 4, 128),
        ("h100-sxm", "fp4", 64, 256, 32, 4, 128),  # as fp8
        ("rtx3090", "fp16", 16, 8, 16, 1, 32),
        ("rtx3090", "fp16_fp16", 16, 8, 16, 1, 16),
        ("rtx4090", "fp8_fp16", 16, 8, 32, 1, 16),
        ("a6000", "fp16_fp16", 16, 8, 16, 1, 16),
    ],
)
def test_a_product_occupies_a_tensor_core_for_the_cycles_of_its_operations(name, type, m, n, k, warps, cycles):
    assert units_of(name)[f"matrix_{type}_busy"] * 2 * m * n * k / warps == cycles


@pytest.mark.parametrize("name", ["a100-80g", "h100-sxm", "v100", "rtx3090", "rtx4090"])
def test_the_depth_leaves_the_latency_of_a_short_product_as_it_is_measured(name):
    units, rates = units_of(name), presets.rates_of(presets.gpu(name))[0]
    short = 2 * 16 * 8 * 8
    assert units["matrix_fp16_busy"] * short + units["matrix_depth"] == rates["matrix_latency"]
    assert units["matrix_fp16_fp16_busy"] * short + units["matrix_depth_fp16"] == rates["matrix_latency"]


def test_sums_in_half_precision_without_a_rate_have_that_of_other_sums():
    for name in ("a100-80g", "rtx3090", "gtx480-khairy"):
        rates = {**presets.rates_of(presets.gpu(name))[0], "matrix_fp16_fp16": 0.0, "matrix_fp8_fp16": 0.0}
        assert matrix_rate("fp16_fp16", rates) == matrix_rate("fp16", rates)
        assert matrix_rate("fp8_fp16", rates) == matrix_rate("fp8", rates)


@pytest.mark.parametrize(("name", "shared"), [("a100-80g", 0), ("h100-sxm", 0), ("a4000", 1), ("c2050-base-l", 0)])
def test_latencies_tell_which_units_convert_to_64_bits(name, shared):
    # On the GPU of Fermi, all conversions have the rate of double precision.
    assert units_of(name)["conversion_64_in_fp64"] == shared


def test_an_instruction_occupies_a_unit_for_its_lanes():
    a100, h100 = units_of("a100-80g"), units_of("h100-sxm")
    assert (a100["special_busy"], a100["fp32_busy"], h100["fp32_busy"], a100["int_busy"]) == (8, 2, 1, 2)
    assert (a100["fp64_busy"], h100["fp64_busy"], a100["pack_fp16_busy"], a100["other_busy"]) == (4, 2, 2, 1)
