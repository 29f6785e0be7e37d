"""Draw random programs by lane address and GPUs with sectored lines, and coalesce them for the reference."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from rdmodel import predict
from rdmodel.gpu.config import GPU, CacheConfig
from rdmodel.model.options import STORES_IN_PLACE, Options
from rdmodel.reference import Instruction
from rdmodel.results.prediction import Prediction
from rdmodel.trace import WARP, Columns, Launch, Op, Space, Trace
from rdmodel.trace.cache_ops import CACHE_OP_NAMES
from tests.support.builders import make_gpu
from tests.support.plain_coalescing import Row, lines_of_groups, sector_masks
from tests.support.random_predictions import (
    HARDWARE_FIELDS,
    INDEXES,
    NEEDS,
    OPS,
    assert_counts_equal,
    expected,
    geometries,
    possible,
)

LINE = 128
POOL = 24 * LINE
"""Bytes that the programs access: more than most of the drawn caches hold."""

Program = list[list[list[Row]]]
"""Rows by block and warp."""


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """Return an instruction whose lanes are a stride apart, forwards or backwards, from anywhere in the pool."""
    size = draw(st.sampled_from([4, 4, 4, 8, 16, 1]))
    stride = draw(st.sampled_from([size, size, 0, 4, 12, 32, 36, 128, 160]))
    lanes = draw(st.sampled_from([WARP, WARP, 8, 3, 1]))
    first = draw(st.integers(0, POOL // 4)) * 4
    if draw(st.integers(0, 5)) == 0:
        return {"op": int(Op.BARRIER), "needs": draw(NEEDS), "gap": draw(st.integers(0, 3)), "size": 4, "lanes": {}}
    return {
        "op": int(draw(OPS)),
        "needs": draw(NEEDS),
        "gap": draw(st.integers(0, 3)),
        "size": size,
        "lanes": {lane: (first + stride * lane) % POOL for lane in range(lanes)},
    }


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Return up to five blocks of one to three warps with up to six instructions each."""
    warps = draw(st.integers(1, 3))
    block = st.lists(st.lists(rows(), max_size=6), min_size=warps, max_size=warps)
    return draw(st.lists(block, min_size=1, max_size=5))


@st.composite
def programs_with_operators(draw: st.DrawFn) -> Program:
    """Return a program whose instructions have any cache operators, and some of which access local memory."""
    spaces = st.sampled_from([Space.GLOBAL, Space.GLOBAL, Space.LOCAL])
    operators = st.one_of(st.just(0), st.sampled_from(sorted(CACHE_OP_NAMES)))
    return [
        [[{**row, "space": int(draw(spaces)), "cache_op": draw(operators)} for row in warp] for warp in block]
        for block in draw(programs())
    ]


@st.composite
def loads_only(draw: st.DrawFn) -> Program:
    """Return a program without stores."""
    return [
        [[{**row, "op": int(Op.LOAD)} for row in warp if row["op"] != Op.BARRIER] for warp in block]
        for block in draw(programs())
    ]


@st.composite
def machines(draw: st.DrawFn) -> GPU:
    """Return a GPU with few ways and MSHRs, lines of one to sixteen sectors, and any tag stage."""
    ways = draw(st.integers(1, 4))
    sets = draw(st.sampled_from([1, 4]))
    limit = st.one_of(st.none(), st.integers(1, 4))
    gpu = make_gpu(
        **draw(geometries(ways, sets)),
        index=draw(INDEXES) if sets > 1 else make_gpu().l1.index,
        mshrs=draw(limit),
        mshr_merge=draw(limit),
        mshr_per_warp=draw(limit),
        sector=draw(st.sampled_from([32, 32, 32, 128, 64, 8])),
        request_bytes=draw(st.sampled_from([128, 32])),
        tags_per_step=draw(st.sampled_from([1, 4])),
        stores=draw(st.sampled_from(["free", "update", "through", "through"])),
    )
    return gpu.replace(max_blocks=draw(st.integers(1, 3)), sms=draw(st.integers(1, 3)))


