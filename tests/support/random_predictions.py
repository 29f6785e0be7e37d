"""Draw random programs, GPUs and options of the model, and run its reference on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

from rdmodel import reference
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.model import cores
from rdmodel.model import sm as sm_module
from rdmodel.model.dealing import cap_blocks, deal
from rdmodel.model.options import Options
from rdmodel.model.random_draws import Draws
from rdmodel.policies import BXor, Linear, PDisp, PMod, Pric
from rdmodel.results.counts import MissCounts, SmCounts, StoreCounts
from rdmodel.results.prediction import Prediction
from rdmodel.trace import ALL_NEEDS, WARP, Op, Trace
from rdmodel.trace.coalescing import Chunk
from tests.support.builders import LINE, Instructions, make_gpu


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
    """Run the reference on the same blocks and random numbers; fill `requests` with the requests of each SM."""
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


def counts_of(sm: SmCounts) -> dict[str, float]:
    """Return the counters of one SM under the names of the reference's `Counts`."""
    return {
        **{name: getattr(sm, name) for name in SmCounts.COUNTERS},
        **{name: getattr(sm.misses, name) for name in MissCounts.CAUSES},
        **{f"store_{name}": getattr(sm.stores, name) for name in StoreCounts.COUNTS},
    }


def assert_counts_equal(got: Prediction, want: Sequence[reference.Counts]) -> None:
    """Assert that all counters of every SM, and the histogram of all, are those of the reference."""
    assert [counts_of(sm) for sm in got.per_sm] == [
        {name: getattr(counts, name) for name in counts_of(got.per_sm[0])} for counts in want
    ]
    histogram: dict[int, int] = {}
    for counts in want:
        for distance, count in counts.histogram.items():
            histogram[distance] = histogram.get(distance, 0) + count
    assert dict(got.histogram) == {d: n for d, n in histogram.items() if n}


@contextmanager
def fed_in_portions(draws: int, instructions: int) -> Iterator[None]:
    """Feed the cores so many random numbers and instructions at a time, instead of thousands."""

    def small_chunk(*_sizes: int, **options: Any) -> Chunk:
        return Chunk(instructions, WARP * 2, **options)

    with patch.object(sm_module, "MAX_DRAWS_PER_BATCH", draws), patch.object(cores, "Chunk", small_chunk):
        yield


LINES = st.integers(0, 40)
OPS = st.sampled_from([Op.LOAD, Op.LOAD, Op.LOAD, Op.STORE, Op.ATOMIC])
NEEDS = st.one_of(st.just(ALL_NEEDS), st.just(0), st.integers(0, 15), st.integers(0, ALL_NEEDS))
ACCESS = st.tuples(
    OPS.map(int), NEEDS, st.integers(0, 3), st.lists(LINES, min_size=1, max_size=5, unique=True).map(tuple)
)
BARRIER = st.tuples(st.just(int(Op.BARRIER)), NEEDS, st.integers(0, 3), st.just(()))
INSTRUCTION = st.one_of(ACCESS, ACCESS, ACCESS, BARRIER)

INDEXES = st.sampled_from([Linear(), Pric(), BXor(), PMod(), PDisp()])


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[list[Instructions]], int]:
    warps = draw(st.integers(1, 3))
    warp = st.lists(INSTRUCTION, max_size=8)
    block = st.lists(warp, min_size=warps, max_size=warps)
    return draw(st.lists(block, min_size=1, max_size=7)), warps


@st.composite
def geometries(draw: st.DrawFn, ways: int, sets: int) -> dict[str, int]:
    """Draw size and ways of an L1, whose ways have data of their own or, in a third of the cases, share fewer."""
    tags = ways * sets
    if draw(st.integers(0, 2)):
        return {"size": tags * LINE, "ways": ways}
    reserved, pools = draw(st.integers(0, 2)), draw(st.sampled_from([each for each in (1, 2, 4) if each <= sets]))
    return {
        "size": (pools * draw(st.integers(1, tags // pools + 1)) + reserved) * LINE,
        "ways": ways,
        "tag_sets": sets,
        "reserved": reserved * LINE,
        "pools": pools,
        "protected": draw(st.integers(0, ways)),
    }


@st.composite
def machines(draw: st.DrawFn) -> GPU:
    ways = draw(st.integers(1, 4))
    sets = draw(st.sampled_from([4, 8]))
    limit = st.one_of(st.none(), st.integers(1, 4))
    gpu = make_gpu(
        **draw(geometries(ways, sets)),
        index=draw(INDEXES),
        mshrs=draw(limit),
        mshr_merge=draw(limit),
        mshr_per_warp=draw(limit),
        tags_per_step=draw(st.sampled_from([1, 1, 2, 4])),
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
    "stores": st.sampled_from(["free", "step", "evict", "allocate", "update", "through"]),
    "sched": st.sampled_from(["random", "fifo", "lrr", "gto", "oldest", "gty"]),
    "schedulers": st.sampled_from([1, 1, 2, 3, 4]),
    "stall": st.sampled_from(["park", "head"]),
    "full_set": st.sampled_from(["stall", "bypass"]),
    "step": st.sampled_from(["transaction", "instruction"]),
    "stagger": st.sampled_from([0, 0, 7]),
    "gap": st.booleans(),
    "first_touch_factor": st.sampled_from([1.0, 1.0, 0.5, 2.5]),
}


def possible(options: dict[str, Any]) -> dict[str, Any]:
    """Return options with one scheduler if it chooses at random: several schedulers cannot."""
    return {**options, "schedulers": 1} if options["sched"] == "random" else options


HARDWARE = st.fixed_dictionaries(HARDWARE_FIELDS).map(possible)

COMMON_HARDWARE_FIELDS = {
    **HARDWARE_FIELDS,
    **{name: st.just(value) for name, value in cores.USUAL_OPTIONS.items()},
    "lat_min": st.one_of(st.integers(1, 30), st.sampled_from([1000, 1023, 1024, 3000])),
    "sched": st.sampled_from(["random", "random", "fifo", "lrr", "lrr", "gto", "oldest", "gty"]),
    "stores": st.sampled_from(["free", "allocate", "update", "through", "evict"]),
}


def common(options: dict[str, Any]) -> dict[str, Any]:
    """Return options of the definition `hardware` that the fast cores have."""
    if options["sched"] not in cores.LISTED:
        return options
    return {**options, **cores.LISTED_OPTIONS, "stores": None if options["stores"] == "evict" else options["stores"]}


COMMON_HARDWARE = st.fixed_dictionaries(COMMON_HARDWARE_FIELDS).map(common)
