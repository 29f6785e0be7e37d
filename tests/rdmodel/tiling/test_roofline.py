"""Roofline terms that rank tiles, from numbers that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

import rdmodel as rd
import tracegen
from rdmodel.gpu.latency import dram_latency, unloaded_latency
from rdmodel.model.machine_options import complete_options
from rdmodel.tiling.objectives import objective_named

GPU = rd.presets.gpu("gtx480-khairy")
TRACE = tracegen.kernel("2dconv.tiled", NI=64, NJ=64, TI=8, TJ=32)
EVERYTHING = rd.estimate(TRACE, GPU, l2=True, work=None, **complete_options(GPU, {}))


def with_misses(share):
    l2 = replace(EVERYTHING.l2, misses=share * EVERYTHING.l2.reads, hits=(1 - share) * EVERYTHING.l2.reads)
    return replace(EVERYTHING, l2=l2)


def test_a_line_from_dram_takes_its_commands_its_data_and_its_way_longer():
    # 12 + 12 + 12 DRAM cycles and 128 bytes at 32 in each, at 924 MHz; 100 cycles at 700 MHz
    assert dram_latency(GPU) == 31 + 100


def test_an_sm_whose_l2_has_everything_takes_the_time_of_the_model():
    assert rd.roofline(with_misses(0.0), GPU).sm == EVERYTHING.steps


def test_waiting_is_longer_by_what_dram_adds_to_the_mean_miss_and_issue_is_not():
    one = replace(with_misses(0.5), steps=10_000, transactions=15 * 1_000.0, instructions=15 * 2 * 4_000.0)
    wait = 10_000 - 4_000
    more = (unloaded_latency(GPU) + 0.5 * dram_latency(GPU)) / unloaded_latency(GPU)
    assert rd.roofline(one, GPU).sm == pytest.approx(4_000 + wait * more)


def test_an_sm_that_never_waits_takes_no_longer():
    one = replace(with_misses(1.0), steps=4_000, instructions=15 * 2 * 5_000.0)
    assert rd.roofline(one, GPU).sm == 4_000


def test_time_is_as_sure_as_the_share_of_misses_that_go_to_dram():
    exact = objective_named("cycles").value(EVERYTHING, GPU)
    assert exact.low == exact.value == exact.high
    small = rd.estimate(
        tracegen.kernel("2dconv.tiled", NI=2048, NJ=512), GPU, l2=True, work=20_000, **complete_options(GPU, {})
    )
    time = objective_named("cycles").value(small, GPU)
    steps = small.estimates["steps"]
    bound = rd.roofline(small, GPU)
    assert bound.bound == "sm"
    assert bound.sm > small.steps
    assert (time.high - time.value) / time.value > (steps.high - steps.value) / steps.value
