"""A nest with fewer iterations of the loops around others, which are written out: for parts of a block's iterations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracegen.affine.affine_form import Affine, Extreme
from tracegen.affine.nest import Nest, NestGuard, NestLoop, NestNode

FEWEST = 2
"""Iterations that are left of a loop."""

FEWEST_LOOPED = 4
"""Iterations of a loop that is worth to be cut."""


class Shortened(Nest):
    """A nest whose outermost loops around others, `loops`, end after about `share` of their most iterations."""

    def __init__(self, nest: Nest, share: float) -> None:
        self.box, self.moves, self.control = nest.box, nest.moves, nest.control
        self.loops: list[tuple[NestLoop, int]] = []
        self.body = self._cut(nest.body, share)

    def _cut(self, body: Sequence[NestNode], share: float) -> list[NestNode]:
        nodes: list[NestNode] = []
        for node in body:
            if isinstance(node, NestGuard):
                nodes.append(replace(node, body=self._cut(node.body, share)))
            elif isinstance(node, NestLoop) and not node.innermost and node.most >= FEWEST_LOOPED:
                most = max(FEWEST, round(share * node.most))
                self.loops.append((node, most))
                nodes.append(replace(node, distance=Extreme("min", (node.distance, Affine(most * node.stride)))))
            else:
                nodes.append(node)
        return nodes

    def left(self, block: tuple[int, int, int], thread: Sequence[Any]) -> float:
        """Return the share of the iterations that is left of a block with these ids, on average over its threads."""
        at = [*block, *thread, *[0] * (len(self.box) - 6)]
        whole = kept = 0.0
        for loop, most in self.loops:
            trips = np.maximum(0, -(-loop.distance.value(at) // loop.stride))
            whole += float(np.mean(trips))
            kept += float(np.mean(np.minimum(trips, most)))
        return kept / whole if whole else 1.0

    def along(self, start: float) -> NDArray[np.int64]:
        """Return by how many bytes each instruction moves if `start` of all iterations come before those that are left.

        Loops whose iterations differ in more than addresses, or differ in number, begin with their first one. Where
        strips are cut short by the end of an array, that is the last one, which is not reached.
        """
        total: NDArray[np.int64] = np.zeros(len(self.moves), dtype=np.int64)
        for loop, most in self.loops:
            alike = loop.choices is not None and not any(choice.both for choice in loop.choices)
            if alike and isinstance(loop.distance, Affine) and not loop.distance.terms:
                last = loop.most - most - bool(loop.choices)
                total += self.moves[:, loop.dimension] * max(0, min(int(start * loop.most), last))
        return total
