"""Behaviour of the simulated machine, by scenario; its invariants, and the error when one of them is broken."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from rdmodel import predict, presets, simulate
from rdmodel.errors import ConfigError, SimulationError
from rdmodel.gpu.config import GPU, CacheConfig, CoreConfig
from rdmodel.gpu.memory import CrossbarConfig, L2Config
from rdmodel.policies import Linear
from rdmodel.reference.machine.record import HIT, MISS, PENDING
from rdmodel.results.simulation import Simulation
from rdmodel.simulator import machine_run
from rdmodel.simulator._engine import Machine
from rdmodel.simulator.options import SimulationOptions
from rdmodel.trace import ALL_NEEDS, Op, Trace
from rdmodel.trace.coalescing import StoreRule
from tests.support.builders import LINE, make_gpu, make_trace
from tests.support.examples import examples
from tests.support.plain_coalescing import executed, requests
from tests.support.presets import FERMI
from tests.support.random_machines import Driven, Mix, random_blocks, random_gpu
from tests.support.random_predictions import INSTRUCTION
from tests.support.random_traces import write_out
from tests.support.scenarios import load, local, machine, store
from tracegen.kernel_library.suites import POLYBENCH

checked = examples(40)
SEEDS = st.integers(0, 2**32 - 1)


def one_warp(*instructions, gpu: GPU | None = None, **options: Any) -> Simulation:
    return simulate(make_trace([[list(instructions)]], warps=1), gpu or machine(), **options)


# ---- the L1


def test_lines_read_once_are_compulsory_misses_down_to_the_dram():
    found = one_warp(*[load(line) for line in range(40)], gpu=machine(dram={"row": 16 * LINE}))
    assert (found.hits, found.pending_hits, found.misses.compulsory) == (0, 0, 40)
    assert found.l2.misses == found.dram.reads == 40
    assert found.dram.activations == 3


def test_warps_that_want_one_line_at_once_make_one_miss_and_pending_hits():
    found = simulate(make_trace([[[load(7)] for _ in range(6)]], warps=6), machine())
    assert (found.misses.total, found.pending_hits, found.hits) == (1, 5, 0)
    assert found.traffic.read_messages == 1


def test_a_line_that_has_come_is_a_hit():
    found = one_warp(load(7), load(7, needs=1), load(7, needs=1))
    assert (found.misses.total, found.hits) == (1, 2)


def test_a_global_store_evicts_its_line_and_a_local_one_keeps_it():
    program = [load(7), store(7, needs=1), load(7, needs=ALL_NEEDS)]
    trace = make_trace([[program]], warps=1)
    evicted, kept = simulate(trace, machine()), simulate(local(trace), machine())
    assert (evicted.misses.compulsory, evicted.misses.associativity, evicted.hits) == (1, 1, 0)
    assert (kept.misses.total, kept.hits) == (1, 1)
    assert (evicted.traffic.write_messages, kept.traffic.write_messages) == (1, 0)


def test_a_local_line_is_fetched_by_nobody_and_written_back_when_it_is_displaced():
    trace = make_trace([[[store(line) for line in range(6)]]], warps=1)
    found = simulate(local(trace), machine())
    assert (found.writes, found.misses.total, found.traffic.read_messages) == (6, 0, 0)
    # Four of the six are still in the four ways at the end.
    assert found.traffic.write_messages == found.l2.writes == 2


def test_evictions_are_told_apart_by_who_brought_the_line():
    one = [load(line, needs=ALL_NEEDS) for line in range(5)]
    own = simulate(make_trace([[one]], warps=1), machine())
    assert own.contention.to_dict() == {"intra_warp": 1, "cross_warp_intra_block": 0, "cross_block": 0}
    late = [load(0), load(9, gap=3000)]
    pair = simulate(make_trace([[[load(1), load(2), load(3)], late]], warps=2), machine())
    assert pair.contention.to_dict() == {"intra_warp": 0, "cross_warp_intra_block": 1, "cross_block": 0}
    blocks = simulate(make_trace([[one[:4]], [[load(9)]]], warps=1), machine())
    assert blocks.contention.to_dict() == {"intra_warp": 0, "cross_warp_intra_block": 0, "cross_block": 1}


@pytest.mark.parametrize(
    ("kind", "l1"),
    [
        ("line_alloc", {}),
        ("mshr_entry", {"mshrs": 2}),
        ("mshr_entry", {"mshr_per_warp": 2}),
        ("mshr_merge", {"mshr_merge": 1}),
        ("miss_queue", {"miss_queue": 1}),
    ],
)
def test_what_is_scarce_is_what_reservation_failures_are_counted_under(kind, l1):
    plenty = {"size": 64 * LINE, "ways": 64, "miss_queue": 32}
    # The port is slow, and lines 20 and 21 are requested twice, to merge.
    port = CrossbarConfig(width=1)
    program = [load(*range(20, 28)), load(20, 21)]
    own = l1 if kind == "line_alloc" else {**plenty, **l1}
    fails = one_warp(*program, gpu=machine(l1=own, crossbar=port)).reservation_fails
    assert {name for name, count in fails.to_dict().items() if count} == {kind}
    assert fails.total == fails.to_dict()[kind]
    assert one_warp(*program, gpu=machine(l1=plenty, crossbar=port)).reservation_fails.total == 0


# ---- warps, blocks and SMs


def test_a_block_goes_to_the_sm_that_frees_a_slot_first():
    long = [load(0), *[load(line, needs=1) for line in range(1, 12)]]
    blocks = [[long], *[[[load(100 + i)]] for i in range(5)]]
    found = simulate(make_trace(blocks, warps=1), machine(sms=2))
    assert [sm.blocks for sm in found.per_sm] == [1, 5]


def test_a_barrier_holds_a_warp_until_the_last_one_of_its_block_has_come():
    wait = (int(Op.BARRIER), 0, 0, ())
    quick, slow = [wait, load(1)], [load(2), load(3, needs=1), load(4, needs=1), wait]
    apart = simulate(make_trace([[quick[1:], slow[:-1]]], warps=2), machine(), memory=100)
    together = simulate(make_trace([[quick, slow]], warps=2), machine(), memory=100)
    # Without the barrier the quick warp's load hides behind the other's three; the barrier puts it after two.
    assert apart.cycles < 3 * 100 + 20
    assert 2 * 100 < together.cycles < 4 * 100
    assert together.warp_instructions == apart.warp_instructions + 2
    late = [load(2), (int(Op.BARRIER), 0, 500, ())]
    assert simulate(make_trace([[quick, late]], warps=2), machine(), memory=100).cycles > 500 + 100


def test_another_sm_finds_in_the_l2_what_the_first_one_fetched():
    found = simulate(make_trace([[[load(5)]], [[load(6, gap=4000)]], [[load(5, gap=4000)]]], warps=1), machine(sms=3))
    assert (found.l2.reads, found.l2.hits, found.l2.misses) == (3, 1, 2)


def test_sms_that_want_one_line_at_once_share_one_fetch_in_the_l2():
    found = simulate(make_trace([[[load(5)]]] * 4, warps=1), machine(sms=4))
    assert (found.l2.misses, found.l2.pending_hits, found.dram.reads) == (1, 3, 1)


@pytest.mark.parametrize(
    ("kind", "l2", "dram"),
    [
        ("line_alloc", {"size": 2 * LINE, "ways": 2}, {}),
        ("mshr_entry", {"mshrs": 1}, {}),
        ("dram_queue", {"mshrs": None}, {"queue": 1}),
        ("mshr_merge", {"mshr_merge": 1}, {}),
    ],
)
def test_what_is_scarce_behind_the_crossbar_is_what_requests_wait_for(kind, l2, dram):
    gpu = machine(sms=3, l1={"size": 64 * LINE, "ways": 64}, l2=l2, dram=dram)
    same = kind == "mshr_merge"
    blocks = [[[load(*range(12))]] if same else [[load(*range(12 * i, 12 * i + 12))]] for i in range(3)]
    stalls = simulate(make_trace(blocks, warps=1), gpu).l2.stalls
    assert {name for name, count in stalls.items() if count} == {kind}


def test_rows_are_opened_once_where_lines_follow_and_always_where_they_jump():
    gpu = machine(dram={"banks": 4, "row": 8 * LINE})
    near = one_warp(*[load(line, needs=1) for line in range(32)], gpu=gpu).dram
    far = one_warp(*[load(8 * 4 * line, needs=1) for line in range(32)], gpu=gpu).dram
    assert (near.activations, far.activations) == (4, 32)
    assert (near.row_hit_rate, far.row_hit_rate) == (28 / 32, 0)


def test_a_slower_memory_costs_cycles_and_changes_no_line_that_is_read():
    program = [load(line, needs=1) for line in range(20)]
    cycles = [one_warp(*program, memory=memory).cycles for memory in (0, 10, 100)]
    assert cycles == sorted(set(cycles))
    assert cycles[2] - cycles[1] == 20 * 90
    assert one_warp(*program, memory=0).misses == one_warp(*program).misses


# ---- invariants


def stretch(random: np.random.Generator, **parts: Any) -> tuple[list, GPU, SimulationOptions]:
    """Return blocks that keep a random machine busy for a while."""
    gpu = random_gpu(random, **parts)
    blocks = random_blocks(random, 6, 3, Mix(most=20))
    return blocks, gpu, SimulationOptions(sms=2, memory=[None, None, 5][random.integers(3)]).resolve(gpu)


@checked
@given(SEEDS)
def test_every_miss_is_filled_once_and_no_event_happens_before_the_one_before(seed):
    random = np.random.default_rng(seed)
    log = Driven(*stretch(random), 2, 3, random=random).log()
    times = [time for name, time, *_ in log if name != "dram"]
    assert times == sorted(times)
    fetched: Counter[tuple[int, int]] = Counter()
    for name, _, where, line, *outcome in log:
        if name == "access" and outcome == [MISS]:
            fetched[where, line] += 1
        elif name == "access" and outcome == [PENDING]:
            assert fetched[where, line] == 1
        elif name == "access" and outcome == [HIT]:
            assert fetched[where, line] == 0
        elif name == "fill":
            fetched[where, line] -= 1
        assert name not in ("access", "fill") or fetched[where, line] in (0, 1)
    assert not any(fetched.values())


@checked
@given(SEEDS)
def test_every_block_begins_and_ends_once_and_every_instruction_is_issued_once(seed):
    random = np.random.default_rng(seed)
    blocks, gpu, options = stretch(random)
    done = Driven(blocks, gpu, options, 2, 3, random=random)
    log = done.log()
    for name in ("begin", "end"):
        assert sorted(entry[-1] for entry in log if entry[0] == name) == list(range(len(blocks)))
    wanted = Counter(kind for block in blocks for warp in block for one in warp for kind in kinds(one))
    assert Counter(entry[-1] for entry in log if entry[0] == "issue") == wanted
    assert sum(done.sm_counters(i)["warp_instructions"] for i in range(2)) == wanted.total()


def kinds(instruction) -> list[int]:
    return [0] * instruction.gap + [2 if instruction.op == Op.BARRIER else 1]


KERNELS = {
    "atax.1": {"NX": 128, "NY": 20},
    "gemm": {"NI": 16, "NJ": 32, "NK": 20},
    "2dconv": {"NI": 20, "NJ": 64},
    "gramschmidt.3": {"NI": 24, "NJ": 64},
}


def kernel(name: str, **options: Any) -> Trace:
    return tracegen.kernel(name, **KERNELS[name], **options)


@pytest.mark.parametrize("gpu", ["gtx470-16k", "wang-32k", "koo-kepler", "c2050-base-l"])
@pytest.mark.parametrize("name", KERNELS)
def test_real_kernels_break_no_invariant(name, gpu):
    found = simulate(kernel(name), gpu, sms=3, check=True)
    assert found == simulate(kernel(name), gpu, sms=3)


@pytest.mark.parametrize("name", KERNELS)
def test_observers_see_the_loads_of_every_warp_in_program_order(name, monkeypatch):
    # A record of few rows is emptied often.
    monkeypatch.setattr(machine_run, "RECORDED_ACCESSES", 5)
    rows: list[list[int]] = []
    trace = kernel(name)
    found = simulate(trace, gpu=FERMI, sms=3, observe=lambda array: rows.extend(array.tolist()))
    seen = defaultdict(list)
    for _, block, warp, pc, line, *_ in rows:
        seen[block, warp].append((pc, line))
    wanted = {
        where: [
            (pc, line)
            for op, _, _, lines, pc, _, _ in requests(executed(written), LINE, StoreRule.MACHINE)
            for line in lines
            if op == Op.LOAD
        ]
        for where, written in write_out(trace).items()
    }
    assert dict(seen) == {where: loads for where, loads in wanted.items() if loads}
    assert Counter(row[5] for row in rows) == Counter(
        {HIT: found.hits, PENDING: found.pending_hits, MISS: found.misses.total}
    )
    by_sm = Counter(row[0] for row in rows)
    assert [by_sm[sm.sm] for sm in found.per_sm] == [sm.transactions for sm in found.per_sm]


# ---- broken machines


def busy(machine: Machine) -> bool:
    """Tell whether SM 0 waits for misses, one of which is on its way back, and a slice has work."""
    told = "\n".join(machine.under_way())
    return all(re.search(text, told) for text in (r"SM 0: \d+ MSHRs", r"SM 0: \d+ responses", r"slice \d: \d"))


def halted() -> Machine:
    """Return a machine in mid-flight; everything is in order until somebody touches it."""
    random = np.random.default_rng(1)
    blocks, gpu, _ = stretch(random)
    options = SimulationOptions(sms=1).resolve(gpu)
    found = Driven(blocks, gpu, options, 2, 3, random=random, stop=busy).machine
    assert found.violations() == []
    assert found.under_way() != []
    return found


def test_a_block_put_where_another_runs_is_found_by_the_count_of_loads_and_of_mshrs():
    machine = halted()
    for slot in range(2):
        machine.begin_block(0, slot, 99)
    wrong = "\n".join(machine.violations())
    assert re.search(r"SM 0: warps hold 0 MSHRs, [1-9]\d* are in use", wrong)
    assert re.search(r"SM 0: 0 loads are not complete, [1-9]\d* are on record", wrong)


def test_time_that_passes_by_what_is_due_is_found():
    machine = halted()
    machine.now += 10**6
    wrong = "\n".join(machine.violations())
    assert re.search(r"SM 0: is to wake in cycle \d+, and it is cycle 1\d{6}", wrong)
    assert re.search(r"slice \d: is to wake in cycle \d+, and it is cycle 1\d{6}", wrong)


def test_a_machine_in_mid_flight_says_what_is_under_way():
    kinds = set()

    def remember(machine: Machine) -> bool:
        kinds.update(re.sub(r"\d+", "n", what) for what in machine.under_way())
        return False

    random = np.random.default_rng(3)
    blocks, gpu, _ = stretch(random, l2={"queue": 1, "clock": 350}, crossbar={"clock": 1400})
    Driven(blocks, gpu, SimulationOptions(sms=3).resolve(gpu), 2, 3, random=random, stop=remember)
    assert kinds == {
        "SM n: n blocks",
        "SM n: n instructions in the load/store unit",
        "SM n: n MSHRs",
        "SM n: n requests in the miss queue",
        "SM n: n responses",
        "SM n: n loads",
        "slice n: n requests in the input",
        "slice n: n waiting SMs",
        "slice n: n MSHRs",
        "slice n: n requests in the DRAM's queue",
        "slice n: n lines on their way from the DRAM",
    }


NOTHING = {
    "l1.mshrs": "SM 0: the load/store unit waits for mshr_entry",
    "l1.mshr_per_warp": "SM 0: the load/store unit waits for mshr_entry",
    "l1.miss_queue": "SM 0: the load/store unit waits for miss_queue",
    "l2.queue": "SM 0: the miss queue waits for room in slice 0",
    "l2.mshrs": "slice 0: a request waits for mshr_entry",
    "dram.queue": "slice 0: a request waits for dram_queue",
}
"""Part of the error message when a load waits, by the resource that the machine lacks."""


@pytest.mark.parametrize("field", NOTHING)
def test_a_machine_that_cannot_go_on_says_what_it_waits_for(field):
    # No machine that can be configured comes to a standstill: every limit is at least 1, and refused otherwise.
    gpu = machine()
    part, name = field.split(".")
    with pytest.raises(ConfigError, match=f"^{name}=0: must be at least 1$"):
        dataclasses.replace(getattr(gpu, part), **{name: 0})
    object.__setattr__(getattr(gpu, part), name, 0)
    with pytest.raises(SimulationError, match=r"^random, cycle \d+: nothing can happen any more: ") as error:
        one_warp(load(3), gpu=gpu)
    told = str(error.value).partition("any more: ")[2].split("; ")
    assert NOTHING[field] in told
    assert "SM 0: block 0: 0 of 1 warps wait at a barrier, 1 for loads" in told


@pytest.mark.parametrize(
    ("make", "field"),
    [(CoreConfig, "ldst_queue"), (CoreConfig, "schedulers"), (CoreConfig, "fetch_group"), (L2Config, "slices")],
)
def test_parts_that_a_machine_cannot_be_without_are_refused_by_name(make, field):
    with pytest.raises(ConfigError, match=f"^{field}=0: must be "):
        make(**{field: 0})


INTERRUPTED = """
import signal, sys
from rdmodel.simulator import machine_run
from rdmodel.cli import main

