"""Check the pieces of memory that blocks read and write against sets of all lanes."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from rdmodel.timing import footprints
from rdmodel.timing.footprints import Footprint, Footprints
from rdmodel.trace import Columns, Op, Space, Trace
from rdmodel.trace.expansion import expand
from tests.support.examples import examples
from tests.support.random_traces import column_traces, program_traces

UNITS = st.sampled_from([32, 64, 128])


def naive(trace: Trace, block: int, unit: int) -> Footprint:
    """Return the footprint of a block, found one lane after the other."""
    content = trace.block(block)
    columns = content if isinstance(content, Columns) else expand(content, trace.launch.block_warps)
    firsts: dict[int, int] = {}
    lasts: dict[int, int] = {}
    writes: set[int] = set()
    for warp in range(columns.warps):
        first, last = columns.warp_start[warp : warp + 2].tolist()
        for row in range(first, last):
            if columns.space[row] not in (Space.GLOBAL, Space.TEXTURE):
                continue
            for lane in range(columns.address_start[row], columns.address_start[row + 1]):
                address, size = int(columns.addresses[lane]), int(columns.size[row])
                whole = columns.space[row] == Space.GLOBAL
                for piece in range(address // unit, (address + (size if whole else 1) - 1) // unit + 1):
                    if columns.op[row] != Op.STORE:
                        firsts[piece] = min(firsts.get(piece, row - first), row - first)
                        lasts[piece] = max(lasts.get(piece, 0), row - first)
                    if columns.op[row] != Op.LOAD:
                        writes.add(piece)
    reads = sorted(firsts)
    places = (np.array([found[piece] for piece in reads]) for found in (firsts, lasts))
    return Footprint(np.array(reads), np.array(sorted(writes)), *places)


def assert_as_naive(trace: Trace, unit: int) -> None:
    found = Footprints(trace, unit)
    for block in trace.blocks:
        for name, got, want in zip(Footprint._fields, found.of(block), naive(trace, block, unit), strict=True):
            assert got.tolist() == want.tolist(), name


def below_the_end(trace: Trace) -> bool:
    """Return whether no access goes beyond the last address."""
    return len(trace.columns.addresses) == 0 or int(trace.columns.addresses.max()) < 1 << 62


@examples(100)
@given(column_traces().filter(below_the_end), UNITS)
def test_footprints_of_columns_are_those_of_all_lanes(trace, unit):
    assert_as_naive(trace, unit)


@examples(60)
@given(program_traces(), UNITS)
def test_so_are_those_of_programs(trace, unit):
    assert_as_naive(trace, unit)


@examples(60)
@given(program_traces(), UNITS, st.integers(1, 40))
def test_footprints_do_not_depend_on_how_much_is_read_at_a_time(trace, unit, most):
    names = ("MANY_PIECES", "MOST_PENDING", "INSTRUCTIONS_AT_A_TIME")
    with patch.multiple(footprints, **dict.fromkeys(names, most)):
        assert_as_naive(trace, unit)


@pytest.mark.parametrize("name", ["gemm", "atax.1", "corr.reduce", "2dconv"])
def test_footprints_of_kernels_are_those_of_all_lanes(name):
    sizes = {
        "gemm": {"NI": 64, "NJ": 64, "NK": 40},
        "atax.1": {"NX": 256, "NY": 100},
        "corr.reduce": {"M": 64, "N": 64},
        "2dconv": {"NI": 64, "NJ": 64},
    }
    trace = tracegen.kernel(name, **sizes[name])
    for block in (0, trace.launch.blocks - 1):
        assert Footprints(trace, 32).of(block)[0].tolist() == naive(trace, block, 32)[0].tolist()


def test_loads_of_textures_are_reads():
    columns = tracegen.kernel("gemm", NI=32, NJ=32, NK=4).columns
    spaces = np.where(columns.op == int(Op.LOAD), int(Space.TEXTURE), columns.space)
    textured = type(columns)(**{name: getattr(columns, name) for name in columns.__slots__} | {"space": spaces})
    trace = Trace(tracegen.kernel("gemm", NI=32, NJ=32, NK=4).launch, textured)
    assert_as_naive(trace, 32)
    assert len(Footprints(trace, 32).of(0).reads) > 0


def test_a_long_block_takes_memory_for_its_distinct_pieces_only():
    trace = tracegen.kernel("atax.1", NX=32, NY=1000)
    with patch.object(footprints, "MOST_PENDING", 500):
        found = Footprints(trace, 32).of(0)
    assert len(found.reads) == len(naive(trace, 0, 32).reads)


def test_pieces_that_another_block_reads_are_counted():
    trace = tracegen.kernel("gemm", NI=64, NJ=64, NK=16)
    found = Footprints(trace, 32)
    own = found.of(0).reads
    assert found.held(own, 0) == len(own)
    assert found.held(own, -1) == 0
    assert 0 < found.held(own, 1) < len(own)
