"""Latency and bandwidth laws of the simulated machine: its configuration says by formula what a launch takes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from rdmodel import simulate
from rdmodel.gpu.config import GPU, CacheConfig, CoreConfig
from rdmodel.gpu.memory import CrossbarConfig, DramConfig, L2Config
from rdmodel.policies import Linear
from rdmodel.trace import ALL_NEEDS, WARP, Columns, Launch, Op, Trace

LINE, READ = 128, 8
"""Bytes of a line and of a read request; a message with data has both."""

CLOSE = 0.01
"""Largest allowed relative difference between the rate of a stream and the configured rate."""

SMALL = CacheConfig(size=16 << 10, ways=128, index=Linear(), mshrs=None, miss_queue=64)
LARGE = replace(SMALL, size=4 << 20, ways=8)
FAST_CROSSBAR = CrossbarConfig(clock=5600, width=256, latency=4)
"""A message per eighth of an SM cycle: no limit."""

DEEP_L2 = L2Config(slices=1, clock=2800, size=4 << 20, latency=10, mshrs=None)
FAST_DRAM = DramConfig(clock=5600, width=128, queue=64)


def machine(**changes):
    """Return a GPU of one SM at 700 MHz."""
    shape = {"name": "law", "sms": 1, "max_threads": 2048, "max_blocks": 8, "max_warps": 64, "clock": 700, "l1": SMALL}
    return GPU(**{**shape, **changes})


def launch(blocks, *, op=Op.LOAD, needs=0, gap=0, lanes=1):
    """Return a trace of blocks of warps, each a list of lines; an instruction accesses `lanes` of them."""
    warps = [warp for block in blocks for warp in block]
    lengths = [len(warp) // lanes for warp in warps]
    n = sum(lengths)
    columns = Columns(
        warp_start=np.cumsum([0, *lengths]),
        pc=np.zeros(n, np.int32),
        op=np.full(n, op),
        space=np.zeros(n, np.uint8),
        size=np.full(n, 4),
        gap=np.full(n, gap),
        needs=np.full(n, needs, np.uint64),
        loop_exit=np.zeros(n, np.bool_),
        mask=np.full(n, (1 << lanes) - 1),
        address_start=np.arange(n + 1) * lanes,
        addresses=np.concatenate([np.asarray(warp, np.int64) for warp in warps]) * LINE,
    )
    return Trace(Launch(kernel="law", grid=(len(blocks), 1, 1), block=(len(blocks[0]) * WARP, 1, 1)), columns)


def cycles(trace, gpu, **options):
    return simulate(trace, gpu, **options).cycles


def steady(gpu, make, n):
    """Return how many of n further accesses are made per cycle, once n of them have filled caches and queues."""
    return n / (cycles(make(2 * n), gpu) - cycles(make(n), gpu))


def flits(gpu, size):
    return -(-size // gpu.crossbar.width)


def burst(gpu):
    """Return the DRAM cycles that a line occupies the bus."""
    return -(-LINE // gpu.dram.width)


# ---- latency: one warp, every load waits for the one before


def next_cycle(time, clock, other):
    """Return the first cycle of `other` that begins not before cycle `time` of `clock` does; clocks in MHz."""
    return -(-time * other // clock)


def crosses(gpu, time, size):
    """Return when a message over an idle crossbar has come, whole, if it is sent in SM cycle `time`."""
    x = gpu.crossbar
    sent = next_cycle(time, gpu.clock, x.clock)
    return max(next_cycle(sent + x.latency + flits(gpu, size), x.clock, gpu.clock), time + 1)


def comes_to_slice(gpu, time):
    """Return the SM cycle in which the slice looks at a request that is sent in SM cycle `time`."""
    ready = crosses(gpu, time, READ) + gpu.l2.latency
    return next_cycle(ready, gpu.clock, gpu.l2.clock) * gpu.clock // gpu.l2.clock


def comes_from_dram(gpu, time, row):
    """Return when the slice has the line that it asks its idle DRAM channel for in SM cycle `time`.

    A row is always opened after a precharge, also the first one of a bank; its column command is a cycle of its own.
    """
    d = gpu.dram
    opened = {"hit": 0, "miss": max(1, d.trp + d.trcd)}[row]
    data = next_cycle(time, gpu.clock, d.clock) + opened + d.tcl + burst(gpu)
    return max(next_cycle(data, d.clock, gpu.clock) + d.latency, time + 1)


def returns(gpu, issued, where):
    """Return when a load that issues in SM cycle `issued` has its data, by where they are: "l1", "l2" or a row."""
    accessed = issued + 1
    if where == "l1":
        return accessed + gpu.core.hit_latency
    looked_up = comes_to_slice(gpu, accessed)
    return crosses(gpu, looked_up if where == "l2" else comes_from_dram(gpu, looked_up, where), READ + LINE)


CHAIN = {0: "miss", 1: "hit", 2: "miss", 3: "hit", 4: "miss", 5: "hit", 8: "miss", 100: "miss", 6: "miss"}
"""Lines and where they are first found, with 2 banks of rows of 2 lines; every line is loaded twice.