run = machine_run.MachineRun.run
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))

def interrupted(self):
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    run(self)

machine_run.MachineRun.run = interrupted
sys.exit(main(["simulate", "gemm"]))
"""


def test_a_long_simulation_can_be_interrupted():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.endswith("rdmodel: error: interrupted\n")


# ---- one warp at a time, no latency: the model


AT_ONCE = {"lat_min": 0, "sigma": 0, "hit_latency": 0, "threads": None, "sms": 1}


def check_against_model(trace: Trace, gpu: GPU) -> Simulation:
    """Compare both where nothing is ever in flight when the next request is made."""
    endless = {"mshrs": None, "mshr_merge": None, "mshr_per_warp": None}
    alone = gpu.replace(
        sms=1,
        max_blocks=1,
        core=dataclasses.replace(gpu.core, hit_latency=0),
        l1=dataclasses.replace(gpu.l1, **endless),
    )
    found = simulate(trace, alone, memory=0)
    model = predict(trace, alone, definition="hardware", stores="evict", **AT_ONCE)
    assert (found.hits, found.pending_hits, found.misses) == (model.hits, 0, model.misses)
    assert (model.latency_misses, found.loads) == (0, model.transactions)
    return found


SMALL = {"NI": 24, "NJ": 64, "NK": 40, "NL": 64, "NM": 40, "NX": 64, "NY": 64, "M": 40, "N": 40}


@pytest.mark.parametrize("spec", [s for s in tracegen.kernels() if s.name in POLYBENCH], ids=lambda spec: spec.name)
def test_a_warp_alone_sees_the_cache_that_the_model_predicts(spec):
    sizes = {name: SMALL[name] for name in spec.sizes if name in SMALL}
    trace = tracegen.kernel(spec.name, block=(32, 1, 1), **sizes)
    for name in ("gtx470-16k", "gtx470-48k"):
        check_against_model(trace, presets.gpu(name))


@checked
@given(
    st.lists(st.lists(INSTRUCTION, min_size=1, max_size=25).map(lambda warp: [warp]), min_size=1, max_size=3),
    st.sampled_from([(1, 4), (4, 2), (8, 1)]),
)
def test_a_random_warp_alone_sees_the_cache_that_the_model_predicts(blocks, shape):
    sets, ways = shape
    blocks[0][0].append(load(1))
    trace = make_trace(blocks, warps=1)
    cache = CacheConfig(size=sets * ways * LINE, ways=ways, index=Linear())
    check_against_model(trace, make_gpu().replace(l1=cache))
