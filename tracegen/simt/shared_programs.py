"""Find the blocks of a batch that differ in their addresses only, and let them share a program."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import Program
from rdmodel.trace.moved import MovedProgram, SharedProgram
from tracegen.simt._block_moves import find_moves
from tracegen.simt.varied_blocks import Variations, alike_blocks, program_of

MAX_SHARED = 6
"""Programs that are kept: those of blocks inside a grid, and at some of its edges."""

MAX_NEW_PER_BATCH = 2
"""Blocks of a batch that are tried as a shared program."""

TRIED_PLACE = 0.618
"""Place of the block of a batch that is tried: inside of a row of blocks, if the length of that is a power of two."""

MAX_VAIN_BATCHES = 3
"""Batches of at least `TELLING_BATCH` blocks, none of which shares a program, after which none are looked for."""

TELLING_BATCH = 8
"""Blocks of a batch from which on it counts that none shares a program: a few may all lie at edges of the grid."""


class SharedPrograms:
    """The programs of earlier batches, which blocks of later ones may share.

    Two blocks share a program if every instruction has the same lanes, needs and iterations in both, and the addresses
    of all lanes and warps differ by the same number of bytes.
    """

    def __init__(self) -> None:
        self._kept: list[SharedProgram] = []
        self._vain = 0

    def split(self, whole: Program, blocks: int, warps: int, variations: Variations) -> list[Program]:
        """Split the program of a batch into those of its blocks, which have `warps` warps each."""
        if not variations:
            return self._split_alike(whole, blocks, warps)
        found: list[Program] = [[] for _ in range(blocks)]
        for group in alike_blocks(variations):
            program = program_of(whole, variations, group, warps)
            for block, own in zip(group.tolist(), self._split_alike(program, len(group), warps), strict=True):
                found[block] = own
        return found

    def _split_alike(self, whole: Program, blocks: int, warps: int) -> list[Program]:
        """Split the program of a batch whose blocks execute the same instructions."""
        programs: list[Program | None] = [None] * blocks
        left = np.arange(blocks)
        if self._vain < MAX_VAIN_BATCHES:
            for shared in self._kept:
                left = _share(whole, shared, left, programs)
            for _ in range(MAX_NEW_PER_BATCH):
                left = self._share_new(whole, left, warps, programs)
            if blocks >= TELLING_BATCH:
                self._vain = 0 if len(left) < blocks else self._vain + 1
        return [_take_block(whole, at, warps) if program is None else program for at, program in enumerate(programs)]

    def _share_new(
        self, whole: Program, left: NDArray[np.int64], warps: int, programs: list[Program | None]
    ) -> NDArray[np.int64]:
        """Try one of the blocks that are `left`; keep its program if another block shares it."""
        if len(left) < 2:
            return left
        tried = int(left[int(TRIED_PLACE * len(left))])
        shared = SharedProgram(_take_block(whole, tried, warps))
        rest = _share(whole, shared, left, programs)
        if len(rest) == len(left) - 1:
            programs[tried] = None
            return left
        self._kept = [shared, *self._kept[: MAX_SHARED - 1]]
        return rest


def _share(
    whole: Program, shared: SharedProgram, left: NDArray[np.int64], programs: list[Program | None]
) -> NDArray[np.int64]:
    """Let those of the blocks `left` that can share a program do so; return the others."""
    if len(whole) != len(shared.segments):
        return left
    pairs = list(zip(whole, shared.segments, strict=True))
    # Segments with equal bodies have the same columns (`tracegen.simt.recorder.shared_columns`).
    if any(a.pc is not b.pc or a.op is not b.op or a.trips != b.trips for a, b in pairs):
        return left
    places, alike = np.arange(len(left)), left
    for segment, other in pairs:
        for mine, wanted in ((segment.mask, other.mask), (segment.needs, other.needs)):
            same = (mine.reshape(-1, *wanted.shape)[alike] == wanted).all(axis=(1, 2))
            places, alike = places[same], alike[same]
    fits = np.ones(len(alike), np.uint8)
    moves = [np.empty((len(alike), 0), np.int64)]
    for segment, other in pairs:
        moves.append(np.empty((len(alike), len(other.pc)), np.int64))
        find_moves(segment.base, other.base, alike, moves[-1], fits)
    moved, fitting = np.concatenate(moves, axis=1), fits.view(np.bool_)
    for place in np.flatnonzero(fitting).tolist():
        programs[int(alike[place])] = MovedProgram(shared, moved[place])
    kept = np.ones(len(left), np.bool_)
    kept[places[fitting]] = False
    return left[kept]


def _take_block(whole: Program, at: int, warps: int) -> Program:
    """Copy the program of the block at position `at` out of the program of a batch, so that the batch can be freed."""
    rows = slice(at * warps, (at + 1) * warps)
    return [s.with_lanes(s.base[rows].copy(), s.needs[rows].copy(), s.mask[rows].copy()) for s in whole]
