"""The units of constant memory that blocks read, against plain Python that looks at every lane."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.trace import ArrayInfo, Columns, Launch, Op, Segment, Space
from rdmodel.trace.constants import ConstantReads
from rdmodel.trace.moved import MovedProgram, SharedProgram
from tests.support.examples import examples

LAUNCH = Launch(kernel="rows", grid=(1, 1, 1), block=(64, 1, 1))
WARPS = 2
ARRAYS = (ArrayInfo("table", 1024, 512), ArrayInfo("x", 8192, 4096))
UNITS = st.sampled_from([32, 64, 256])
SPACES = st.sampled_from([Space.GLOBAL, Space.CONSTANT, Space.TEXTURE])

Access = tuple[int, int]
"""Address and bytes of the access of a lane to constant memory."""


def units_of(accesses: list[Access], unit: int, arrays: tuple[ArrayInfo, ...] = ()) -> set[int]:
    """Return the units with a byte of an access that begins in an array, if there are arrays."""
    found = set()
    for address, size in accesses:
        if not arrays or any(a.base <= address < a.base + a.bytes for a in arrays):
            found |= {byte // unit for byte in range(address, address + size)}
    return found


def make_segment(body: list[tuple[Space, int, int]], trips: int, base, mask) -> Segment:
    """Return a segment of instructions (space, size, step)."""
    n, spaces = len(body), np.array([space for space, _, _ in body], np.uint8)
    return Segment(
        trips=trips, pc=np.arange(n, dtype=np.int32), op=np.full(n, int(Op.LOAD), np.uint8), space=spaces,
        size=np.array([size for _, size, _ in body], np.uint8), gap=np.zeros(n, np.int32),
        loop_exit=np.zeros(n, np.bool_), needs=np.zeros((WARPS, n), np.uint64), mask=mask, base=base,
        step=np.array([step for *_, step in body], np.int64),
    )  # fmt: skip


@st.composite
def segments(draw: st.DrawFn) -> tuple[Segment, list[Access]]:
    """Return a segment, and its accesses to constant memory."""
    steps = st.sampled_from([-512, -48, -4, 0, 4, 12, 256, 300])
    body = draw(st.lists(st.tuples(SPACES, st.sampled_from([1, 4, 16]), steps), min_size=1, max_size=3))
    trips = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    base = rng.integers(4096, 4096 + draw(st.sampled_from([1, 64, 4096])), (WARPS, len(body), 32))
    mask = rng.integers(0, 1 << 32, (WARPS, len(body)), np.uint32)
    accesses = [
        (int(base[w, i, lane]) + t * step, size)
        for i, (space, size, step) in enumerate(body)
        if space == Space.CONSTANT
        for w in range(WARPS)
        for lane in range(32)
        if mask[w, i] >> lane & 1
        for t in range(trips)
    ]
    return make_segment(body, trips, base, mask), accesses


@examples(100)
@given(st.lists(segments(), max_size=3), UNITS, st.integers(0, 3).map(lambda n: 128 * n))
def test_every_unit_that_a_program_reads_is_found(found, unit, move):
    program = [segment for segment, _ in found]
    accesses = [access for _, some in found for access in some]
    reads = ConstantReads(LAUNCH, unit)
    reads.add(program, 0, WARPS)
    assert reads.numbers == units_of(accesses, unit)
    shared = SharedProgram(program)
    reads = ConstantReads(LAUNCH, unit)
    reads.add(MovedProgram(shared, np.full(len(shared.pc), move)), 0, WARPS)
    reads.add(MovedProgram(shared, np.zeros(len(shared.pc), np.int64)), 0, WARPS)
    moved = [(address + move, size) for address, size in accesses]
    assert reads.numbers == units_of(accesses + moved, unit)


def make_columns(rows: list[tuple[Space, int, list[int]]], ends: list[int]) -> Columns:
    """Return rows (space, size, addresses of the lanes) of warps that end behind the rows `ends`."""
    n, lanes = len(rows), [len(places) for *_, places in rows]
    return Columns(
        warp_start=[0, *ends], pc=range(n), op=[int(Op.LOAD)] * n, space=[int(space) for space, _, _ in rows],
        size=[size for _, size, _ in rows], gap=[0] * n, needs=[0] * n, loop_exit=[False] * n,
        mask=[(1 << count) - 1 for count in lanes], address_start=np.cumsum([0, *lanes]),
        addresses=np.array([place for *_, places in rows for place in places], np.int64),
    )  # fmt: skip


ROWS = st.lists(
    st.tuples(SPACES, st.sampled_from([1, 4, 16]), st.lists(st.integers(900, 9000), min_size=1, max_size=32)),
    max_size=8,
)


@examples(100)
@given(ROWS, ROWS, UNITS, st.booleans())
def test_columns_have_the_units_of_the_wanted_warps_that_lie_in_arrays(before, rows, unit, named):
    arrays = ARRAYS if named else ()
    launch = Launch(kernel="rows", grid=(1, 1, 1), block=(32, 1, 1), arrays=arrays)
    reads = ConstantReads(launch, unit)
    reads.add(make_columns(before + rows, [len(before), len(before) + len(rows)]), 1, 1)
    accesses = [(place, size) for space, size, places in rows if space == Space.CONSTANT for place in places]
    assert reads.numbers == units_of(accesses, unit, arrays)


def test_a_long_loop_over_few_bytes_takes_no_time():
    mask, base = np.full((WARPS, 1), 1, np.uint32), np.full((WARPS, 1, 32), 4096)
    reads = ConstantReads(LAUNCH, 256)
    reads.add([make_segment([(Space.CONSTANT, 4, 0)], 1 << 40, base, mask)], 0, WARPS)
    assert reads.numbers == {16}
