"""Test laws of the reference model that hold for every stream, cache and option, and the dispatcher."""

from __future__ import annotations

from itertools import chain, cycle, repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import ConfigError
from rdmodel.gpu.config import CacheConfig
from rdmodel.model.options import Options
from rdmodel.policies import Linear
from rdmodel.reference import (
    INFINITE,
    SM,
    Block,
    Counts,
    Effect,
    Instruction,
    Log,
    ReuseStack,
    Try,
    hardware,
    paper,
    run,
    run_all,
)
from rdmodel.trace import ALL_NEEDS, Op

LINES = st.integers(0, 11)
BOTH = pytest.mark.parametrize("definition", ["paper", "hardware"])


@st.composite
def instructions(draw: st.DrawFn) -> Instruction:
    return Instruction(
        op=draw(st.sampled_from([Op.LOAD, Op.LOAD, Op.LOAD, Op.STORE, Op.ATOMIC])),
        needs=draw(st.sampled_from([0, 1, 2, 5, ALL_NEEDS])),
        gap=draw(st.integers(0, 2)),
        lines=tuple(draw(st.lists(LINES, min_size=1, max_size=3))),
    )


BLOCKS = st.lists(st.lists(st.lists(instructions(), max_size=5), max_size=3), max_size=5)


@st.composite
def caches(draw: st.DrawFn) -> CacheConfig:
    ways, sets = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 4]))
    limit = st.none() | st.integers(1, 3)
    return CacheConfig(
        size=128 * ways * sets,
        ways=ways,
        index=Linear(),
        mshrs=draw(limit),
        mshr_merge=draw(limit),
        mshr_per_warp=draw(limit),
    )


COMMON: dict[str, st.SearchStrategy[Any]] = {
    "cta": st.sampled_from(["replace", "waves"]),
    "divergence": st.booleans(),
    "lat_min": st.integers(0, 8),
    "hit_latency": st.integers(0, 3),
}
OPTIONS = {
    "paper": st.fixed_dictionaries(
        {
            **COMMON,
            "stores": st.sampled_from(["free", "allocate"]),
            "effects": st.sampled_from(["after", "before"]),
            "clip": st.booleans(),
        }
    ),
    "hardware": st.fixed_dictionaries(
        {
            **COMMON,
            "stores": st.sampled_from(["free", "step", "evict", "allocate"]),
            "sched": st.sampled_from(["random", "fifo", "lrr", "gto", "oldest", "gty"]),
            "stall": st.sampled_from(["park", "head"]),
            "full_set": st.sampled_from(["stall", "bypass"]),
            "step": st.sampled_from(["transaction", "instruction"]),
            "stagger": st.integers(0, 3),
            "gap": st.booleans(),
            "first_touch_factor": st.sampled_from([0.0, 0.5, 1.0, 2.0]),
        }
    ),
}


def model(
    cache: CacheConfig,
    options: Options,
    slots: int = 1,
    *,
    draw: list[int] | None = None,
    log: Log | None = None,
) -> SM:
    latencies = cycle(draw or [0])
    if options.definition == "paper":
        return paper(cache, options, slots, latencies, log)
    return hardware(cache, options, slots, latencies, cycle([0.9, 0.2, 0.5, 0.0]), log)


def issued(blocks: list[Block], options: Options) -> list[int]:
    """Return the lines of all instructions that use the cache."""
    flat = chain.from_iterable(chain.from_iterable(blocks))
    return [line for i in flat if i.op == Op.LOAD or options.stores == "allocate" for line in i.lines]


def instant(definition: Any) -> Options:
    return Options(definition=definition, lat_min=0, sigma=0.0, hit_latency=0)


def one_warp(lines: list[int]) -> list[Block]:
    return [[[Instruction(Op.LOAD, ALL_NEEDS, 0, (line,)) for line in lines]]]


