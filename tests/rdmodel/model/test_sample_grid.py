"""Samples of whole grids with the L2: the default of ``l2=True`` for grids that are too large to be run."""

from __future__ import annotations

from dataclasses import fields, replace
from threading import Lock
from time import sleep
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel.errors import ConfigError
from rdmodel.execution import threads
from rdmodel.gpu.memory import L2Config
from rdmodel.model import grid_pilot, sampled_studies
from rdmodel.model.count_blocks import BlockCounts
from rdmodel.model.grid_schedule import Spread
from rdmodel.model.grid_windows import GridWindow, PeriodCounts, WindowResult
from rdmodel.model.sample_grid import (
    L1_ESTIMATES,
    L2_ESTIMATES,
    MAX_WEIGHT_RATIO,
    GridPlan,
    GridSample,
    plan_windows,
    weigh_windows,
)
from rdmodel.results.counts import MissCounts, SmCounts, StoreCounts
from tests.support.builders import LINE, make_gpu

SMALL = make_gpu(sector=32).replace(
    sms=4, l2=L2Config(slices=2, ways=8, size=64 * LINE, sector=32, index="hash", partitions=1)
)


EMPTY = SmCounts(
    sm=0,
    **{
        name: StoreCounts(0, 0, 0, 0) if name == "stores" else MissCounts(0, 0, 0) if name == "misses" else 0
        for name in (field.name for field in fields(SmCounts))
        if name != "sm"
    },
)
"""The counters of a period without any event."""


def copy_kernel(blocks: int) -> rd.Trace:
    return tracegen.kernel("vectoradd", N=256 * blocks)


def exact_counts(found: rd.Prediction) -> dict[str, float]:
    l2 = found.l2
    return {
        "sectors": found.sectors,
        "misses": found.misses.total,
        "l2_reads": l2.reads,
        "l2_misses": l2.misses,
        "l2_writes": l2.writes,
        "dram_read_sectors": l2.dram_read_sectors,
        "dram_write_sectors": l2.write_backs,
    }


def test_without_a_choice_of_sms_an_l2_sees_the_requests_of_the_whole_grid_on_all_of_them():
    trace = copy_kernel(40)
    found = rd.predict(trace, SMALL, l2=True, histogram=False)
    assert found.l2 == rd.predict(trace, SMALL, l2=True, model_sms="all", threads=None, histogram=False).l2
    assert found.l2.sms_modelled == SMALL.sms


def test_a_grid_with_more_transactions_than_the_work_is_sampled_and_its_intervals_hold_the_exact_counts():
    trace = copy_kernel(1500)
    found = rd.predict(trace, SMALL, l2=True, work=200_000, n_jobs=1)
    exact = exact_counts(rd.predict(trace, SMALL, l2=True, work=None, histogram=False, n_jobs=1))
    assert found.estimates.keys() >= exact.keys() | L2_ESTIMATES.keys()
    for name, number in exact.items():
        one = found.estimates[name]
        assert number in one, name
        assert one.high - one.low < 0.5 * max(number, 1), name
    assert found.l2.reads == found.estimates["l2_reads"].value


def test_a_sample_is_the_same_with_any_number_of_threads():
    trace = copy_kernel(1500)
    one, two = (rd.predict(trace, SMALL, l2=True, work=200_000, n_jobs=jobs) for jobs in (1, 2))
    assert one == two


class OneReader(rd.Trace):
    """A trace that counts the threads that make a block while another one does."""

    def __init__(self, original: rd.Trace) -> None:
        self.launch, self.blocks = original.launch, original.blocks
        self._original, self._lock, self.intruders = original, Lock(), 0

    def block(self, block: int):
        if not self._lock.acquire(blocking=False):
            self.intruders += 1
            return self._original.block(block)
        try:
            sleep(1e-5)  # lets the other threads run
            return self._original.block(block)
        finally:
            self._lock.release()


def test_the_threads_of_a_sample_make_one_block_at_a_time():
    alone, trace = (OneReader(copy_kernel(1500)) for _ in range(2))
    with patch.object(threads, "SINGLE_THREAD_SECONDS", 0):
        found = rd.predict(trace, SMALL, l2=True, work=200_000, n_jobs=2)
    assert trace.intruders == 0
    assert exact_counts(found) == exact_counts(rd.predict(alone, SMALL, l2=True, work=200_000, n_jobs=1))


