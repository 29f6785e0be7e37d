"""The compiled cores against `rdmodel.reference`: the same counts, to the unit, on random traces and machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdmodel import predict, reference
from rdmodel.errors import TraceError
from rdmodel.gpu.config import GPU, CacheConfig
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.model.dealing import cap_blocks, deal
from rdmodel.model.options import Options
from rdmodel.model.random_draws import Draws
from rdmodel.policies import BXor, Linear, PDisp, PMod, Pric
from rdmodel.results.prediction import Prediction
from rdmodel.trace import ALL_NEEDS, WARP, Columns, Launch, Op, Trace

LINE = 128
Instructions = list[tuple[int, int, int, tuple[int, ...]]]


def make_trace(blocks: list[list[Instructions]], warps: int) -> Trace:
    """Build a trace whose instructions request exactly the given lines, one lane per line."""
    program = [instruction for block in blocks for warp in block for instruction in warp]
    lengths = [len(warp) for block in blocks for warp in block]
    counts = [len(lines) for _, _, _, lines in program]
    columns = Columns(
        warp_start=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        pc=np.zeros(len(program)),
        op=np.array([op for op, _, _, _ in program]),
        space=np.zeros(len(program)),
        size=np.full(len(program), 4),
        gap=np.array([gap for _, _, gap, _ in program]),
        needs=np.array([needs for _, needs, _, _ in program], np.uint64),
        loop_exit=np.zeros(len(program)),
        mask=np.array([(1 << n) - 1 for n in counts]),
        address_start=np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
        addresses=np.array([line * LINE for _, _, _, lines in program for line in lines]),
    )
    launch = Launch(kernel="random", grid=(len(blocks), 1, 1), block=(warps * WARP, 1, 1))
    return Trace(launch, columns)


def make_gpu(**l1: object) -> GPU:
    cache = CacheConfig(**{"size": 16 * LINE, "ways": 2, "index": Linear(), "mshrs": 3, **l1})
    return GPU(name="small", sms=2, max_threads=1536, max_blocks=2, max_warps=48, l1=cache)


def forever(batch: object, count: int) -> Iterator[float]:
    while True:
        yield from batch(count).tolist()


Requests = dict[int, list[reference.L2Request]]


def expected(
    trace: Trace,
    blocks: list[list[Instructions]],
    gpu: GPU,
    options: Options,
    seed: int,
    requests: Requests | None = None,
) -> list:
    """Run the reference on the same blocks, with the same random numbers; fill `requests` with what leaves each SM."""
    programs = [[[reference.Instruction(*i) for i in warp] for warp in block] for block in blocks]
    slots = compute_occupancy(trace.launch, gpu).blocks
    dealt = deal(trace.launch, options)

    def make(sm: int) -> reference.SM:
        draws = Draws(seed, sm, options.sigma)
        latencies = forever(draws.latencies, 7)
        leave = None if requests is None else requests.setdefault(sm, [])
        if options.definition == "paper":
            return reference.paper(gpu.l1, options, slots, latencies, requests=leave)
        return reference.hardware(gpu.l1, options, slots, latencies, forever(draws.choices, 5), requests=leave)

    if options.model_sms == "all" and options.definition == "hardware":
        total = sum(map(len, dealt))
        cap = cap_blocks(trace.launch, options)
        return reference.run_all([make(sm) for sm in range(len(dealt))], programs[:total], cap)
    return [reference.run(make(sm), [programs[b] for b in ids]) for sm, ids in enumerate(dealt)]


def found(prediction: Prediction) -> list[dict[str, object]]:
    return [
        {
            "transactions": sm.transactions,
            "hits": sm.hits,
            "latency_misses": sm.latency_misses,
            "compulsory": sm.misses.compulsory,
            "capacity": sm.misses.capacity,
            "associativity": sm.misses.associativity,
            "stalls_mshr": sm.stalls_mshr,
            "stalls_ways": sm.stalls_ways,
            "bypassed": sm.bypassed,
            "steps": sm.steps,
        }
        for sm in prediction.per_sm
    ]


def check(program: list[list[Instructions]], warps: int, gpu: GPU, seed: int = 0, **given: object) -> Prediction | None:
    trace = make_trace(program, warps)
    options = Options(**given).resolve(gpu)
    want = expected(trace, program, gpu, options, seed)
    if sum(counts.transactions for counts in want) == 0:
        with pytest.raises(TraceError, match="hold no loads"):
            predict(trace, gpu, seed=seed, **given)
        return None
    got = predict(trace, gpu, seed=seed, **given)
    assert found(got) == [{name: getattr(counts, name) for name in found(got)[0]} for counts in want]
    histogram: dict[int, int] = {}
    for counts in want:
        for distance, count in counts.histogram.items():
            histogram[distance] = histogram.get(distance, 0) + count
    assert dict(got.histogram) == {d: n for d, n in histogram.items() if n}
    return got


# ---- random traces, machines and options

LINES = st.integers(0, 40)
OPS = st.sampled_from([Op.LOAD, Op.LOAD, Op.LOAD, Op.STORE, Op.ATOMIC])
NEEDS = st.one_of(st.just(ALL_NEEDS), st.just(0), st.integers(0, 15), st.integers(0, ALL_NEEDS))
INSTRUCTION = st.tuples(
    OPS.map(int), NEEDS, st.integers(0, 3), st.lists(LINES, min_size=1, max_size=5, unique=True).map(tuple)
)
INDEXES = st.sampled_from([Linear(), Pric(), BXor(), PMod(), PDisp()])


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[list[Instructions]], int]:
    warps = draw(st.integers(1, 3))
    warp = st.lists(INSTRUCTION, max_size=8)
    block = st.lists(warp, min_size=warps, max_size=warps)
    return draw(st.lists(block, min_size=1, max_size=7)), warps


@st.composite
def machines(draw: st.DrawFn) -> GPU:
    ways = draw(st.integers(1, 4))
    sets = draw(st.sampled_from([4, 8]))
    limit = st.one_of(st.none(), st.integers(1, 4))
    gpu = make_gpu(
        size=ways * sets * LINE,
        ways=ways,
        index=draw(INDEXES),
        mshrs=draw(limit),
        mshr_merge=draw(limit),
        mshr_per_warp=draw(limit),
    )
    return gpu.replace(max_blocks=draw(st.integers(1, 3)), sms=draw(st.integers(1, 3)))


COMMON = {
    "lat_min": st.one_of(st.integers(0, 30), st.sampled_from([1000, 1023, 1024, 3000])),  # a calendar has 1024 days
    "sigma": st.sampled_from([0.0, 3.0, 20.0]),
    "hit_latency": st.integers(0, 8),
    "cta": st.sampled_from(["replace", "waves"]),
    "divergence": st.sampled_from([True, True, False]),
    "model_sms": st.sampled_from([1, 1, "all"]),
    "blocks": st.one_of(st.none(), st.integers(1, 5)),
    "threads": st.sampled_from([None, 96, 192]),
}
PAPER = {
    "definition": st.just("paper"),
    **COMMON,
    "stores": st.sampled_from(["free", "allocate"]),
    "effects": st.sampled_from(["after", "before"]),
    "clip": st.booleans(),
}
HARDWARE_FIELDS = {
    "definition": st.just("hardware"),
    **COMMON,
    "stores": st.sampled_from(["free", "step", "evict", "allocate"]),
    "sched": st.sampled_from(["random", "fifo", "lrr", "gto", "oldest"]),
    "schedulers": st.sampled_from([1, 1, 2, 3, 4]),
    "stall": st.sampled_from(["park", "head"]),
    "full_set": st.sampled_from(["stall", "bypass"]),
    "step": st.sampled_from(["transaction", "instruction"]),
    "stagger": st.sampled_from([0, 0, 7]),
    "gap": st.booleans(),
    "first_touch_factor": st.sampled_from([1.0, 1.0, 0.5, 2.5]),
}


def possible(options: dict[str, Any]) -> dict[str, Any]:
    """Several schedulers choose by another rule than chance."""
    return {**options, "schedulers": 1} if options["sched"] == "random" else options


HARDWARE = st.fixed_dictionaries(HARDWARE_FIELDS).map(possible)


@settings(max_examples=400, deadline=None)
@given(programs(), machines(), st.fixed_dictionaries(PAPER), st.integers(0, 3))
def test_the_compiled_paper_definition_equals_the_reference(program, gpu, options, seed):
    check(*program, gpu, seed, **options)


@settings(max_examples=800, deadline=None)
@given(programs(), machines(), HARDWARE, st.integers(0, 3))
def test_the_compiled_hardware_definition_equals_the_reference(program, gpu, options, seed):
    check(*program, gpu, seed, **options)


@pytest.mark.parametrize("empty", range(1, 7))
def test_blocks_go_round_the_sms_at_the_start_where_some_are_empty(empty):
    gpu = GPU(
        name="three",
        sms=3,
        max_threads=1536,
        max_blocks=1,
        max_warps=48,
        l1=CacheConfig(size=512, ways=1, index=Linear()),
    )
    program = [*[[[]]] * empty, [[(0, ALL_NEEDS, 0, (0,))]]]
    prediction = check(program, 1, gpu, definition="hardware", model_sms="all", lat_min=0, sigma=0.0, hit_latency=0)
    # One block after the other, empty or not, goes to the next SM.
    assert [sm.transactions for sm in prediction.per_sm] == [float(sm == empty % 3) for sm in range(3)]
