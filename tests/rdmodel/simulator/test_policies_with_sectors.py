"""With policies on machines whose lines have sectors, both machines decide alike: log, cycles, counters.

The rules are those of docs/policies.md, GPUs with sectors.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from rdmodel import presets, simulate
from rdmodel.gpu.carveout import fit_to_launch
from rdmodel.policies import ABYP, APCM, MRPB, PD, PDP, POLICIES, GCache, StreamingBypass
from rdmodel.reference.machine import MachineInstruction
from rdmodel.trace import Op
from tests.support.builders import make_trace
from tests.support.engine_checks import MEMORIES, MOSTLY_LOADS, SEEDS, check, check_trace
from tests.support.examples import examples
from tests.support.machine_programs import machine, simulated
from tests.support.paths import ROOT
from tests.support.random_machines import (
    Mix,
    random_blocks,
    random_partitioned_gpu,
    random_policies,
    random_sectored_gpu,
)
from tests.support.scenarios import load, store

TRACE = make_trace([[[load(line), store(line)] for line in range(4)]], warps=4)
GPU = presets.gpu("t4").replace(sms=1)
OPTIONS = {"swl": ":warps=1"}
CACHED = {"caches": ("global", "local", "nc"), "dlcm": None}


def busy(gpu, **fields):
    """Return a mix of many loads and some stores in place, over few lines with sectors."""
    return Mix(**{"sectors": gpu.l1.sectors, "most": 20, "widest": 4, "ops": MOSTLY_LOADS, "empty": 0, **fields})


MACHINES = st.sampled_from([random_sectored_gpu, random_partitioned_gpu])


@examples(60)
@given(MACHINES, SEEDS, st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 6), MEMORIES)
def test_random_policies_on_random_machines_with_sectors_equal_the_reference(
    draw, seed, sms, slots, warps, blocks, memory
):
    random = np.random.default_rng(seed)
    gpu, policies = draw(random), random_policies(random)
    check(random, gpu, random_blocks(random, blocks, warps, busy(gpu, most=14)), slots, sms, memory, policies)


PER_LINE = [
    PD(distance=1),
    PD(distance=9),
    PDP(period=50, most=30, every=1),
    GCache(period=200, sharers=2),
    ABYP(entries=2, most=2, threshold=1),
    APCM(tags=4, loads=3, most=3),
    APCM(mode="protect", most=15),
]


@examples(50)
@given(st.sampled_from(PER_LINE), st.sampled_from(["miss", "fill"]), SEEDS, st.integers(1, 4), MEMORIES)
def test_policies_that_look_at_lines_see_the_same_lines(policy, allocate, seed, ways, memory):
    random = np.random.default_rng(seed)
    gpu = random_sectored_gpu(random, l1={**CACHED, "allocate": allocate, "ways": ways, "sets": 2, "mshrs": 4})
    mix = busy(gpu, most=30, pool=tuple(range(14)), pcs=4, exits=0.3)
    check(random, gpu, random_blocks(random, 3, 3, mix), 2, memory=memory, policies=(policy,))


@examples(60)
@given(MACHINES, SEEDS, st.integers(20, 300), st.integers(1, 3), st.integers(1, 4), st.integers(1, 5))
def test_lines_with_sectors_that_an_l1_has_lost_stay_alike(draw, seed, period, sharers, ways, sms):
    random = np.random.default_rng(seed)
    gpu = draw(random, l1={**CACHED, "ways": ways, "sets": 2})
    mix = busy(gpu, most=30, pool=tuple(range(int(random.integers(6, 20)))))
    policy = GCache(period=period, sharers=sharers, heat=int(random.integers(1, 5)))
    check(random, gpu, random_blocks(random, 2 * sms, 3, mix), 2, sms, policies=(policy,))


@examples(36)
@given(
    MACHINES,
    st.sampled_from(["l1", "l2"]),
    SEEDS,
    st.integers(3, 90),
    st.sampled_from([0.1, 0.5, 0.9]),
    st.sampled_from([None, 40.0, 400.0]),
    st.integers(1, 2),
)
def test_caches_with_sectors_close_and_open_alike(draw, caches, seed, period, threshold, mpki, sms):
    random = np.random.default_rng(seed)
    gpu = draw(random, l1={**CACHED, "ways": int(random.integers(1, 5)), "sets": 2})
    mix = busy(gpu, most=30, pool=tuple(range(int(random.integers(6, 30)))))
    policy = StreamingBypass(period=period, threshold=threshold, caches=caches, mpki=mpki)
    check(random, gpu, random_blocks(random, 3 * sms, 3, mix), 2, sms, policies=(policy,))


@examples(30)
@given(
    st.sampled_from([2, 4]),
    st.sampled_from(["round-robin", "greedy-longest"]),
    SEEDS,
    st.booleans(),
    st.sampled_from([1, 2, 8, None]),
    st.sampled_from([0, 1, 5, 30]),
    MEMORIES,
)
def test_buffers_give_and_take_several_transactions_alike(tags, drain, seed, flush, entries, latency, memory):
    random = np.random.default_rng(seed)
    gpu = random_sectored_gpu(random, l1={"tags_per_step": tags}, core={"ldst_queue": int(random.integers(1, 5))})
    bypass = (None, "associativity", "all")[random.integers(3)]
    policy = MRPB(drain=drain, flush=flush, entries=entries, latency=latency, bypass=bypass)
    mix = busy(gpu, widest=9, pool=tuple(range(12)), ops=(Op.LOAD, Op.LOAD, Op.LOAD, Op.STORE), needs=(0, 1, 3))
    check(random, gpu, random_blocks(random, 3, 4, mix), 2, memory=memory, policies=(policy,))


# ---- by hand


def reading(*accesses, needs=0):
    """Return a load of transactions (line, sectors)."""
    lines, sectors = zip(*accesses, strict=True)
    return MachineInstruction(Op.LOAD, False, needs, 0, 32, lines, sectors=sectors, full=(0,) * len(lines))


def sectored(**l1):
    """Return a machine whose L1 has one line of four sectors."""
    l1 = {"sector": 32, "stores": "through", "miss_queue": 8, "mshrs": None, **l1}
    return machine(sets=1, ways=1, l1=l1, l2={"sector": 32})


def one_by_one(*accesses, policies=(), **l1):
    """Return the counters of an SM whose warp loads (line, sectors), each after the one before has come."""
    warp = [reading(access, needs=2**64 - 1) for access in accesses]
    return simulated([[warp]], *policies, gpu=sectored(**l1), memory=3).sms[0]


BY_SECTOR = [(line, 1 << sector) for line in range(8) for sector in range(4)]
"""Accesses to eight lines, sector by sector."""


def test_missing_sectors_of_a_protected_line_are_fetched_and_other_lines_bypass():
    counts = one_by_one((0, 1), (0, 2), (1, 1), (0, 3), policies=(PD(distance=8),))
    assert (counts["tag_misses"], counts["sector_misses"], counts["hits"], counts["bypassed"]) == (1, 1, 2, 1)


@pytest.mark.parametrize(("threshold", "closes"), [(0.3, False), (0.2, True)])
def test_a_line_with_a_missing_sector_is_found_when_an_l1_decides_to_close(threshold, closes):
    policy = StreamingBypass(period=40, threshold=threshold, caches="l1")
    assert (one_by_one(*BY_SECTOR, policies=(policy,))["bypassed"] > 0) == closes


def test_a_load_that_takes_its_lines_sector_by_sector_reuses_them():
    policies = (ABYP(entries=1, most=2, threshold=1), APCM(mode="bypass", tags=1))
    assert [one_by_one(*BY_SECTOR, policies=(policy,))["bypassed"] for policy in policies] == [0, 0]
    first_sectors = [(line, 1) for line in range(8)]
    assert all(one_by_one(*first_sectors, policies=(policy,))["bypassed"] > 0 for policy in policies[:1])


@pytest.mark.parametrize(("tags", "later"), [(1, 3), (2, 1), (4, 0)])
def test_several_transactions_enter_a_buffer_and_leave_it_in_a_cycle(tags, later):
    def cycles(tags):
        accesses = reading((0, 1), (1, 2), (2, 4), (3, 15))
        policy = MRPB(latency=0, bypass="all")
        return simulated([[[accesses]]], policy, gpu=sectored(tags_per_step=tags), memory=3).cycles

    assert cycles(tags) - cycles(4) == later


@pytest.mark.parametrize(("allocate", "waits"), [("miss", True), ("fill", False)])
def test_no_load_waits_for_a_way_that_is_taken_at_the_fill(allocate, waits):
    (counts,) = simulated([[[reading((0, 1), (1, 1), (2, 1))]]], gpu=sectored(allocate=allocate), memory=9).sms
    assert (counts["fail_line_alloc"] > 0, counts["tag_misses"]) == (waits, 3)


def test_a_line_that_has_lost_its_way_in_flight_gets_another_for_the_sectors_that_come():
    # Line 1 takes the way of line 0 between the fills of its two sectors, and loses it to the second of them.
    (counts,) = simulated(
        [[[reading((0, 1)), reading((1, 1)), reading((0, 2)), reading((0, 1), needs=7), reading((0, 2))]]],
        gpu=sectored(allocate="fill"),
        memory=9,
    ).sms
    assert (counts["tag_misses"], counts["sector_misses"], counts["hits"]) == (2, 2, 1)


# ---- through the public door


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_runs_on_a_gpu_with_sectors(name):
    assert simulate(TRACE, GPU, policies=name + OPTIONS.get(name, ""), check=True).transactions == 4


def test_an_index_function_runs():
    assert simulate(TRACE, GPU, policies="index:pmod", check=True).transactions == 4


TEXTS = ["streaming-bypass:period=200,threshold=0.2", "pd", "abyp:threshold=1", "apcm", "mrpb"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_kernel_equals_the_reference_on_a_gpu_with_partitions(text):
    trace = tracegen.kernel("atax.1", NX=64, NY=3)
    check_trace(trace, fit_to_launch(presets.gpu("a100-80g"), trace.launch), sms=2, policies=[text])


def test_the_page_says_of_every_policy_what_it_means_with_sectors():
    page = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    table = page.split("| policy | meaning with sectors |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == [*POLICIES, "index"]