def test_a_long_sample_is_the_same_in_processes_and_reports_progress():
    trace, seen = copy_kernel(1500), []
    alone = rd.predict(trace, SMALL, l2=True, work=200_000, n_jobs=1)
    with (
        patch.object(sampled_studies, "WORK_FOR_PROCESSES", 0),
        patch.object(sampled_studies, "available_cores", lambda: 2),
    ):
        found = rd.predict(
            trace, SMALL, l2=True, work=200_000, n_jobs=2, progress=lambda begun, of: seen.append((begun, of))
        )
        with pytest.raises(ZeroDivisionError):
            rd.predict(trace, SMALL, l2=True, work=200_000, n_jobs=2, progress=lambda begun, of: 1 / 0)
    assert found == alone
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]


def test_a_grid_that_cannot_be_sampled_is_refused_with_the_option_to_use():
    trace = copy_kernel(1500)
    with pytest.raises(ConfigError, match=r"cannot be sampled: seeds needs runs of everything; .* work=None"):
        rd.predict(trace, SMALL, l2=True, work=200_000, seeds=2)
    with pytest.raises(ConfigError, match=r"definition='paper' deals blocks without regard to time"):
        rd.predict(trace, make_gpu().replace(sms=4), l2=True, work=200_000, definition="paper")


def test_blocks_whose_warps_drift_apart_for_longer_than_the_sample_are_refused():
    trace = tracegen.kernel("gesummv", N=512)
    with (
        patch.object(grid_pilot, "STEADY_ROWS", 0),
        pytest.raises(ConfigError, match=r"the warps of a block drift apart, .* \(--work all\)"),
    ):
        rd.predict(trace, SMALL, l2=True, work=20_000)


@pytest.mark.parametrize("work", [0, -1, True, "many", float("nan")])
def test_a_work_that_is_no_positive_number_is_refused(work):
    with pytest.raises(ConfigError, match=r"work=.*: must be a number of transactions above 0"):
        rd.predict(copy_kernel(1), SMALL, l2=True, work=work)


def test_warps_drift_on_where_the_pilot_has_ended():
    """A pilot that ran a quarter of a block once let its warps start in step in all later windows."""
    offsets = [()] * grid_pilot.PHASES
    quarter = grid_pilot.PHASES // 4
    offsets[quarter] = (np.array([-0.01, 0.01]),)
    pilot = grid_pilot.Pilot(Spread(), tuple(offsets))
    rng = np.random.default_rng(0)
    assert pilot.warp_shares(0.1, rng) is None
    assert np.ptp(pilot.warp_shares(0.25, rng)) == pytest.approx(0.02)
    assert np.ptp(pilot.warp_shares(0.999, rng)) == pytest.approx(
        0.02 * ((grid_pilot.PHASES - 1) / quarter) ** 0.5, rel=0.6
    )
    assert pilot.warp_shares(0.999, rng).max() <= 1.0


def test_a_window_lasts_for_several_latencies_even_if_that_takes_more_work():
    plan = plan_windows(blocks=10_000, slots=500, cost=100.0, opening=20.0, work=10_000.0, seed=3, least=30.0)
    assert all(window.ends[-1] >= 30.0 for window in plan.windows)


def regressed(starts: list[float], rates: list[float]) -> GridSample:
    """Return a sample of a grid with long blocks, whose windows have these misses per load, and blocks that begin."""

    def period(begun: float, rate: float) -> PeriodCounts:
        sms = replace(EMPTY, blocks=begun, sectors=1000.0, misses=MissCounts(1000 * rate, 0, 0))
        return PeriodCounts(sms, {}, 1000.0)

    periods = [(period(0, 0.1),) + (period(n / 2, rate),) * 2 for n, rate in zip(starts, rates, strict=True)]
    first = WindowResult((period(100, 0.1),) * 3, 1.0)
    windows = tuple(GridWindow(0.0, (1.0, 2.0, 3.0)) for _ in range(len(starts) + 1))
    means = {"sectors": 1000.0, "loads": 1000.0, "bypassed_sectors": 0.0}
    counted = BlockCounts(1300, means, dict.fromkeys(means, 0.0))
    return GridSample(
        GridPlan(windows, 1300, 0.1), [first, *(WindowResult(some, 1.0) for some in periods)], counted, 1e6, 100
    )


