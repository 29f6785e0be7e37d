"""An L2 with partitions: the compiled machine equals the reference; alone, accesses find what the model predicts."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel import presets, reference
from rdmodel.errors import ConfigError
from rdmodel.gpu.carveout import fit_to_launch
from rdmodel.gpu.config import GPU
from rdmodel.gpu.l2_layout import l2_layout
from rdmodel.policies import CCWS, PCAL, BypassAll, BypassOnStall
from rdmodel.reference.machine import MachineInstruction
from rdmodel.reference.model.l2 import SectoredL2
from rdmodel.simulator.options import SimulationOptions
from rdmodel.trace import Op
from tests.support.engine_checks import MEMORIES, SEEDS, check, check_trace
from tests.support.examples import examples
from tests.support.random_machines import Driven, Mix, random_blocks, random_partitioned_gpu

WITH_PARTITIONS = ("a100-40g", "a100-80g", "h100-pcie", "h100-sxm", "h200", "b200")


@examples(25)
@given(SEEDS, st.integers(1, 5), st.integers(1, 3), st.integers(1, 4), st.integers(0, 7), MEMORIES)
def test_random_machines_with_partitions_equal_the_reference_cycle_for_cycle(seed, sms, slots, warps, blocks, memory):
    random = np.random.default_rng(seed)
    gpu = random_partitioned_gpu(random)
    check(random, gpu, random_blocks(random, blocks, warps, Mix(sectors=gpu.l1.sectors)), slots, sms, memory)


FEW_WAYS = {"ways": 1, "size": 128, "sector": 32, "mshrs": 1, "mshr_merge": 1, "queue": 1}
BUSY = {"most": 12, "ops": (Op.LOAD, Op.LOAD, Op.STORE, Op.ATOMIC), "empty": 0, "needs": (0, 0, 1)}


@examples(8)
@given(SEEDS, st.integers(2, 4), st.sampled_from([4, 30]))
def test_copies_that_are_evicted_or_written_elsewhere_while_in_flight_are_served_alike(seed, sms, lines):
    random = np.random.default_rng(seed)
    l1 = {"sector": 32, "sets": 2, "ways": 1, "mshrs": 8}
    gpu = random_partitioned_gpu(random, l1=l1, l2={**FEW_WAYS, "fetch": int(random.choice([32, 64]))})
    mix = Mix(sectors=4, pool=tuple(range(lines)), **BUSY)
    check(random, gpu, random_blocks(random, 2 * sms, 2, mix), 2, sms)


@pytest.mark.parametrize(
    "policies", [(BypassAll(),), (BypassOnStall(on="all"),), (PCAL(tokens=1),), (CCWS(),)], ids=str
)
@examples(4, least=2)
@given(SEEDS)
def test_policies_decide_alike_where_the_l2_has_partitions(policies, seed):
    random = np.random.default_rng(seed)
    gpu = random_partitioned_gpu(random)
    mix = Mix(sectors=gpu.l1.sectors, most=16, pool=tuple(range(12)), empty=0)
    check(random, gpu, random_blocks(random, 6, 3, mix), 2, 3, None, policies)


def test_a_preset_with_partitions_equals_the_reference_through_the_public_door():
    trace = tracegen.kernel("gemm", NI=4, NJ=32, NK=1)
    found = check_trace(trace, fit_to_launch(presets.gpu("a100-80g"), trace.launch), sms=2)
    assert found.l2.partition_sectors > 0


@pytest.mark.parametrize("name", WITH_PARTITIONS)
def test_a_kernel_runs_on_every_preset_with_partitions_and_sectors_cross_between_them(name):
    found = rd.simulate(tracegen.kernel("gemm", NI=8, NJ=32, NK=4), name, sms=3, check=True)
    assert 0 < found.l2.partition_sectors < found.l2.reads + found.l2.writes
    assert found.l2.reads == found.l2.hits + found.l2.pending_hits + found.l2.misses


# ---- one access at a time: what the model predicts

APART = 900
"""Cycles between two accesses: more than a miss takes."""


class Access(NamedTuple):
    sm: int
    line: int
    sectors: int
    write: bool = False


def accesses(sms: int) -> st.SearchStrategy[list[Access]]:
    one = st.builds(Access, st.integers(0, sms - 1), st.integers(0, 9), st.integers(1, 15), st.sampled_from([0, 0, 1]))
    return st.lists(one, min_size=1, max_size=25)


START = MachineInstruction(int(Op.BARRIER), False, 0, 0, 32, ())
"""The first instruction of every warp: an SM without accesses has its block, too."""


def simulated(served: list[Access], gpu: GPU, sms: int) -> dict[str, int]:
    """Return the L2 counters after accesses that do not overlap: SM i has one warp, which waits for its turns."""
    blocks = []
    for sm in range(sms):
        program, last = [START], 0
        for turn, access in enumerate(served):
            if access.sm == sm:
                program.append(instruction(access, APART * (turn - last)))
                last = turn
        blocks.append([program])
    machine = Driven(blocks, gpu, SimulationOptions(sms=sms).resolve(gpu), 1, 1)
    slices = [machine.slice_counters(i) for i in range(gpu.l2.slices)]
    counts = {name: sum(part[name] for part in slices) for name in slices[0]}
    assert counts["pending_hits"] == 0
    channels = [machine.channel_counters(i) for i in range(gpu.l2.slices)]
    fetched = gpu.l2_fetch_bytes // gpu.l2_sector_bytes
    counts["dram_read_sectors"] = fetched * sum(part["reads"] for part in channels)
    counts["write_backs"] = sum(part["writes"] for part in channels)
    return counts


def instruction(access: Access, gap: int) -> MachineInstruction:
    op = Op.STORE if access.write else Op.LOAD
    masks = (access.sectors,), (access.sectors,)
    return MachineInstruction(int(op), False, 2**64 - 1, gap, 32, (access.line,), 0, False, *masks)


def predicted(served: list[Access], gpu: GPU, sms: int) -> dict[str, int]:
    logs: list[list[reference.L2Request]] = [[] for _ in range(sms)]
    for time, (sm, line, sectors, write) in enumerate(served):
        logs[sm].append(reference.L2Request(time, line, bool(write), sectors, sectors))
    return dataclasses.asdict(SectoredL2(gpu).serve(logs))


SAME = ("reads", "hits", "writes", "write_hits", "write_backs", "dram_read_sectors", "partition_sectors")


def machine(**l2: object) -> GPU:
    """Return a machine without an L1 for global loads, and with an L2 of few lines."""
    gpu = random_partitioned_gpu(np.random.default_rng(0), l1={"sector": 32, "caches": ("nc",), "dlcm": None})
    config = {"partitions": 2, "slices": 2, "ways": 2, "size": 256, "sector": 32, "fetch": 32, "index": "linear", **l2}
    return gpu.replace(sms=2, l2=dataclasses.replace(gpu.l2, **{"dirty_ways": None, **config}))


WAYS = st.sampled_from([(2, None), (2, 1), (4, 2), (4, 3)])
"""Numbers of ways of a set, and of its lines that may be dirty."""


@examples(30)
@given(accesses(3), st.sampled_from([2, 4]), st.sampled_from([32, 64]), st.sampled_from(["linear", "hash"]), WAYS)
def test_accesses_that_do_not_overlap_find_in_the_l2_what_the_model_predicts(served, slices, fetch, index, ways):
    gpu = machine(slices=slices, fetch=fetch, index=index, ways=ways[0], size=128 * ways[0], dirty_ways=ways[1])
    found, model = simulated(served, gpu, 3), predicted(served, gpu, 3)
    assert {name: found[name] for name in SAME} == {name: model[name] for name in SAME}


def test_a_line_that_both_sides_read_is_fetched_once_and_held_twice():
    found = simulated([Access(0, 0, 1), Access(1, 0, 1), Access(1, 0, 1), Access(0, 0, 1)], machine(), 2)
    assert (found["reads"], found["hits"], found["misses"], found["partition_sectors"]) == (4, 3, 1, 1)
    assert found["dram_read_sectors"] == 1


def test_the_least_recently_used_dirty_line_is_cleaned_when_a_set_has_too_many():
    # All lines are in one set. Line 0 is older than line 4, but read again: line 4 is cleaned first, and then line 0.
    lines = (
        Access(0, 0, 1, True),
        Access(0, 4, 1, True),
        Access(0, 0, 1),
        Access(0, 8, 1, True),
        Access(0, 4, 1, True),
    )
    limited = machine(slices=2, ways=4, size=512, dirty_ways=2)
    written = [simulated(list(lines[:count]), limited, 1)["write_backs"] for count in (3, 4, 5)]
    assert written == [0, 1, 2]


def test_a_write_takes_its_sectors_away_from_the_copy_on_the_other_side():
    served = [Access(1, 0, 0b11), Access(0, 0, 0b01, True), Access(1, 0, 0b11)]
    found = simulated(served, machine(), 2)
    # Two sectors cross at first, and later the one that was written.
    assert (found["partition_sectors"], found["hits"], found["write_hits"]) == (3, 2, 1)


# ---- latency


def read_by_two_sms(line: int, latency: int) -> list[int]:
    """Return the cycles of a lone read that hits, from an SM of each partition."""
    gpu = presets.gpu("a100-80g")
    gpu = gpu.replace(l2=dataclasses.replace(gpu.l2, partition_latency=latency))
    cycles = []
    for sm in range(2):
        warm = [Access(1 - sm, line, 1), Access(sm, line, 1)]
        alone = Driven(blocks_of(warm), gpu, SimulationOptions(sms=2).resolve(gpu), 1, 1)
        log = alone.log()
        begun = next(time for name, time, where, *_ in log if name == "access" and where == sm)
        cycles.append(next(time for name, time, where, *_ in log if name == "fill" and where == sm) - begun)
    return cycles


def blocks_of(served: list[Access]) -> list[list[list[MachineInstruction]]]:
    by_sm = {access.sm: [[instruction(access, APART * place)]] for place, access in enumerate(served)}
    return [by_sm[0], by_sm[1]]


def test_an_a100_reads_from_its_own_partition_and_from_the_other_as_fast_as_was_measured():
    latency = presets.gpu("a100-80g").l2.partition_latency
    assert latency > 0
    home = l2_layout(presets.gpu("a100-80g")).slice_of(5) % 2
    cycles = read_by_two_sms(5, latency)
    near, far = cycles[home], cycles[1 - home]
    assert 200 <= near <= 210
    assert 390 <= far <= 413
    at_once = read_by_two_sms(5, 0)
    assert at_once[home] == near
    assert far - at_once[1 - home] == 2 * latency


def test_partitions_without_stores_in_place_are_refused_with_the_field_that_is_wrong():
    gpu = presets.gpu("gtx480-khairy")
    gpu = gpu.replace(l2=dataclasses.replace(gpu.l2, partitions=2))
    with pytest.raises(ConfigError, match=r"l1\.stores='free': the simulator knows 'update' and 'through' where"):
        rd.simulate(tracegen.kernel("atax.1", NX=64, NY=64), gpu)


def test_the_latency_between_partitions_must_not_be_negative():
    with pytest.raises(ConfigError, match="partition_latency=-1"):
        dataclasses.replace(presets.gpu("a100").l2, partition_latency=-1)