OPTIONS = st.fixed_dictionaries(
    {**HARDWARE_FIELDS, "stores": st.sampled_from([None, None, None, "free", "step", "evict", "allocate", "through"])}
).map(possible)
"""Options of the definition `hardware`; most of them leave the treatment of stores to the GPU."""


def make_trace(program: Program) -> Trace:
    """Return the trace of a program."""
    warps = [warp for block in program for warp in block]
    flat = [row for warp in warps for row in warp]
    columns = Columns(
        warp_start=np.cumsum([0, *map(len, warps)]),
        pc=[row.get("pc", 0) for row in flat],
        op=[row["op"] for row in flat],
        space=[row.get("space", Space.GLOBAL) for row in flat],
        size=[row["size"] for row in flat],
        gap=[row["gap"] for row in flat],
        needs=np.array([row["needs"] for row in flat], np.uint64),
        loop_exit=np.zeros(len(flat)),
        mask=[sum(1 << lane for lane in row["lanes"]) for row in flat],
        address_start=np.cumsum([0, *(len(row["lanes"]) for row in flat)]),
        addresses=[row["lanes"][lane] for row in flat for lane in sorted(row["lanes"])],
        cache_op=[row.get("cache_op", 0) for row in flat] if any("cache_op" in row for row in flat) else None,
    )
    launch = Launch(kernel="random", grid=(len(program), 1, 1), block=(len(program[0]) * WARP, 1, 1))
    return Trace(launch, columns)


PAST_L1 = {"cg", "cv", "volatile", "no_allocate", "async.cg", "bulk"}
"""Operators of loads that do not look into the L1, by their names without ``nc``."""


def goes_past(row: Row, l1: CacheConfig) -> bool:
    """Return whether a load does not look into the L1."""
    parts = CACHE_OP_NAMES.get(row.get("cache_op", 0), "").split(".")
    kind = "local" if row.get("space") == Space.LOCAL else "nc" if parts[0] == "nc" else "global"
    operator = ".".join(part for part in parts if part != "nc")
    if kind == "global" and not operator:
        operator = l1.dlcm or ""
    if operator == "tex":
        return l1.sectors == 1 or "nc" not in l1.caches
    if operator in PAST_L1:
        return True
    return kind not in l1.caches and not (kind == "global" and operator in ("ca", "async.ca"))


def coalesced(program: Program, l1: CacheConfig, options: Options, full: bool = False) -> list[list[list[Instruction]]]:
    """Return the program as the reference executes it.

    Which sectors stores write in full is said with `full` or if they write in place under the resolved `options`.
    """

    def instruction(row: Row) -> Instruction:
        if row["op"] == Op.BARRIER:
            return Instruction(row["op"], row["needs"], row["gap"], ())
        lines = [line for group in lines_of_groups(row, l1.line, l1.request_bytes) for line in group]
        asked, whole = zip(*sector_masks(row, l1.line, l1.sector_bytes, l1.request_bytes), strict=True)
        known = (full or options.stores in STORES_IN_PLACE) and row["op"] != Op.LOAD
        full_masks = whole if known else (0,) * len(lines)
        past = goes_past(row, l1)
        return Instruction(row["op"], row["needs"], row["gap"], tuple(lines), asked, full_masks, past, row.get("pc", 0))

    return [[[instruction(row) for row in warp] for warp in block] for block in program]


def check_prediction(program: Program, gpu: GPU, seed: int, **given: object) -> Prediction:
    """Return the prediction of a program after comparing all of its counters with those of the reference."""
    trace = make_trace(program)
    options = Options(**given).resolve(gpu)
    want = expected(trace, coalesced(program, gpu.l1, options), gpu, options, seed)
    got = predict(trace, gpu, seed=seed, **given)
    assert_counts_equal(got, want)
    assert got.sectors == got.hits + got.latency_misses + got.misses.total
    return got