def test_a_window_in_which_a_wave_begins_counts_as_much_as_waves_begin():
    """In two of 1,000 loads a block begins, and each one costs 2 misses more."""
    rates = [0.1 + 2 * n / 2000 for n in (0, 0, 60, 0)]
    sample = regressed([0, 0, 60, 0], rates)
    begun, rest = 1300 - 300, 1300 * 1000 - 3000
    assert sample.total(L1_ESTIMATES["misses"]) == pytest.approx(300 + rest * (0.1 + 2 * begun / rest))


def test_windows_that_scatter_give_no_counts_that_cannot_be():
    """A straight line through these windows is below 0 where as many blocks begin as in the whole grid."""
    sample = regressed([50, 60, 40, 55], [0.4, 0.7, 0.1, 0.5])
    misses, rest = sample.total(L1_ESTIMATES["misses"]) - 300, 1300 * 1000 - 3000
    assert 0.1 * rest <= misses <= 0.3 * rest


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=9, unique=True))
def test_weights_of_windows_balance_their_surplus_as_far_as_they_may(surplus):
    surplus = np.array(surplus, float)
    weights = weigh_windows(surplus)
    ratio = weights.max() / weights.min()
    assert weights.min() > 0
    assert ratio <= MAX_WEIGHT_RATIO * (1 + 1e-9)
    total = (weights * surplus).sum()
    if ratio < 0.999 * MAX_WEIGHT_RATIO:
        assert abs(total) <= 1e-9 * (weights * abs(surplus)).sum()
    else:
        assert np.sign(total) == np.sign(surplus.sum())
        assert abs(total) / weights.sum() <= abs(surplus.mean())


def test_beginnings_of_blocks_that_no_window_has_widen_the_interval():
    assert regressed([0] * 4, [0.1] * 4).errors(L1_ESTIMATES["misses"]) == (0.0, 0.0)
    more = regressed([0] * 4, [0.08] * 4)
    assert more.errors(L1_ESTIMATES["misses"])[1] == pytest.approx((300 - 0.08 * 3000) * 1000 / 300)


def test_windows_lie_in_the_grid_one_in_each_stratum():
    plan = plan_windows(blocks=10_000, slots=50, cost=100.0, opening=20.0, work=100_000.0, seed=3)
    first, *rest = plan.windows
    assert first.begin == 0
    counted = [(window.begin + window.ends[0], window.begin + window.ends[2]) for window in rest]
    assert all(low < high <= 10_000 for low, high in counted)
    assert np.all(np.diff([low for low, _ in counted]) > 0)
    assert plan_windows(blocks=10_000, slots=50, cost=100.0, opening=20.0, work=700_000.0, seed=3) is None


def test_the_stores_of_a_grid_are_known_even_if_no_window_has_any():
    trace = tracegen.kernel("gemm.tiled", NI=256, NJ=256, NK=256)
    with patch.object(grid_pilot, "STEADY_ROWS", float("inf")):
        found = rd.predict(trace, SMALL, l2=True, work=30_000, n_jobs=1)
    exact = 256 * 256 * 4 / 32
    assert found.l2.writes == found.estimates["l2_writes"].value == pytest.approx(exact, rel=1e-9)
    assert found.sectors == pytest.approx(found.hits + found.latency_misses + found.misses.total, rel=1e-9)
    written = found.estimates["dram_write_sectors"]
    assert 0 <= written.low <= written.high <= 1.05 * exact


def test_with_the_default_work_a_grid_is_sampled_only_if_that_saves_time():
    trace = copy_kernel(1500)
    with (
        patch("rdmodel.model.sampled_studies.AUTO_WORK", 200_000),
        patch("rdmodel.model.sample_grid.HISTORY_RATIO", 1e3),
    ):
        found = rd.predict(trace, SMALL, l2=True, n_jobs=1)
        assert rd.predict(trace, SMALL, l2=True, work=200_000, n_jobs=1).estimates
    assert not found.estimates
    assert found.l2 == rd.predict(trace, SMALL, l2=True, work=None, n_jobs=1).l2
