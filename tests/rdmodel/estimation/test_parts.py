"""Excerpts that are divided into an early and a late part: what is in which, and that nothing else changes."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from rdmodel.estimation.excerpt import EarlyPart, Excerpt
from rdmodel.estimation.parts import Beginning, find_beginning
from rdmodel.model.late_counts import EARLY, LATE
from rdmodel.trace import Columns, Program, Trace
from rdmodel.trace.expansion import expand
from tests.support.builders import load, make_trace
from tests.support.examples import examples
from tests.support.random_traces import column_traces, program_traces

SHARES = st.sampled_from([0.05, 0.2, 0.5, 0.9])

TILED = {
    "name": "tiled",
    "parameters": {"N": 96, "T": 8},
    "arrays": {"a": ["N", "N"], "b": ["N", "N"], "c": ["N", "N"]},
    "threads": ["N", "N"],
    "block": ["T", "T"],
    "body": [
        {"load": "c", "at": ["y", "x"]},
        {
            "for": "k",
            "to": "N",
            "step": "T",
            "do": [
                {"load": "a", "at": ["y", "k + thread_x"]},
                "barrier",
                {"for": "p", "to": "T", "do": [{"load": "b", "at": ["k + p", "x"]}]},
            ],
        },
        {"store": "c", "at": ["y", "x"]},
    ],
}
"""A load, iterations of an outer loop, and a store."""


def rows_of(content: Columns | Program, warps: int = 2) -> list[list[tuple]]:
    """Return the instructions of each warp with all that they have; the pc is the first of its fields."""
    columns = content if isinstance(content, Columns) else expand(content, warps)
    fields = ("pc", "op", "space", "size", "gap", "needs", "mask")
    rows = list(zip(*(getattr(columns, name).tolist() for name in fields), strict=True))
    lanes = [part.tolist() for part in np.split(columns.addresses, columns.address_start[1:-1])]
    starts = columns.warp_start.tolist()
    whole = [(*row, tuple(where)) for row, where in zip(rows, lanes, strict=True)] if rows else []
    return [whole[first:last] for first, last in pairwise(starts)]


def check(trace: Trace, share: float, start: float, early: EarlyPart) -> None:
    """Compare the blocks of a divided excerpt with those of one that is not."""
    ids, warps = list(trace.blocks), trace.launch.block_warps
    excerpt = Excerpt(trace, ids, share, [start] * len(ids), early=early)
    plain = Excerpt(trace, ids, share, [start] * len(ids))
    for block in range(len(ids)):
        divided, whole = rows_of(excerpt.block(block), warps), rows_of(plain.block(block), warps)
        assert [[row[1:] for row in warp] for warp in divided] == [[row[1:] for row in warp] for warp in whole]
        assert {row[0] for warp in divided for row in warp} <= {EARLY, LATE}
    assert (excerpt.shares, excerpt.instructions) == (plain.shares, plain.instructions)
    assert excerpt.early_shares <= excerpt.shares
    rows = [row for block in range(len(ids)) for warp in rows_of(excerpt.cut(block).content, warps) for row in warp]
    assert excerpt.early_instructions == sum(1 + row[4] for row in rows if row[0] == EARLY)


@examples(100)
@given(program_traces(), SHARES, SHARES, SHARES)
def test_a_division_changes_nothing_but_the_pcs_of_programs(trace, share, part, start):
    check(trace, share, start, EarlyPart(share * part))


@examples(100)
@given(column_traces().filter(lambda trace: len(trace.blocks) > 0), SHARES, SHARES, SHARES)
def test_nor_of_columns(trace, share, part, start):
    check(trace, share, start, EarlyPart(share * part))


@examples(50)
@given(st.one_of(program_traces(), column_traces().filter(lambda trace: len(trace.blocks) > 0)), st.integers(0, 3))
def test_blocks_are_early_or_late_as_a_whole(trace, blocks):
    check(trace, 1.0, 0.0, EarlyPart(1.0, blocks))
    excerpt = Excerpt(trace, list(trace.blocks), early=EarlyPart(1.0, blocks))
    for block in range(len(trace.blocks)):
        parts = {row[0] for warp in rows_of(excerpt.block(block), trace.launch.block_warps) for row in warp}
        assert parts <= {EARLY if block < blocks else LATE}
    assert excerpt.early_shares == min(blocks, len(trace.blocks))


@pytest.mark.parametrize("share", [0.1, 0.25, 0.6])
@pytest.mark.parametrize("sizes", [{}, {"T": 4}, {"T": 16}])
@pytest.mark.parametrize("start", [0.0, 0.3])
def test_the_early_part_is_what_a_shorter_excerpt_keeps(share, sizes, start):
    trace = tracegen.affine_kernel(TILED, **sizes)
    excerpt = Excerpt(trace, [3], share, [start], early=EarlyPart(share / 2))
    shorter = Excerpt(trace, [3], share / 2, [start])
    warps = trace.launch.block_warps
    divided, short = rows_of(excerpt.block(0), warps), rows_of(shorter.block(0), warps)
    assert excerpt.early_shares == pytest.approx(shorter.shares)
    for warp, alone in zip(divided, short, strict=True):
        early = [row[1:] for row in warp if row[0] == EARLY]
        assert len(early) == len(alone)
        if start == 0:
            assert early == [row[1:] for row in alone]


def test_what_is_outside_of_loops_is_early_wherever_it_stands():
    trace = tracegen.affine_kernel(TILED)
    [warp, *_] = rows_of(Excerpt(trace, [0], 0.5, early=EarlyPart(0.25)).block(0))
    assert warp[0][0] == warp[-1][0] == EARLY
    parts = [row[0] for row in warp]
    assert parts == [*sorted(parts[:-1]), EARLY], "the late part is in one piece"


def test_the_early_part_of_columns_has_a_share_of_every_warp():
    rows = [[load(line) for line in range(10)], [load(line) for line in range(50, 54)]]
    excerpt = Excerpt(make_trace([rows, rows], warps=2), [1], 0.5, [0.3], early=EarlyPart(0.25))
    assert [[row[0] for row in warp] for warp in rows_of(excerpt.block(0))] == [[0, 0, 0, 1, 1], [0, 0]]
    assert excerpt.early_shares == 5 / 14


# ---- beginnings of programs


def program_of(*bodies: tuple[list[int], int]) -> Program:
    """Return a program of segments with the given pcs and trips."""
    [segment, *_] = tracegen.affine_kernel(TILED).block(0)
    columns = [field.name for field in dataclasses.fields(segment) if field.name not in ("trips", "cache_op")]

    def made(pcs: list[int], trips: int):
        repeated = {
            name: np.repeat(getattr(segment, name), len(pcs), axis=1 if name in ("needs", "mask", "base") else 0)
            for name in columns
        }
        return dataclasses.replace(segment, **{**repeated, "pc": np.array(pcs, np.int32)}, trips=trips)

    return [made(*body) for body in bodies]


@pytest.mark.parametrize(
    ("whole", "beginning", "found"),
    [
        ([([0], 1), ([1], 8), ([2], 1)], [([0], 1), ([1], 3), ([2], 1)], [(1, 0), (3, 1), (1, 2)]),
        # The first iteration stands apart, and the others are one segment: so they are not in a short beginning.
        ([([1], 4), ([2], 1), ([1, 1, 2], 5), ([3], 1)], [([1], 4), ([2], 1), ([1], 2), ([2], 1), ([3], 1)],
         [(4, 0), (1, 1), (1, None), (1, 4)]),
        ([([1], 1), ([1], 1), ([2], 1)], [([1], 1), ([2], 1)], [(1, 0), (0, None), (1, 1)]),
        ([([1, 2], 3)], [([1, 2], 2), ([1, 2], 1)], [(3, None)]),
        ([([1], 3)], [([2], 1)], None),
        ([([1], 3)], [([1], 4)], None),
        ([([1], 3), ([2], 1)], [], [(0, None), (0, None)]),
    ],
)  # fmt: skip
def test_iterations_of_a_beginning_are_found(whole, beginning, found):
    want = None if found is None else [Beginning(*one) for one in found]
    assert find_beginning(program_of(*whole), program_of(*beginning)) == want


def test_a_block_that_does_not_begin_as_expected_is_divided_by_its_work():
    class Odd(type(tracegen.affine_kernel(TILED))):
        def shortened(self, share):
            make, left = super().shortened(share)
            return (lambda block, start: make(block, start)[::-1] if share < 0.3 else make(block, start)), left

    trace = tracegen.affine_kernel(TILED)
    trace.__class__ = Odd
    excerpt = Excerpt(trace, [0], 0.5, early=EarlyPart(0.25))
    [warp, *_] = rows_of(excerpt.block(0))
    parts = [row[0] for row in warp]
    assert parts == sorted(parts)
    assert parts.count(EARLY) / len(parts) == pytest.approx(0.5, abs=0.1)
    assert excerpt.early_shares == pytest.approx(excerpt.shares / 2, rel=0.2)
