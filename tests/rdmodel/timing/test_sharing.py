"""Check which data blocks are found to share, where their neighbours in the grid do not tell."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
from rdmodel import presets
from rdmodel.gpu.overrides import override
from rdmodel.timing.footprints import Footprint, Footprints
from rdmodel.timing.neighbours import sample_traffic
from rdmodel.timing.sharing import UNDER_WAY, find_sharings, share_in_window
from rdmodel.timing.traffic import traffic_of
from rdmodel.trace import ArrayInfo, Launch
from rdmodel.trace.counting import work_of_block
from tracegen import cuda

UNIT = 64

GROUPED = """.version 8.0 .target sm_80 .address_size 64
.visible .entry product(.param .u64 a, .param .u64 b) {
  .reg .b64 %rd<9>; .reg .b32 %r<19>; .reg .f32 %f<4>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; mov.u32 %r2, %ctaid.x;
  div.u32 %r3, %r2, SIZE; rem.u32 %r4, %r2, SIZE; rem.u32 %r5, %r4, ROWS; div.u32 %r6, %r4, ROWS;
  mad.lo.u32 %r7, %r3, ROWS, %r5; mul.wide.u32 %rd4, %r7, 32768; mul.wide.u32 %rd5, %r6, 32768;
  add.u64 %rd1, %rd1, %rd3; add.u64 %rd1, %rd1, %rd4; add.u64 %rd2, %rd2, %rd3; add.u64 %rd2, %rd2, %rd5;
  mov.u32 %r8, 0;
L: ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd2]; add.f32 %f3, %f1, %f2;
  add.u64 %rd1, %rd1, 1024; add.u64 %rd2, %rd2, 1024; add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, 32; @%p1 bra L; ret;
}"""
"""Block p of a grid in one dimension reads 32 KB of a and 32 KB of b, for one of 32 x 32 tiles: in groups of ROWS rows
of tiles, which are passed column by column."""


@pytest.mark.parametrize("rows", [1, 8, 32])
@pytest.mark.parametrize("l2", ["1M", "384K"])
def test_tiles_in_an_order_of_the_kernels_own_read_as_much_from_dram_as_the_whole_grid_does(rows, l2):
    source = GROUPED.replace("SIZE", str(32 * rows)).replace("ROWS", str(rows))
    trace = cuda.trace(source, "product", 32 * 32, 256, [f"float[{32 * 8192}]:zeros"] * 2)
    gpu = override(presets.gpu("rtx3070"), {"l2.size": l2, "l2.slices": "4"})
    whole = traffic_of(rd.predict(trace, gpu, l2=True, model_sms="all", threads=None))
    work = work_of_block(trace, 0, line=gpu.l1.line, sector=gpu.l1.sector_bytes, request_bytes=gpu.l1.request_bytes)
    found = sample_traffic(trace, gpu, work, 6, {})
    # Blocks read 64 MB in all: without the order of the tiles, half of that would come from DRAM.
    assert whole.dram_bytes < 10e6
    assert found.dram_bytes == pytest.approx(whole.dram_bytes, rel=0.25)


class Made:
    """Footprints that are made up: those of the blocks of a grid in one dimension."""

    def __init__(self, reads, places, array_pieces):
        arrays = (ArrayInfo("data", 0, UNIT * array_pieces),)
        self.unit, self.instructions, self.block_instructions = UNIT, 0, 0
        self.made = set()
        self.trace = SimpleNamespace(
            launch=Launch(kernel="made", grid=(len(reads), 1, 1), block=(32, 1, 1), arrays=arrays)
        )
        self._made = [
            Footprint(np.array(sorted(own), np.int64), np.zeros(1, np.int64), *[np.array(at[: len(own)], np.int64)] * 2)
            for own, at in zip(reads, places, strict=True)
        ]

    held = Footprints.held

    @property
    def known(self):
        return {block: self._made[block] for block in self.made}

    def of(self, block):
        if block not in self.made:
            self.instructions += self.block_instructions
        self.made.add(block)
        return self._made[block]


PIECES = 12


@st.composite
def made_footprints(draw):
    blocks = draw(st.integers(6, 24))
    reads = [draw(st.sets(st.integers(0, PIECES - 1), min_size=3, max_size=8)) for _ in range(blocks)]
    places = [draw(st.lists(st.integers(0, 30), min_size=8, max_size=8)) for _ in range(blocks)]
    return Made(reads, places, PIECES)


@given(made_footprints(), st.integers(2, 24))
def test_shares_in_a_window_are_those_of_a_search_for_the_latest_reader(footprints, concurrent):
    blocks = footprints.trace.launch.blocks
    last = blocks - 1
    sharing = share_in_window(footprints, last, min(concurrent, blocks))
    window = range(max(0, last - min(concurrent, blocks) + 1), last + 1)
    pieces, together = dict[int, int](), dict[int, int]()
    for block in window:
        own = footprints.of(block)
        for piece, place in zip(own.reads.tolist(), own.places.tolist(), strict=True):
            for earlier in range(block - 1, window.start - 1, -1):
                others = footprints.of(earlier)
                if piece in others.reads:
                    lag = block - earlier
                    pieces[lag] = pieces.get(lag, 0) + 1
                    other = others.places[others.reads.tolist().index(piece)]
                    together[lag] = together.get(lag, 0) + (abs(place - other) <= UNDER_WAY)
                    break
    by_lag = {each.lag: each for each in sharing.shared}
    assert by_lag.keys() == pieces.keys()
    for lag, each in by_lag.items():
        assert each.pieces == pytest.approx(pieces[lag] / (len(window) - lag))
        assert each.together == pytest.approx(together[lag] / (len(window) - lag))
    if len(window) >= min(concurrent, blocks):
        distinct = len(set().union(*(footprints.of(block).reads.tolist() for block in window)))
        assert sharing.wave == pytest.approx(distinct + len(window))


def test_blocks_that_read_different_data_need_no_window():
    reads = [set(range(4 * block, 4 * block + 4)) for block in range(200)]
    footprints = Made(reads, [[0] * 4] * 200, 800)
    found = find_sharings(footprints, [70, 120], 100)
    assert [[each[:4] for each in sharing.shared] for sharing in found] == 2 * [[(1, 0, 0, 0)]]
    assert len(footprints.made) == 4


def test_a_window_of_long_blocks_is_short():
    reads = [{block % 7, 7 + block % 11} for block in range(400)]
    footprints = Made(reads, [[0] * 2] * 400, 18)
    footprints.block_instructions = 1 << 16
    for sharing in find_sharings(footprints, [140, 240], 200):
        assert {each.lag for each in sharing.shared} == {7, 11}
        assert sum(each.pieces for each in sharing.shared) == pytest.approx(2)
    assert len(footprints.made) < 30
