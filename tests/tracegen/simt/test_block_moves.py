"""The addresses of blocks in a batch against those of one block: compiled code and NumPy agree."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tracegen.simt._block_moves import find_moves


def plain_moves(base: NDArray[np.int64], wanted: NDArray[np.int64], block: int) -> tuple[bool, NDArray[np.int64]]:
    """Return whether a block differs by a constant in each instruction, and by which."""
    warps = len(wanted)
    distance = base[block * warps : (block + 1) * warps] - wanted
    moves = distance[0, :, 0]
    return bool((distance == moves[None, :, None]).all()), moves


@st.composite
def batches(draw: st.DrawFn) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the addresses of a batch, those of one block, and the blocks to look at; some blocks differ in a lane."""
    warps, rows, lanes = draw(st.integers(1, 3)), draw(st.integers(0, 3)), draw(st.integers(1, 4))
    blocks = draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    wanted = rng.integers(0, 1 << 40, (warps, rows, lanes))
    moves = rng.integers(-1000, 1000, (blocks, 1, rows, 1))
    base = (wanted[None] + moves).reshape(blocks * warps, rows, lanes)
    for _ in range(draw(st.integers(0, 2)) if rows else 0):
        base[rng.integers(len(base)), rng.integers(rows), rng.integers(lanes)] += draw(
            st.sampled_from([-4, 1, 1 << 40])
        )
    chosen = draw(st.lists(st.integers(0, blocks - 1), unique=True))
    return base, wanted, np.array(sorted(chosen), np.int64)


@given(batches())
def test_blocks_that_are_moved_as_a_whole_are_found_with_their_moves(batch):
    base, wanted, blocks = batch
    moves, fits = np.zeros((len(blocks), wanted.shape[1]), np.int64), np.ones(len(blocks), np.uint8)
    find_moves(base, wanted, blocks, moves, fits)
    for at, block in enumerate(blocks.tolist()):
        expected, by = plain_moves(base, wanted, block)
        assert fits[at] == expected
        assert not expected or moves[at].tolist() == by.tolist()


def test_blocks_that_did_not_fit_before_are_left_alone():
    base = wanted = np.arange(32).reshape(1, 1, 32)
    moves, fits = np.full((1, 1), -7), np.zeros(1, np.uint8)
    find_moves(base, wanted, np.zeros(1, np.int64), moves, fits)
    assert (fits.tolist(), moves.tolist()) == ([0], [[-7]])