Lines 0 and 2 open the first rows of the banks, which takes as long as any other row.
"""

AGAIN = {0: "l2", 1: "l2", 4: "l2"}


def chain():
    """Return lines and where they are found by an L1 of one line: misses, each followed by its hit, then L2 hits."""
    steps = [(line, where) for first, row in CHAIN.items() for line, where in ((first, row), (first, "l1"))]
    return [*steps, *AGAIN.items()]


def chained(**changes):
    small = DramConfig(clock=700, banks=2, row=2 * LINE)
    one_line = CacheConfig(size=LINE, ways=1, index=Linear())
    parts = {"l1": one_line, "l2": L2Config(slices=1), "dram": small}
    return machine(**{**parts, **changes})


def assert_chain_takes_what_the_formula_says(gpu):
    lines, now = [], 0
    for line, where in chain():
        lines.append(line)
        now = returns(gpu, now, where)
        assert cycles(launch([[lines]], needs=ALL_NEEDS), gpu) == now + 1, (line, where)


@pytest.mark.parametrize("latency", [0, 1, 20, 33])
def test_a_chain_of_hits_measures_the_hit_latency_and_the_cycle_of_issue(latency):
    gpu = machine(core=CoreConfig(hit_latency=latency))
    taken = [cycles(launch([[[0] * n]], needs=ALL_NEEDS), gpu) for n in range(1, 6)]
    assert {b - a for a, b in pairwise(taken)} == {1 + latency}


@pytest.mark.parametrize("latency", [0, 1, 2, 100, 400])
def test_a_chain_of_misses_measures_an_ideal_memory(latency):
    taken = [cycles(launch([[range(n)]], needs=ALL_NEEDS), machine(), memory=latency) for n in range(1, 6)]
    assert {b - a for a, b in pairwise(taken)} == {1 + max(1, latency)}


def test_with_one_clock_a_latency_is_the_sum_of_its_parts():
    gpu = chained(crossbar=CrossbarConfig(clock=700), l2=L2Config(clock=700, slices=1))
    d, way = gpu.dram, 2 * gpu.crossbar.latency + flits(gpu, READ) + flits(gpu, READ + LINE)
    found = 1 + way + gpu.l2.latency
    hit = found + d.tcl + burst(gpu) + d.latency
    latency = {"l1": 1 + gpu.core.hit_latency, "l2": found, "hit": hit}
    latency["miss"] = hit + d.trp + d.trcd
    lines = [line for line, _ in chain()]
    taken = [1] + [cycles(launch([[lines[:n]]], needs=ALL_NEEDS), gpu) for n in range(1, len(lines) + 1)]
    assert [b - a for a, b in pairwise(taken)] == [latency[where] for _, where in chain()]


@pytest.mark.parametrize("seed", range(12))
def test_with_many_clocks_a_latency_is_what_the_phases_of_the_clocks_make_of_its_parts(seed):
    random = np.random.default_rng(seed)
    pick = lambda *values: int(random.choice(values))  # noqa: E731
    gpu = chained(
        clock=pick(700, 607, 1000, 333),
        core=CoreConfig(hit_latency=pick(0, 1, 7, 30)),
        crossbar=CrossbarConfig(clock=pick(700, 1215, 333, 5000), width=pick(4, 32, 33, 200), latency=pick(0, 1, 9)),
        l2=L2Config(clock=pick(700, 350, 607, 1300, 90), slices=1, latency=pick(0, 1, 150)),
        dram=DramConfig(
            clock=pick(700, 924, 350, 1700),
            banks=2,
            row=2 * LINE,
            width=pick(4, 32, 48),
            latency=pick(0, 120),
            tcl=pick(0, 12),
            trp=pick(0, 13),
            trcd=pick(0, 11),
            trc=0,  # a bank is never still busy with the load before
            tras=0,
        ),
    )
    assert_chain_takes_what_the_formula_says(gpu)


@pytest.mark.parametrize("preset_clocks", [(607, 1215, 607, 837), (700, 1400, 700, 924), (745, 1490, 745, 1502)])
def test_the_clocks_of_the_presets_add_no_cycle_of_their_own(preset_clocks):
    sm, crossbar, l2, dram = preset_clocks
    gpu = chained(clock=sm, crossbar=CrossbarConfig(clock=crossbar), l2=L2Config(clock=l2, slices=1))
    assert_chain_takes_what_the_formula_says(gpu.replace(dram=replace(gpu.dram, clock=dram)))


# ---- bandwidth: streams that wait for nothing


def streams(n, *, span, sms=1, op=Op.LOAD):
    """Return a launch of a warp on every SM; together they go through n lines: 0, 1, ... up to `span`, and again."""
    lines = (np.arange(n) % span).reshape(-1, sms, WARP)
    return launch([[lines[:, sm].ravel()] for sm in range(sms)], op=op, lanes=WARP)


@pytest.mark.parametrize("lanes", [1, 4, 32])
def test_hits_saturate_the_l1_port_with_one_transaction_per_cycle(lanes):
    def make(n):
        return launch([[np.arange(n // 8) % 64] * 8], lanes=lanes)

    assert steady(machine(), make, 8192) == pytest.approx(1, rel=CLOSE)


CROSSBARS = pytest.mark.parametrize(("clock", "width"), [(700, 32), (1400, 32), (1215, 16), (350, 64), (900, 8)])


@CROSSBARS
@pytest.mark.parametrize(("sms", "slices"), [(1, 8), (4, 1)])
def test_stores_saturate_the_request_ports(clock, width, sms, slices):
    """One SM and many slices: the port that it sends by. Many SMs and one slice: the port that this receives by."""
    crossbar = CrossbarConfig(clock=clock, width=width)
    gpu = machine(sms=sms, crossbar=crossbar, l2=replace(DEEP_L2, slices=slices), dram=FAST_DRAM)
    rate = steady(gpu, lambda n: streams(n, span=4096, sms=sms, op=Op.STORE), 4096)
    assert rate == pytest.approx(clock / gpu.clock / flits(gpu, READ + LINE), rel=CLOSE)


@CROSSBARS
@pytest.mark.parametrize(("sms", "slices"), [(1, 8), (4, 1)])
def test_l2_hits_saturate_the_response_ports(clock, width, sms, slices):
    crossbar = CrossbarConfig(clock=clock, width=width)
    gpu = machine(sms=sms, crossbar=crossbar, l2=replace(DEEP_L2, slices=slices), dram=FAST_DRAM)
    rate = steady(gpu, lambda n: streams(n, span=2048, sms=sms), 4096)
    assert rate == pytest.approx(clock / gpu.clock / flits(gpu, READ + LINE), rel=CLOSE)


@pytest.mark.parametrize("slices", [1, 2])
@pytest.mark.parametrize("clock", [90, 350, 500, 700])
def test_l2_hits_saturate_the_slices_with_one_request_per_cycle_of_their_clock(clock, slices):
    gpu = machine(sms=4, crossbar=FAST_CROSSBAR, l2=replace(DEEP_L2, clock=clock, slices=slices), dram=FAST_DRAM)
    rate = steady(gpu, lambda n: streams(n, span=2048, sms=4), 8192)
    assert rate == pytest.approx(slices * clock / gpu.clock, rel=CLOSE)


@pytest.mark.parametrize("slices", [1, 2])
@pytest.mark.parametrize(("clock", "width"), [(924, 32), (700, 16), (1500, 64), (350, 32)])
def test_a_stream_over_open_rows_saturates_the_dram_buses(clock, width, slices):
    dram = DramConfig(clock=clock, width=width, queue=64)
    gpu = machine(sms=4, l1=LARGE, crossbar=FAST_CROSSBAR, l2=replace(DEEP_L2, slices=slices), dram=dram)
    rate = steady(gpu, lambda n: streams(n, span=n, sms=4), 8192)
    assert rate * LINE == pytest.approx(slices * width * clock / gpu.clock, rel=CLOSE)


# ---- bandwidth: every request opens a row


ROW = 2048


def conflicting(n, banks):
    """Return n loads, in order, over some of 16 banks in turn, of a row of its own each; of one warp."""
    i = np.arange(n)
    return launch([[(i // banks * 16 + i % banks) * (ROW // LINE)]], lanes=min(n, WARP))


def row_conflicts(banks, n, **timings):
    """Return timings, DRAM cycles per line, and those that each of n requests takes that all open a row.

    They are counted from the first request on, when no bank has a row open: nothing has to settle before.
    """
    dram = DramConfig(clock=700, row=ROW, queue=64, **timings)
    gpu = machine(l1=LARGE, crossbar=FAST_CROSSBAR, l2=replace(DEEP_L2, size=32 << 20), dram=dram)
    first, last = (cycles(conflicting(n, banks), gpu) for n in (1, n))
    return dram, burst(gpu), (last - first) / (n - 1)


@pytest.mark.parametrize("banks", [1, 2, 4, 8, 16])
@pytest.mark.parametrize(
    "timings",
    [
        {"trrd": 7},
        {"trrd": 20},
        {"trrd": 7, "trc": 60},
        {"trrd": 7, "trc": 80},
        {"trrd": 5, "tras": 50},
        {"trrd": 7, "width": 4},
    ],
)
def test_row_conflicts_are_served_once_per_row_cycle_and_bank_up_to_the_rate_of_activates_and_the_bus(banks, timings):
    dram, bus, found = row_conflicts(banks, 2048, **timings)
    row_cycle = max(dram.trc, dram.tras + dram.trp, dram.trcd + bus + dram.trp)
    assert found == pytest.approx(max(row_cycle / banks, dram.trrd, bus), rel=CLOSE)


@pytest.mark.parametrize("n", [2, 16, 17, 32, 64, 128, 512])
def test_banks_that_were_never_opened_are_served_at_the_rate_of_activates_too(n):
    # 16 banks are more than tRC / tRRD: the next row of a bank is never early. tRP + tRCD = 24 is no multiple of 7.
    _, _, found = row_conflicts(16, n, trrd=7, trc=60)
    assert found == 7


@pytest.mark.parametrize("trrd", [4, 6, 8, 12])
def test_a_column_command_takes_the_place_of_an_activate_that_is_due_with_it(trrd):
    # Activates are due every trrd cycles, and trp + trcd after each its column: in step, these meet.
    dram, _, found = row_conflicts(16, 8192, trrd=trrd)
    between = dram.trp + dram.trcd
    assert between % trrd == 0
    assert found == pytest.approx((between + 1) / (between // trrd), rel=CLOSE)


# ---- scale


@pytest.mark.parametrize("memory", ["ideal", "huge"])
def test_twice_the_sms_do_twice_the_work_where_the_memory_is_no_limit(memory):
    parts, options = {}, {"memory": 200}
    if memory == "huge":
        still = dict.fromkeys(("tcl", "trp", "trc", "tras", "trcd", "trrd"), 0)
        parts = {
            "crossbar": CrossbarConfig(clock=90_000, width=256, latency=100),
            "l2": L2Config(slices=64, clock=90_000, latency=10, size=1 << 20, queue=4096, mshrs=None),
            "dram": DramConfig(clock=90_000, width=128, queue=512, **still),
        }
        options = {}
    lines = np.random.default_rng(0).integers(4000, size=(8, 100))
    taken = [
        cycles(
            launch([lines + 4096 * block for block in range(16)]), machine(sms=sms, max_blocks=2, **parts), **options
        )
        for sms in (1, 2, 4, 8)
    ]
    for single, double in pairwise(taken):
        assert single / double == pytest.approx(2, rel=CLOSE)


@pytest.mark.parametrize("sched", ["lrr", "gto", "old", "two-level", "gty"])
@pytest.mark.parametrize("schedulers", [1, 2, 3, 4])
def test_schedulers_issue_one_arithmetic_instruction_per_cycle_each(schedulers, sched):
    gpu = machine(core=CoreConfig(schedulers=schedulers, sched=sched))
    found = simulate(launch([[[0]] * 12], gap=3000), gpu, memory=1)
    assert found.warp_instructions == 12 * 3001
    assert found.warp_instructions / found.cycles == pytest.approx(schedulers, rel=CLOSE)


def test_fewer_warps_than_schedulers_leave_the_others_idle():
    found = simulate(launch([[[0]] * 3], gap=3000), machine(core=CoreConfig(schedulers=4)), memory=1)
    assert found.warp_instructions / found.cycles == pytest.approx(3, rel=CLOSE)


@pytest.mark.parametrize("sched", ["lrr", "gto", "old", "two-level", "gty"])
@pytest.mark.parametrize("lanes", [1, 2, 3, 8])
@pytest.mark.parametrize("places", [1, 2, 3])
@pytest.mark.parametrize("schedulers", [2, 3, 4])
def test_schedulers_share_a_busy_unit_evenly_however_long_an_instruction_takes(schedulers, places, lanes, sched):
    """They take turns, as long as all have something to issue; also if one of them has fewer warps than others."""
    core = CoreConfig(schedulers=schedulers, sched=sched, ldst_queue=places)
    rows, instructions = [], 20
    trace = launch([[np.arange(instructions * lanes) % 8] * (2 * schedulers - 1)], lanes=lanes)
    simulate(trace, machine(core=core), memory=1, observe=lambda some: rows.extend(some.tolist()))
    turns = [row[2] % schedulers for row in rows[::lanes]]
    all_busy = schedulers * instructions
    assert turns[:all_busy] == [turn % schedulers for turn in range(all_busy)]


def test_twice_the_dram_clock_halves_a_run_that_waits_for_the_dram():
    dram = DramConfig(queue=64)
    taken = []
    for clock in (175, 350, 700, 1400):
        gpu = machine(sms=4, l1=LARGE, crossbar=FAST_CROSSBAR, l2=DEEP_L2, dram=replace(dram, clock=clock))
        taken.append(cycles(streams(16384, span=16384, sms=4), gpu))
    for slow, fast in pairwise(taken):
        assert slow / fast == pytest.approx(2, rel=CLOSE)


# ---- what more of something never does


def stack_misses(lines, ways):
    """Return the misses of fully associative LRU: lines whose last use has at least `ways` other lines behind it."""
    stack, missed = [], 0
    for line in lines:
        missed += line not in stack[:ways]
        stack = [line, *(other for other in stack if other != line)]
    return missed


@pytest.mark.parametrize("allocate", ["miss", "fill"])
@pytest.mark.parametrize("seed", range(4))
def test_more_ways_of_a_fully_associative_l1_keep_what_fewer_keep(seed, allocate):
    random = np.random.default_rng(seed)
    lines = random.integers(int(random.choice([6, 20, 60])), size=150).tolist()
    missed = []
    for ways in (1, 2, 3, 5, 8, 16, 32, 64):
        l1 = replace(SMALL, size=ways * LINE, ways=ways, allocate=allocate)
        found = simulate(launch([[lines]], needs=ALL_NEEDS), machine(l1=l1))
        missed.append(found.misses.total)
        assert found.misses.total == stack_misses(lines, ways)
        assert found.misses.associativity == 0
    assert missed == sorted(missed, reverse=True)


IN_ORDER = {"l2": L2Config(slices=1), "dram": DramConfig(queue=1)}
"""A memory that serves requests in their order: with more slices, or a queue to choose from, order depends on time."""


@pytest.mark.parametrize("hit_latency", [0, 20, 400])
@pytest.mark.parametrize("memory", ["ideal", "in order"])
@pytest.mark.parametrize("field", ["mshrs", "miss_queue"])
@pytest.mark.parametrize("seed", range(8))
def test_more_mshrs_or_a_longer_miss_queue_never_slow_a_single_warp(seed, field, memory, hit_latency):
    """Nothing is evicted, and a merged request is no faster than a hit.

    So what comes earlier has its data earlier: a line's first load is a miss in either case; another load, at a, has
    them at max(fill, a + hit latency), whether it merges or hits.
    """
    random = np.random.default_rng(seed)
    lines = random.integers(int(random.choice([6, 30, 300])), size=100)
    needs = int(random.choice([0, 1 << 3]))
    allocate = ("miss", "fill")[seed % 2]
    taken = []
    for limit in (1, 2, 3, 4, 8, 16, 64):
        l1 = replace(LARGE, **{"mshrs": 16, "miss_queue": 8, "allocate": allocate, field: limit})
        gpu = machine(l1=l1, core=CoreConfig(hit_latency=hit_latency), **IN_ORDER)
        options = {"memory": 150} if memory == "ideal" else {}
        taken.append(cycles(launch([[lines]], needs=needs), gpu, **options))
    assert taken == sorted(taken, reverse=True)


@pytest.mark.parametrize("hit_latency", [0, 5, 20, 400])
@pytest.mark.parametrize("latency", [1, 10, 150])
def test_an_mshr_more_does_not_slow_a_warp_by_making_a_merge_a_hit(latency, hit_latency):
    """Lines 0, 1, 1; the last load waits for line 0, there at 1 + latency, and accesses line 1 a cycle later.

    With one MSHR line 1 is only sent for when line 0 is there, and the last load merges; with more it hits.
    """

    def taken(mshrs):
        gpu = machine(l1=replace(SMALL, mshrs=mshrs), core=CoreConfig(hit_latency=hit_latency))
        return cycles(launch([[[0, 1, 1]]], needs=0b10), gpu, memory=latency)

    hit = latency + 2 + hit_latency
    assert taken(1) == max(1 + 2 * latency, hit) + 1
    assert taken(2) == taken(64) == hit + 1


@pytest.mark.parametrize("field", ["mshrs", "miss_queue"])
def test_a_chain_of_loads_does_not_notice_more_mshrs_or_a_longer_miss_queue(field):
    lines = np.random.default_rng(0).integers(300, size=100)
    taken = {
        cycles(launch([[lines]], needs=ALL_NEEDS), machine(l1=replace(SMALL, **{field: limit})))
        for limit in (1, 2, 8, 64)
    }
    assert len(taken) == 1