@BOTH
@given(data=st.data())
def test_counts_add_up_and_the_log_agrees(definition: Any, data: st.DataObject) -> None:
    options = Options(definition=definition, sigma=1.0, **data.draw(OPTIONS[definition]))
    cache, blocks = data.draw(caches()), data.draw(BLOCKS)
    log: Log = []
    draw = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    counts = run(model(cache, options, data.draw(st.integers(1, 3)), draw=draw, log=log), blocks)
    lines = issued(blocks, options)
    outcomes = [t.outcome for t in log if isinstance(t, Try)]
    assert counts.transactions == len(lines) == counts.hits + counts.latency_misses + counts.misses
    assert counts.compulsory == len(set(lines))
    assert sum(counts.histogram.values()) == counts.transactions
    assert outcomes.count("hit") == counts.hits
    assert outcomes.count("latency") == counts.latency_misses
    assert outcomes.count("miss") == counts.misses
    assert outcomes.count("stall") == counts.stalls_mshr + counts.stalls_ways
    assert counts.bypassed <= counts.misses


@BOTH
@given(data=st.data())
def test_time_rises_and_no_more_mshrs_are_used_than_there_are(definition: Any, data: st.DataObject) -> None:
    options = Options(definition=definition, sigma=0.0, **data.draw(OPTIONS[definition]))
    cache, log = data.draw(caches()), list[Any]()
    counts = run(model(cache, options, 2, log=log), data.draw(BLOCKS))
    times = [t.time for t in log if isinstance(t, Try)]
    assert times == sorted(times)
    assert not times or times[-1] <= counts.steps
    effects = [e.time for e in log if isinstance(e, Effect)]
    assert effects == sorted(effects)
    if cache.mshrs is not None:
        assert all(t.mshrs_after <= cache.mshrs for t in log if isinstance(t, Try))


@BOTH
@given(lines=st.lists(LINES, max_size=60), ways=st.integers(1, 4), sets=st.sampled_from([1, 2, 4]))
def test_without_latency_hits_are_those_of_an_lru_cache(
    definition: Any, lines: list[int], ways: int, sets: int
) -> None:
    cache = CacheConfig(size=128 * ways * sets, ways=ways, index=Linear(), mshrs=None)
    held: dict[int, list[int]] = {s: [] for s in range(sets)}
    hits = 0
    for line in lines:
        stack = held[line % sets]
        hits += line in stack
        if line in stack:
            stack.remove(line)
        held[line % sets] = [line, *stack][:ways]
    counts = run(model(cache, instant(definition)), one_warp(lines))
    assert counts.hits == hits
    assert counts.latency_misses == 0
    assert hits == sum(n for distance, n in counts.histogram.items() if 0 <= distance < ways)


@BOTH
@given(lines=st.lists(LINES, max_size=60), ways=st.integers(1, 4), sets=st.sampled_from([1, 2, 4]))
def test_more_ways_never_miss_more(definition: Any, lines: list[int], ways: int, sets: int) -> None:
    small = CacheConfig(size=128 * ways * sets, ways=ways, index=Linear())
    large = CacheConfig(size=128 * (ways + 1) * sets, ways=ways + 1, index=Linear())
    misses = [run(model(c, instant(definition)), one_warp(lines)).misses for c in (small, large)]
    assert misses[1] <= misses[0]


@given(lines=st.lists(LINES, max_size=60), ways=st.integers(1, 4), latency=st.integers(0, 5))
def test_a_fully_associative_cache_has_no_associativity_misses(lines: list[int], ways: int, latency: int) -> None:
    cache = CacheConfig(size=128 * ways, ways=ways, index=Linear())
    options = Options(definition="paper", lat_min=latency, sigma=0.0, hit_latency=0)
    assert run(model(cache, options), one_warp(lines)).associativity == 0


@given(lines=st.lists(LINES, max_size=60))
def test_the_reuse_stack_counts_distinct_other_lines(lines: list[int]) -> None:
    stack = ReuseStack()
    for now, line in enumerate(lines):
        before = [i for i in range(now) if lines[i] == line]
        expected = len(set(lines[before[-1] + 1 : now])) if before else INFINITE
        assert stack.distance(line) == expected
        stack.touch(line)


@BOTH
def test_a_conflict_in_one_set_is_an_associativity_miss_and_a_full_cache_a_capacity_miss(
    definition: Any,
) -> None:
    cache = CacheConfig(size=128 * 4, ways=1, index=Linear())
    # 0 and 4 share set 0 of 4: the second 0 would hit in a fully associative cache of 4 lines
    counts = run(model(cache, instant(definition)), one_warp([0, 4, 0]))
    assert (counts.compulsory, counts.associativity, counts.capacity) == (2, 1, 0)
    # 5 distinct lines between: it would not
    counts = run(model(cache, instant(definition)), one_warp([0, 1, 2, 3, 4, 5, 0]))
    assert (counts.compulsory, counts.associativity, counts.capacity) == (6, 0, 1)


