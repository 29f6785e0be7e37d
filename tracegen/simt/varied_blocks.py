"""Divide the program of a batch whose blocks do not all execute the same instructions.

A block without an active lane does not execute an instruction, and runs on its own as if that were not there. So the
program of a batch is divided by what blocks execute: those that execute the same share a program, without the rest.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import Program, Segment
from tracegen.simt.recorder import MAX_STRAIGHT_INSTRUCTIONS, Variation, shared_columns

Variations = Mapping[int, Variation]
"""The variations of the segments of a program, by their numbers; the other segments have none."""


def alike_blocks(variations: Variations) -> list[NDArray[np.int64]]:
    """Return the blocks of a batch, as groups of those that execute the same instructions, ascending in each."""
    parts: list[NDArray[np.int64]] = []
    for variation in variations.values():
        executed = variation.present.astype(np.int64)
        parts += [executed, executed * variation.gaps, executed * variation.exits]
    rows = np.concatenate(parts, axis=1)
    groups: dict[bytes, list[int]] = {}
    for block, row in enumerate(rows):
        groups.setdefault(row.tobytes(), []).append(block)
    return [np.array(group, dtype=np.int64) for group in groups.values()]


def program_of(whole: Program, variations: Variations, group: NDArray[np.int64], warps: int) -> list[Segment]:
    """Return the program of a batch of the blocks of a `group`, which are alike and have `warps` warps each."""
    rows = (group[:, None] * warps + np.arange(warps)).ravel()
    program: list[Segment] = []
    for number, segment in enumerate(whole):
        variation = variations.get(number)
        if variation is None:
            program.append(segment.with_lanes(segment.base[rows], segment.needs[rows], segment.mask[rows]))
            continue
        kept = np.flatnonzero(variation.present[group[0]])
        # Straight code of a block on its own is cut into segments of this many instructions.
        step = MAX_STRAIGHT_INSTRUCTIONS if variation.straight else max(1, len(kept))
        parts = (kept[first : first + step] for first in range(0, len(kept), step))
        program.extend(_cut(segment, variation, group[0], rows, part) for part in parts)
    return program


def _cut(
    segment: Segment, variation: Variation, block: int, rows: NDArray[np.int64], kept: NDArray[np.int64]
) -> Segment:
    """Return some rows and instructions of a segment, with the gaps and exits of a block."""
    cache_ops = np.zeros(len(segment.op), np.uint8) if segment.cache_op is None else segment.cache_op
    columns = (
        segment.pc, segment.op, segment.space, segment.size, variation.gaps[block], variation.exits[block],
        segment.step, cache_ops,
    )  # fmt: skip
    key = tuple(zip(*(column[kept].tolist() for column in columns), strict=True))
    return Segment(
        trips=segment.trips,
        needs=segment.needs[np.ix_(rows, kept)],
        mask=segment.mask[np.ix_(rows, kept)],
        base=segment.base[np.ix_(rows, kept)],
        **shared_columns(key),
    )
