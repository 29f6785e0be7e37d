"""Objectives: the roofline by hand, the latency against a single simulated miss, and what their bounds say."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest

import rdmodel as rd
import tracegen
from rdmodel.common.intervals import Estimate
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import CacheConfig
from rdmodel.gpu.latency import unloaded_latency
from rdmodel.gpu.memory import CrossbarConfig, DramConfig, L2Config
from rdmodel.model.machine_options import complete_options
from rdmodel.policies import Linear
from rdmodel.tiling.objectives import OBJECTIVES, Value, objective_named
from tests.support.presets import SIMULATED_PRESETS

SMALL = rd.GPU(
    name="small",
    sms=3,
    max_threads=256,
    max_blocks=2,
    max_warps=8,
    clock=600,
    l1=CacheConfig(size=2048, ways=2, line=128, index=Linear(), mshrs=8),
    crossbar=CrossbarConfig(clock=400, width=32, latency=5),
    l2=L2Config(clock=300, slices=2, size=4096, ways=4, latency=40),
    dram=DramConfig(clock=900, width=4),
)
FAST = {"crossbar": replace(SMALL.crossbar, clock=4000), "dram": replace(SMALL.dram, clock=4000)}
TRACE = tracegen.kernel("mvt.1", N=96, block=32)
WHOLE = rd.estimate(TRACE, SMALL, l2=True, **complete_options(SMALL, {}))


def test_the_roofline_is_as_by_hand():
    line, l2 = rd.roofline(WHOLE, SMALL), WHOLE.l2
    assert l2.reads > 0
    assert l2.writes > 0
    # A request to read is 8 bytes, 1 flit of 32; one to write, and an answer, 8 + 128 bytes, 5 flits.
    down, up = l2.reads + 5 * l2.writes, 5 * l2.reads
    # What of the SM's time is neither issue (2 schedulers) nor port is as much longer as DRAM makes the mean miss: the
    # idle L2 answers in 40 + ceil((10 + 6 flits) x 1.5) + 1, DRAM in 100 + ceil((36 + 32) x 600 / 900) more.
    busy = max((WHOLE.transactions + l2.writes) / 3, WHOLE.instructions / 3 / 2)
    waiting = max(0.0, WHOLE.steps - busy)
    by_hand = {
        "sm": WHOLE.steps + waiting * l2.misses / l2.reads * (100 + 46) / (40 + 24 + 1),
        "l1": (WHOLE.transactions + l2.writes) / 3,
        "crossbar": max(down, up) / 2 * 600 / 400,  # the slices are fewer than the SMs
        "l2": (l2.reads + l2.writes) / 2 * 600 / 300,
        "dram": l2.dram_bytes / (2 * 4) * 600 / 900,
    }
    for name, cycles in by_hand.items():
        assert getattr(line, name) == pytest.approx(cycles), name
    assert line.cycles == max(by_hand.values())
    assert by_hand[line.bound] == line.cycles
    assert OBJECTIVES["cycles"].value(WHOLE, SMALL).value == line.cycles


@pytest.mark.parametrize(
    ("change", "bound"),
    [
        ({"dram": replace(SMALL.dram, clock=1)}, "dram"),
        ({"l2": replace(SMALL.l2, clock=1)}, "l2"),
        ({"crossbar": replace(SMALL.crossbar, clock=1)}, "crossbar"),
        (FAST, "sm"),
    ],
)
def test_the_slowest_part_is_the_bound(change, bound):
    assert rd.roofline(WHOLE, SMALL.replace(**change)).bound == bound


def test_the_roofline_without_waiting_for_dram_is_at_most_the_cycles_of_the_simulator():
    """It leaves queues out, so that the machine takes as long or longer; a tenth is for the order of warps."""
    for name, sizes in (("mvt.1", {"N": 512}), ("2dconv", {"NI": 256, "NJ": 256}), ("gemm", {"NI": 64})):
        trace = tracegen.kernel(name, **sizes)
        gpu = rd.presets.gpu("gtx470-16k")
        whole = rd.estimate(trace, gpu, l2=True, work=None, **complete_options(gpu, {}))
        line = replace(rd.roofline(whole, gpu), sm=whole.steps)
        assert line.cycles < 1.1 * rd.simulate(trace, gpu).cycles, name


def test_without_an_l2_there_is_no_roofline():
    with pytest.raises(ConfigError, match=r"has no L2, .* predict with l2=True"):
        rd.roofline(rd.predict(TRACE, SMALL), SMALL)


# ---- what the model is told


def hit_in_the_l2(gpu: rd.GPU) -> int:
    """Return the cycles of a simulated miss of one thread, alone, to a line that only the L2 has left."""

    def body(k, A):
        k.load(A, 0)
        k.barrier()
        for line in range(1, 4 * sets * gpu.l1.ways):
            k.load(A, line * gpu.l1.line // 4)
            k.wait()
        k.load(A, 0)
        k.wait()

    sets = gpu.l1.sets
    trace = tracegen.trace(body, grid=1, block=1, arrays={"A": 1 << 16})
    return rd.simulate(trace, gpu).miss_latencies.quantile(0.0)


@pytest.mark.parametrize("name", SIMULATED_PRESETS)
def test_the_latency_on_an_empty_machine_is_that_of_a_simulated_miss_that_hits_the_l2(name):
    gpu = rd.presets.gpu(name)
    assert unloaded_latency(gpu) - hit_in_the_l2(gpu) == (gpu.clock == gpu.crossbar.clock)


@pytest.mark.parametrize("name", SIMULATED_PRESETS)
def test_the_latency_on_an_empty_machine_is_the_least_that_was_calibrated(name):
    gpu = rd.presets.gpu(name)
    if gpu.calibrated is None:
        pytest.skip("not calibrated")
    assert unloaded_latency(gpu) - gpu.calibrated.lat_min == (gpu.clock == gpu.crossbar.clock)


def test_the_latency_of_a_small_machine_is_as_by_hand():
    # There 1 flit, back 5; twice 5 cycles from port to port; 400 MHz to 600; 40 in the slice, 1 to fill.
    assert unloaded_latency(SMALL) == 40 + ceil((10 + 6) * 600 / 400) + 1


def test_the_model_is_told_of_the_machine_and_of_what_the_user_says_instead():
    assert complete_options(SMALL, {}) == {
        "sched": "lrr",
        "schedulers": SMALL.core.schedulers,
        "stall": "head",
        "stores": "evict",
        "gap": True,
        "lat_min": unloaded_latency(SMALL),
        "sigma": 10.0,
        "hit_latency": SMALL.core.hit_latency,
    }
    assert complete_options(SMALL, {"sigma": 3.0, "blocks": 7}) == {
        **complete_options(SMALL, {}),
        "sigma": 3.0,
        "blocks": 7,
    }
    assert complete_options(SMALL, {"sched": "random"})["schedulers"] == 1
    assert complete_options(SMALL, {"definition": "paper", "seed": 3}) == {"definition": "paper", "seed": 3}


# ---- values and their bounds


def with_estimate(name: str, value: float, low: float, high: float) -> rd.Prediction:
    one = Estimate(value=value, standard_error=1.0, low=low, high=high, sampled="part")
    return replace(WHOLE, estimates={**WHOLE.estimates, name: one})


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("miss_rate", lambda one: one.miss_rate),
        ("misses", lambda one: one.misses.total),
        ("l2_bytes", lambda one: one.l2.bytes),
        ("dram_bytes", lambda one: one.l2.dram_bytes),
    ],
)
def test_a_count_has_the_bounds_of_its_estimate(name, read):
    value = read(WHOLE)
    assert OBJECTIVES[name].value(WHOLE, SMALL) == Value(value, value, value)
    wide = with_estimate(name, value, value / 3, value * 2)
    assert OBJECTIVES[name].value(wide, SMALL) == Value(value, value / 3, value * 2)
    assert OBJECTIVES[name].value(replace(WHOLE, estimates={}), SMALL) == Value(value, value, value)


def test_a_count_of_none_may_be_some():
    nothing = replace(WHOLE, misses=rd.MissCounts(0, 0, 0))
    one = Estimate(value=0, standard_error=3.0, low=0.0, high=6.0, sampled="part")
    value = OBJECTIVES["misses"].value(replace(nothing, estimates={"misses": one}), SMALL)
    assert value == Value(0.0, 0.0, 6.0)


def test_the_time_is_as_sure_as_what_bounds_it():
    steps, gpu = WHOLE.steps, SMALL.replace(**FAST)
    wide = with_estimate("steps", steps, 0.5 * steps, 2 * steps)
    value = OBJECTIVES["cycles"].value(wide, gpu)
    line = rd.roofline(wide, gpu)
    assert line.bound == "sm"
    assert value.value == line.sm
    assert value.high == 2 * line.sm
    assert value.low == max(0.5 * line.sm, line.l1, line.crossbar, line.l2, line.dram)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_function_is_as_sure_as_the_least_sure_estimate(sign):
    misses = WHOLE.misses.total
    wide = with_estimate("misses", misses, misses / 2, misses * 3)
    value = objective_named(lambda one: sign * 10).value(wide, SMALL)
    assert value.value == sign * 10
    assert (value.low, value.high) == (sign * 10 - 5, sign * 10 + 20)


def test_objectives_have_names():
    def mine(prediction):
        return 1

    assert objective_named(mine).name == "mine"
    assert objective_named("time").name == "time"
    assert sorted(OBJECTIVES) == ["cycles", "dram_bytes", "l2_bytes", "miss_rate", "misses", "time"]
    with pytest.raises(ConfigError, match="unknown objective 'dram'; did you mean 'dram_bytes'"):
        objective_named("dram")
    with pytest.raises(ConfigError, match="unknown objective"):
        objective_named(["time"])
