"""Blocks without their beginnings or ends."""

from __future__ import annotations

import numpy as np
import pytest

import tracegen
from rdmodel.model.late_blocks import LateBlocks, cut_block
from rdmodel.trace import Trace
from rdmodel.trace.coalescing import Chunk, StoreRule, WarpStream
from rdmodel.trace.expansion import expand


def lines_of(content: object, warp: int) -> list[int]:
    """Return the lines that a warp requests, in order."""
    chunk, stream, lines, more = Chunk(), WarpStream(content, warp, 128, StoreRule.LINES), [], True
    while more:
        more = stream.fill(chunk)
        lines += chunk.lines[: chunk.used].tolist()
    return lines


def gemm() -> Trace:
    return tracegen.kernel("gemm", NI=32, NJ=64, NK=40)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.99, 1.0])
def test_two_parts_of_a_block_make_up_the_whole_block(share):
    whole = gemm().block(1)
    begin, end = cut_block(whole, 0.0, share), cut_block(whole, share, 1.0)
    for warp in range(8):
        assert lines_of(begin, warp) + lines_of(end, warp) == lines_of(whole, warp)


def test_warps_can_begin_at_different_places():
    whole = gemm().block(1)
    shares = np.linspace(0.0, 1.0, 8)
    cut = cut_block(whole, shares, 1.0)
    for warp, share in enumerate(shares):
        lines, left = lines_of(whole, warp), lines_of(cut, warp)
        assert left == lines[len(lines) - len(left) :]
        assert len(left) == pytest.approx((1 - share) * len(lines), abs=4)


def test_a_block_in_columns_is_cut_by_warp():
    columns = expand(gemm().block(1), 8)
    cut = cut_block(columns, np.linspace(0.0, 0.7, 8), 1.0)
    for warp, share in enumerate(np.linspace(0.0, 0.7, 8)):
        lines, left = lines_of(columns, warp), lines_of(cut, warp)
        assert left == lines[len(lines) - len(left) :]
        assert len(left) == pytest.approx((1 - share) * len(lines), abs=4)


def test_only_blocks_with_a_part_are_cut():
    trace = LateBlocks(gemm(), {1: (0.5, 1.0)})
    assert lines_of(trace.block(0), 0) == lines_of(gemm().block(0), 0)
    assert len(lines_of(trace.block(1), 0)) < len(lines_of(gemm().block(1), 0))
