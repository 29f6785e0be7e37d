"""Shorten a nest: run only a share of the iterations of its outermost loops around other loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracegen.affine.affine_form import Affine, Extreme, leaves
from tracegen.affine.nest import BLOCK_DIMENSIONS, Nest, NestAccess, NestBarrier, NestGuard, NestLoop, NestNode

MIN_ITERATIONS = 2
"""Minimum number of iterations of a shortened loop."""

MIN_CUT_ITERATIONS = 4
"""Number of iterations from which on a loop is worth shortening."""


class ShortLoop(NamedTuple):
    """A `loop` that keeps at most `most` iterations, each of which executes up to `work` memory instructions."""

    loop: NestLoop
    most: int
    work: int


class ShortenedNest(Nest):
    """A nest whose outermost loops around others end after about `share` of their largest number of iterations.

    `loops` are these loops. How often a block executes them depends on its ids along `block_dimensions` only.
    """

    def __init__(self, nest: Nest, share: float) -> None:
        self.box, self.moves, self.control = nest.box, nest.moves, nest.control
        self.loops: list[ShortLoop] = []
        self.body = self._cut(nest.body, share)
        forms = [form for short in self.loops for form in leaves(short.loop.distance)]
        used = {dimension for form in forms for dimension, _ in form.terms}
        self.block_dimensions = tuple(dimension for dimension in BLOCK_DIMENSIONS if dimension in used)

    def _cut(self, body: Sequence[NestNode], share: float) -> list[NestNode]:
        nodes: list[NestNode] = []
        for node in body:
            if isinstance(node, NestGuard):
                nodes.append(replace(node, body=self._cut(node.body, share)))
            elif isinstance(node, NestLoop) and not node.innermost and node.most >= MIN_CUT_ITERATIONS:
                most = max(MIN_ITERATIONS, round(share * node.most))
                self.loops.append(ShortLoop(node, most, _work(node.body)))
                nodes.append(replace(node, distance=Extreme("min", (node.distance, Affine(most * node.stride)))))
            else:
                nodes.append(node)
        return nodes

    def remaining_share(self, block: tuple[int, int, int], thread: Sequence[Any]) -> float:
        """Return the share of its iterations that a block with these ids keeps, on average over its threads.

        Iterations count by their memory instructions, or equally if none has any.
        """
        at = [*block, *thread, *[0] * (len(self.box) - 6)]
        original = remaining = 0.0
        alike = not any(short.work for short in self.loops)
        for loop, most, work in self.loops:
            trips = np.maximum(0, -(-loop.distance.value(at) // loop.stride))
            weight = 1 if alike else work
            original += weight * float(np.mean(trips))
            remaining += weight * float(np.mean(np.minimum(trips, most)))
        return remaining / original if original else 1.0

    def address_offsets(self, start: float) -> NDArray[np.int64]:
        """Return the bytes by which each instruction moves if the share `start` of all iterations is skipped first.

        Loops whose iterations differ in more than addresses, or whose number of iterations varies, begin with their
        first iteration. If the end of an array cuts a strip short, it cuts the last strip, which is never reached.
        """
        total: NDArray[np.int64] = np.zeros(len(self.moves), dtype=np.int64)
        for loop, most, _ in self.loops:
            uniform = loop.sign_tests is not None and not any(test.uniform_below_zero for test in loop.sign_tests)
            if uniform and isinstance(loop.distance, Affine) and not loop.distance.terms:
                last = loop.most - most - bool(loop.sign_tests)
                total += self.moves[:, loop.dimension] * max(0, min(int(start * loop.most), last))
        return total


def _work(body: Sequence[NestNode]) -> int:
    """Return the memory instructions and barriers of a body; its loops have their largest numbers of iterations."""
    total = 0
    for node in body:
        if isinstance(node, NestAccess | NestBarrier):
            total += 1
        elif isinstance(node, NestGuard):
            total += _work(node.body)
        elif isinstance(node, NestLoop):
            total += node.most * _work(node.body)
    return total
