"""The cores for common options, against `rdmodel.reference` and against the core for all options, to the unit."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import Prediction, Trace, predict, presets
from rdmodel.gpu.config import GPU, replace
from rdmodel.gpu.overrides import override
from rdmodel.model import cores
from rdmodel.model._hardware import HardwareCore
from rdmodel.model._listed import ListedCore, find_bit, replay_row
from rdmodel.model._scheduled import ScheduledCore
from rdmodel.model.machine_options import complete_options
from rdmodel.model.options import Options
from rdmodel.trace import ALL_NEEDS, Op
from tests.support import random_sectors
from tests.support.builders import SMALL, make_gpu, make_trace
from tests.support.examples import examples
from tests.support.random_predictions import (
    COMMON_HARDWARE,
    COMMON_HARDWARE_FIELDS,
    assert_counts_equal,
    common,
    expected,
    fed_in_portions,
    machines,
    programs,
)

SECTORED = st.fixed_dictionaries(
    {**COMMON_HARDWARE_FIELDS, "stores": st.sampled_from([None, "through", "update", "evict"])}
).map(common)

OF_A_MACHINE = {"sched": "lrr", "schedulers": 4, "stall": "head", "gap": True, "stores": "through"}
"""Options that `complete_options` sets."""


def without_limit_per_warp(gpu: GPU) -> GPU:
    return gpu.replace(l1=replace(gpu.l1, mshr_per_warp=None))


def run_fast(trace: Trace, gpu: GPU, **given: object) -> Prediction:
    """Return a prediction, and assert that a core for common options made it."""
    with patch.object(cores, "HardwareCore", side_effect=AssertionError("the core for all options was made")):
        return predict(trace, gpu, **given)


def run_general(trace: Trace, gpu: GPU, **given: object) -> Prediction:
    with patch.object(cores, "runs_fast", return_value=False):
        return predict(trace, gpu, **given)


def assert_equal(trace: Trace, gpu: GPU, **given: object) -> Prediction:
    fast, general = run_fast(trace, gpu, **given), run_general(trace, gpu, **given)
    assert (fast.per_sm, fast.histogram, fast.l2) == (general.per_sm, general.histogram, general.l2)
    return fast


# ---- against the reference


@examples(60)
@given(programs(), machines(), COMMON_HARDWARE, st.integers(0, 3))
def test_it_equals_the_reference_on_random_machines(program, gpu, options, seed):
    gpu = without_limit_per_warp(gpu)
    trace = make_trace(*program)
    want = expected(trace, program[0], gpu, Options(**options).resolve(gpu), seed)
    assert_counts_equal(run_fast(trace, gpu, seed=seed, **options), want)


@examples(60)
@given(random_sectors.programs(), random_sectors.machines(), SECTORED, st.integers(0, 3))
def test_it_equals_the_reference_on_random_sectored_machines(program, gpu, options, seed):
    gpu = without_limit_per_warp(gpu)
    trace = random_sectors.make_trace(program)
    resolved = Options(**options).resolve(gpu)
    want = expected(trace, random_sectors.coalesced(program, gpu.l1, resolved), gpu, resolved, seed)
    assert_counts_equal(run_fast(trace, gpu, seed=seed, **options), want)


# ---- against the core for all options


def long_trace(seed: int, blocks: int, warps: int, lines: int, gaps: int = 0, barriers: float = 0.0) -> Trace:
    """Return a trace whose warps issue 40 to 80 instructions; some lines are far more frequent than others.

    Up to `gaps` other instructions are before each, and a share `barriers` of them are barriers.
    """
    random = np.random.default_rng(seed)
    needs = (0, 0, 1, 2, 6, 2**63, ALL_NEEDS)

    def instruction() -> tuple[int, int, int, tuple[int, ...]]:
        wanted = {int(lines * random.random() ** 3) for _ in range(random.integers(1, 6))}
        op, need = int(random.choice([Op.LOAD, Op.LOAD, Op.STORE])), needs[random.integers(len(needs))]
        gap = int(random.integers(gaps + 1)) if gaps else 0
        if barriers and random.random() < barriers:
            return int(Op.BARRIER), need, gap, ()
        return op, need, gap, tuple(wanted)

    program = [[[instruction() for _ in range(random.integers(40, 80))] for _ in range(warps)] for _ in range(blocks)]
    return make_trace(program, warps)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("changes", [{}, {"sector": 32, "stores": "through", "tags_per_step": 4}])
def test_it_equals_the_general_core_on_long_traces_with_many_warps(seed, changes):
    # Few lines are used again and again: the shadow then holds lines from very long ago.
    trace = long_trace(seed, blocks=9, warps=8, lines=(60, 400, 4000)[seed % 3])
    ways = (2, 16, 17, 48)[seed % 4]
    gpu = make_gpu(ways=ways, size=4 * ways * 128, mshrs=(None, 6, 24)[seed % 3], **changes).replace(max_blocks=8)
    gpu = gpu.replace(l2=replace(gpu.l2, sector=gpu.l1.sector))
    prediction = assert_equal(trace, gpu, seed=seed, sigma=30.0, lat_min=100, l2=seed % 2 == 1, sms=1)
    assert prediction.transactions > 7000


@pytest.mark.parametrize("stall", ["park", "head"])
@pytest.mark.parametrize("sched", ["lrr", "gto", "oldest", "gty"])
@pytest.mark.parametrize("stores", ["free", "through", "evict"])
def test_schedulers_of_many_warps_equal_those_of_the_general_core(sched, stall, stores):
    options = {"sched": sched, "stall": stall, "stores": stores, "schedulers": 4, "gap": True}
    for seed in range(4):
        trace = long_trace(seed, blocks=9, warps=8, lines=(60, 400, 4000)[seed % 3], gaps=5, barriers=0.08 * (seed % 2))
        gpu = make_gpu(ways=4, size=16 * 128, mshrs=(None, 6, 24)[seed % 3], sector=32).replace(max_blocks=8)
        gpu = gpu.replace(l2=replace(gpu.l2, sector=gpu.l1.sector))
        prediction = assert_equal(trace, gpu, seed=seed, sigma=10.0, lat_min=100, l2=seed > 1, sms=1, **options)
        assert prediction.transactions > 7000


@pytest.mark.parametrize("sched", ["random", "fifo", "lrr"])
def test_warps_go_on_by_their_slots_after_a_barrier_that_opens_late(sched):
    # Events more than 1024 steps ahead are on a heap in the general core.
    def load(line: int) -> tuple[int, int, int, tuple[int, ...]]:
        return int(Op.LOAD), ALL_NEEDS, 0, (line,)

    barrier = (int(Op.BARRIER), ALL_NEEDS, 0, ())
    program = [[load(0), barrier, load(1)], *[[barrier, load(warp // 2), load(warp)] for warp in range(6)]]
    trace, gpu = make_trace([program], len(program)), make_gpu(ways=1, size=128)
    for seed in range(5):
        assert_equal(trace, gpu, sched=sched, lat_min=3000, sigma=0.0, hit_latency=0, seed=seed)


@pytest.mark.parametrize("gpu", ["gtx470-16k", "koo-fermi", "a100-80g"])
def test_it_equals_the_general_core_on_a_kernel(gpu):
    import tracegen

    assert_equal(tracegen.kernel("atax.1", NX=256, NY=256), presets.gpu(gpu))


@pytest.mark.parametrize("gpu", ["gtx470-16k", "gv100", "a100-80g"])
def test_the_machine_of_times_and_rankings_equals_that_of_the_general_core(gpu):
    import tracegen

    machine = presets.gpu(gpu)
    trace = tracegen.kernel("gemm.shared", NI=64, NJ=64, NK=64)
    assert_equal(trace, machine, model_sms="all", l2=True, **complete_options(machine, {}))


@examples(40)
@given(
    random_sectors.programs(), random_sectors.machines(), SECTORED, st.integers(1, 5), st.integers(1, 3),
    st.sampled_from([run_fast, run_general]),
)  # fmt: skip
def test_it_does_not_matter_in_what_portions_a_core_is_fed(program, gpu, options, draws, instructions, run):
    gpu = without_limit_per_warp(gpu)
    trace = random_sectors.make_trace(program)
    whole = run(trace, gpu, **options)

    # A step may need as many draws as it issues transactions.
    with fed_in_portions(draws, instructions):
        fed = run(trace, gpu, **options)
    assert (fed.per_sm, fed.histogram) == (whole.per_sm, whole.histogram)


@examples(60)
@given(random_sectors.programs(), random_sectors.machines(), SECTORED)
def test_the_same_requests_leave_the_sms(program, gpu, options):
    gpu = without_limit_per_warp(gpu)
    sector = gpu.l1.sector_bytes
    gpu = gpu.replace(l1=replace(gpu.l1, sector=sector), l2=replace(gpu.l2, sector=sector))
    assert_equal(random_sectors.make_trace(program), gpu, l2=True, **options)


# ---- choice of the core


def core_of(gpu: GPU, warps: int = 8, **given: object) -> type:
    return type(cores.make_core(gpu, Options(**given).resolve(gpu), 1, warps, track=False))


def test_common_options_get_a_fast_core():
    for name in presets.names():
        gpu = presets.gpu(name)
        assert core_of(gpu, warps=gpu.max_warps) is ListedCore, name


def test_schedulers_that_choose_by_slots_get_a_fast_core():
    assert core_of(SMALL, **OF_A_MACHINE) is ScheduledCore
    assert core_of(SMALL, sched="gto") is ScheduledCore
    assert core_of(SMALL, **{**OF_A_MACHINE, "sched": "oldest", "schedulers": 2, "stall": "park"}) is ScheduledCore
    for name in presets.names():
        gpu = presets.gpu(name)
        assert core_of(gpu, gpu.max_warps, **complete_options(gpu, {})) is ScheduledCore, name


@pytest.mark.parametrize(
    "uncommon",
    [
        {"sched": "fifo", "schedulers": 2},
        {**OF_A_MACHINE, "stores": "step"},
        {"stall": "head"},
        {"full_set": "bypass"},
        {"step": "instruction"},
        {"stagger": 7},
        {"gap": True},
        {"first_touch_factor": 2.0},
        {"divergence": False},
        {"stores": "evict"},
        {"stores": "step"},
        {"lat_min": 0},
        {"lat_min": 4090},
        {"sigma": 1000.0},
        {"hit_latency": 5000},
        {"warps": 65},
    ],
)
def test_uncommon_options_get_the_general_core(uncommon):
    assert core_of(SMALL, **uncommon) is HardwareCore


def test_uncommon_limits_and_sizes_get_the_general_core():
    assert core_of(make_gpu(size=(1 << 16) * 128)) is ListedCore
    assert core_of(make_gpu(size=(1 << 17) * 128)) is HardwareCore
    assert core_of(SMALL.replace(l1=replace(SMALL.l1, mshr_per_warp=2))) is HardwareCore
    assert core_of(override(presets.gpu("a100-80g"), {"l1.tags_per_step": 8})) is HardwareCore


def test_loads_that_the_l1_does_not_serve_get_the_general_core():
    gpu = presets.gpu("a100-80g")
    resolved = Options().resolve(gpu)
    assert type(cores.make_core(gpu, resolved, 1, 8, track=False, bypasses=True)) is HardwareCore
    with pytest.raises(AssertionError, match="for all options"):
        run_fast(long_trace(0, blocks=1, warps=1, lines=9), gpu, dlcm="cg")


# ---- parts


@given(st.integers(1, 2**64 - 1), st.data())
def test_both_ways_to_find_the_nth_bit_agree(word, data):
    ones = [place for place in range(64) if word >> place & 1]
    rank = data.draw(st.integers(0, len(ones) - 1))
    assert find_bit(word, rank) == (ones[rank], ones[rank])


@examples(200)
@given(
    st.lists(st.tuples(st.sampled_from(["append", "park", "take", "take", "unpark"]), st.integers(0, 63)), max_size=300)
)
def test_parked_warps_stay_behind_the_ready_ones_until_they_join_them(wanted):
    """Two lists are the oracle: a full row is closed up, and no warp changes its place among the others."""
    ready, parked, steps = [], [], []
    for name, number in wanted:
        if name in ("append", "park"):
            free = [warp for warp in range(64) if warp not in ready and warp not in parked]
            if not free:
                continue
            warp = free[number % len(free)]
            (ready if name == "append" else parked).append(warp)
            steps.append((name, warp))
        elif name == "take":
            if ready:
                index = number % len(ready)
                del ready[index]
                steps.append((name, index))
        else:
            ready, parked = ready + parked, []
            steps.append((name, 0))
    assert replay_row(steps) == (ready, parked)