@BOTH
def test_empty_warps_and_empty_blocks_end_at_once(definition: Any) -> None:
    cache = CacheConfig(size=128, ways=1, index=Linear())
    full = one_warp([3])[0]
    assert run(model(cache, instant(definition)), []) == Counts()
    assert run(model(cache, instant(definition)), [[[], []], [], [[]]]) == Counts()
    assert run(model(cache, instant(definition)), [[], [[], *full], [[]], full]).transactions == 2


@BOTH
def test_unresolved_latencies_are_refused(definition: Any) -> None:
    cache = CacheConfig(size=128, ways=1, index=Linear())
    with pytest.raises(ConfigError, match="lat_min=None"):
        run(model(cache, Options(definition=definition)), [])


# The dispatcher. Every block loads lines of its own, so that the log of an SM names the blocks it ran.


def block(number: int, loads: int = 1) -> Block:
    return one_warp([100 * number + i for i in range(loads)])[0]


def dispatch(blocks: list[Block], *, slots: int = 1, sms: int = 2, per_sm: int | None = None) -> list[list[int]]:
    """Return the blocks that each SM ran, in the order of their first loads; a load takes 10 steps."""
    cache = CacheConfig(size=128 * 64, ways=64, index=Linear())
    options = Options(lat_min=10, sigma=0.0, hit_latency=0, sched="fifo")
    logs: list[Log] = [[] for _ in range(sms)]
    run_all([hardware(cache, options, slots, repeat(0), repeat(0.0), log) for log in logs], blocks, per_sm)
    return [list(dict.fromkeys(t.line // 100 for t in log if isinstance(t, Try))) for log in logs]


def test_the_initial_fill_deals_blocks_round_robin() -> None:
    assert dispatch([block(i) for i in range(6)], slots=2, sms=3) == [[0, 3], [1, 4], [2, 5]]
    assert dispatch([block(i) for i in range(4)], slots=2, sms=3) == [[0, 3], [1], [2]]


def test_the_sm_that_is_free_first_gets_the_next_block() -> None:
    # block 0 keeps SM 0 busy until 30; blocks 1, 2, 3 follow each other on SM 1 at 0, 10, 20
    # at 30 both ask: SM 0 gets block 4, SM 1 block 5
    blocks = [block(0, loads=3), *(block(i) for i in range(1, 6))]
    assert dispatch(blocks) == [[0, 4], [1, 2, 3, 5]]


def test_an_sm_at_its_cap_gets_no_more_blocks() -> None:
    assert dispatch([block(0, loads=9), *(block(i) for i in range(1, 6))], per_sm=2) == [[0, 3], [1, 2]]


def test_waves_of_several_sms_are_independent() -> None:
    cache = CacheConfig(size=128 * 64, ways=64, index=Linear())
    options = Options(lat_min=10, sigma=0.0, hit_latency=0, cta="waves")
    counts = run_all(
        [hardware(cache, options, 2, repeat(0), repeat(0.0)) for _ in range(2)], [block(i) for i in range(9)]
    )
    assert sum(c.transactions for c in counts) == 9


def recorded(sm: SM, given: list[Block]) -> SM:
    """Wrap `sm` so that the blocks that it is given are appended to `given`."""
    try:
        now = next(sm)
        while True:
            block = yield now
            if block is not None:
                given.append(block)
            now = sm.send(block)
    except StopIteration as stop:
        return stop.value


@BOTH
@given(data=st.data())
def test_sms_share_nothing_but_the_blocks(definition: Any, data: st.DataObject) -> None:
    options = Options(definition=definition, sigma=0.0, **data.draw(OPTIONS[definition]))
    cache, blocks, slots = data.draw(caches()), data.draw(BLOCKS), data.draw(st.integers(1, 2))
    ran: list[list[Block]] = [[] for _ in range(3)]
    together = run_all([recorded(model(cache, options, slots), mine) for mine in ran], blocks)
    assert sorted(chain.from_iterable(ran)) == sorted(blocks)
    assert together == [run(model(cache, options, slots), mine) for mine in ran]
