"""Programs that blocks share at different addresses: equal to the same programs with their addresses written out."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel.model.late_blocks import cut_block
from rdmodel.timing import launch_time
from rdmodel.trace import WARP, Columns, Program, Segment, Trace
from rdmodel.trace.caching import CachedTrace, fingerprint
from rdmodel.trace.coalescing import Chunk, StoreRule, WarpStream, open_block, reread_warps
from rdmodel.trace.derived import DerivedTrace
from rdmodel.trace.moved import MovedProgram, SharedProgram, move_program
from rdmodel.trace.trace import ShortenedBlocks
from tests.support.coalescing_inputs import LINE_SIZES, REQUEST_BYTES, RULES, drain, segments
from tests.support.examples import examples

WARPS = 2
MOVES = st.sampled_from([0, 4, 64, 100, 128, 4096, 1 << 36])


@st.composite
def moved_programs(draw: st.DrawFn) -> tuple[MovedProgram, list[Segment]]:
    """Return a moved program, and its segments with their addresses written out by hand."""
    program = draw(st.lists(segments(warps=WARPS), max_size=3))
    trips = draw(st.lists(st.integers(0, 5), min_size=len(program), max_size=len(program)))
    written, moves = [], []
    for segment, n in zip(program, trips, strict=True):
        own = draw(st.lists(MOVES, min_size=len(segment.pc), max_size=len(segment.pc)))
        moves += own
        if n:
            shift = np.array(own, np.int64).reshape(1, -1, 1)
            written.append(dataclasses.replace(segment, trips=n, base=segment.base + shift))
    moved = MovedProgram(SharedProgram(program), np.array(moves, np.int64), np.array(trips, np.int64))
    return moved, written


def equal(a: Segment, b: Segment) -> bool:
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(Segment))


@examples(100)
@given(moved_programs())
def test_as_a_sequence_it_is_the_segments_with_their_addresses_written_out(program):
    moved, written = program
    assert len(moved) == len(written)
    for found in (list(moved), moved[:], [moved[i] for i in range(len(moved))], pickle.loads(pickle.dumps(moved))):
        assert all(equal(a, b) for a, b in zip(found, written, strict=True))


@examples(150)
@given(
    moved_programs(),
    st.lists(st.tuples(LINE_SIZES, RULES, REQUEST_BYTES, st.sampled_from([None, 1, 32])), min_size=1, max_size=7),
    st.integers(1, 4),
)
def test_streams_read_it_as_if_its_addresses_were_written_out(program, readings, instructions):
    moved, written = program
    # Plans are kept of the first few readings only, and every reading is repeated.
    for line, rule, request_bytes, sector in [*readings, *readings]:
        room = WARP * (16 // line + 2)
        sector = None if sector is None or line > 32 * sector else min(sector, line)
        chunk = Chunk(instructions, room, details=True, sector=sector, full=sector is not None)
        for warp in range(WARPS):
            found, wanted = (WarpStream(p, warp, line, rule, None, request_bytes) for p in (moved, written))
            assert requests(found, chunk) == requests(wanted, chunk)


def requests(stream: WarpStream, chunk: Chunk) -> list[tuple[object, ...]]:
    """Return all that a stream writes, with the masks of sectors."""
    if not len(chunk.masks):
        return list(drain(stream, chunk))
    found: list[tuple[object, ...]] = []
    more = True
    while more:
        more = stream.fill(chunk)
        rows = (getattr(chunk, name)[: chunk.n].tolist() for name in ("op", "needs", "gap", "count", "pc", "flags"))
        lines = (getattr(chunk, name)[: chunk.used].tolist() for name in ("lines", "masks", "full"))
        found += [*zip(*rows, strict=True), *zip(*lines, strict=True)]
    return found


@examples(100)
@given(moved_programs().filter(lambda program: program[0].shared.segments), MOVES, st.integers(0, 3), st.integers(1, 4))
def test_streams_begin_another_block_of_their_program_as_new_ones_do(program, move, read, instructions):
    moved, _ = program
    other = moved.cut(np.minimum(moved.trips, 2), np.full(len(moved.moves), move, np.int64))
    chunk = Chunk(instructions, 64, details=True)
    streams = WarpStream(moved, 0, 128, StoreRule.MACHINE).of_warps(WARPS)
    for stream in streams:
        for _ in range(read):
            stream.fill(chunk)
    assert reread_warps(streams, other)
    for warp, stream in enumerate(streams):
        assert list(drain(stream, chunk)) == list(drain(WarpStream(other, warp, 128, StoreRule.MACHINE), chunk))


def test_streams_of_one_program_do_not_begin_a_block_of_another():
    def program() -> MovedProgram:
        return move_program(list(tracegen.kernel("gemm").block(0)), np.zeros(1000, np.int64))

    first, second = program(), program()
    streams = WarpStream(first, 0, 128, StoreRule.MACHINE).of_warps(2)
    assert reread_warps(streams, first)
    assert not reread_warps(streams, second)
    assert not reread_warps(streams, list(first))
    assert not reread_warps(WarpStream(list(first), 0, 128, StoreRule.MACHINE).of_warps(2), first)


@examples(60)
@given(moved_programs(), st.data())
def test_moves_add_up(program, data):
    moved, _ = program
    further = np.array(data.draw(st.lists(MOVES, min_size=len(moved.moves), max_size=len(moved.moves))), np.int64)
    assert np.array_equal(moved.moved(further).moves, moved.moves + further)
    assert moved.moved(further).shared is moved.shared


# ---- blocks of loop nests


class WrittenOut(DerivedTrace):
    """A trace whose blocks are lists of segments, with all addresses written out."""

    def __init__(self, trace: Trace) -> None:
        self.launch, self.blocks, self.original = trace.launch, trace.blocks, trace

    def __getattribute__(self, name: str) -> Any:
        """Leave all other questions to the original."""
        own = name in ("block", "original", "launch", "blocks", "shortened", "__class__")
        return object.__getattribute__(self, name) if own else getattr(self.original, name)

    def block(self, block: int) -> Columns | Program:
        """Return the segments of a block."""
        return list(self.original.block(block))

    def shortened(self, share: float) -> ShortenedBlocks | None:
        """Return functions that make the segments of shortened blocks."""
        functions = self.original.shortened(share)
        if functions is None:
            return None
        make, left = functions
        return lambda block, start: list(make(block, start)), left


def kernels() -> list[Trace]:
    # Guards at the edges of the grid, blocks that all execute the same, and loops around others.
    return [
        tracegen.affine_kernel("2dconv", NI=100, NJ=130),
        tracegen.affine_kernel("syrk", N=96, M=100),
        tracegen.affine_kernel("mvt.2", N=600),
        tracegen.kernel("gemm.tiled", NI=70, NJ=96, NK=64, TI=8, TJ=32),
    ]


@pytest.mark.parametrize("number", range(len(kernels())))
def test_blocks_of_a_nest_are_read_as_if_their_addresses_were_written_out(number):
    trace, chunk = kernels()[number], Chunk(details=True)
    shared = {id(b.shared) for b in map(trace.block, trace.blocks) if isinstance(b, MovedProgram)}
    assert 0 < len(shared) < trace.launch.blocks
    for block in trace.blocks:
        found, wanted = (open_block(t, block, 128, StoreRule.LINES) for t in (trace, WrittenOut(trace)))
        assert [drain(s, chunk) for s in found] == [drain(s, chunk) for s in wanted]


@pytest.mark.parametrize("number", range(len(kernels())))
def test_estimates_of_a_nest_are_those_of_its_blocks_written_out(number):
    trace = kernels()[number]
    found, wanted = (rd.estimate(t, "gtx470-16k", l2=True, work=3000) for t in (trace, WrittenOut(trace)))
    assert found.estimates == wanted.estimates
    assert found.per_sm == wanted.per_sm


@pytest.mark.parametrize("number", range(len(kernels())))
def test_the_time_of_a_nest_is_that_of_its_blocks_written_out(number):
    trace, gpu = kernels()[number], rd.presets.gpu("a100-80g")
    found, wanted = (launch_time.count_sampled_blocks(t, gpu) for t in (trace, WrittenOut(trace)))
    assert found == wanted
    assert rd.time(trace, gpu) == rd.time(WrittenOut(trace), gpu)


@pytest.mark.parametrize(("first", "last"), [(0.0, 0.4), (0.3, 1.0), (0.25, 0.75), (1.0, 1.0)])
def test_a_part_of_a_block_is_that_of_the_block_written_out(first, last):
    for trace in kernels():
        block = trace.block(trace.launch.blocks // 2)
        found, wanted = cut_block(block, first, last), cut_block(list(block), first, last)
        assert all(equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_it_moves_with_offsets_by_instruction():
    block = tracegen.affine_kernel("gemm", NI=32, NJ=64, NK=8).block(1)
    offsets = 128 * np.arange(1, 10)
    found, wanted = move_program(block, offsets), move_program(list(block), offsets)
    assert isinstance(block, MovedProgram)
    for a, b, segment in zip(found, wanted, block, strict=True):
        assert equal(a, b)
        assert np.array_equal(a.base, segment.base + offsets[segment.pc][:, None])


def test_a_cache_of_blocks_counts_what_they_share_once():
    trace = tracegen.affine_kernel("gemm", NI=64, NJ=64, NK=8)
    first = trace.block(0)
    assert isinstance(first, MovedProgram)
    room = first.shared.nbytes + 3 * first.nbytes
    cached = CachedTrace(trace, max_bytes=room)
    kept = [cached.block(b) is cached.block(b) for b in range(5)]
    assert kept == [True, True, True, False, False]


def test_the_fingerprint_is_that_of_the_blocks_written_out():
    trace = tracegen.affine_kernel("gemm", NI=64, NJ=64, NK=8)
    assert fingerprint(trace, range(4)) == fingerprint(WrittenOut(trace), range(4))
