"""Label the vertices of a graph: one launch of connected components or of graph colouring.

As in `traversal`, a launch starts from the results of earlier launches, and all its threads read these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.cancellation import checkpoint
from tracegen.arrays import Buffer
from tracegen.kernel_library.control import after
from tracegen.kernel_library.data import Input
from tracegen.kernel_library.inputs import (
    SEED,
    Sparse,
    need_of_graph,
    power_law_graph,
    read_graph,
    read_undirected,
    scattered_graph,
)
from tracegen.kernel_library.registry import Benchmark, Position
from tracegen.kernel_library.traversal import MAX_ROUNDS
from tracegen.simt.kernel_trace import Array, Block

_GRAPH_SIZES: dict[str, int | Position] = {"N": 16384, "DEGREE": 8, "SEED": SEED}
"""Sizes of generated graphs."""


# ---- connected components: hooking (a thread per edge) and pointer jumping (a thread per vertex), in turn


def hook(graph: Sparse, parent: NDArray[Any]) -> NDArray[Any]:
    """Return the parents after hooking: of two trees that an edge connects, the higher goes below the lower."""
    left, right = parent[graph.sources], parent[graph.columns]
    hooked = parent.copy()
    np.minimum.at(hooked, np.maximum(left, right), np.minimum(left, right))
    return hooked


def jump(parent: NDArray[Any]) -> NDArray[Any]:
    """Return the root of the tree of every vertex."""
    while not np.array_equal(parent, parent[parent]):
        checkpoint()
        parent = parent[parent]
    return parent


def parents(graph: Sparse, rounds: int = MAX_ROUNDS) -> NDArray[Any]:
    """Return the root of every vertex after `rounds` rounds of hooking and jumping."""
    parent = np.arange(graph.height, dtype=np.int32)
    for _ in range(rounds):
        checkpoint()
        before, parent = parent, jump(hook(graph, parent))
        if np.array_equal(before, parent):
            break
    return parent


def _component_arrays(graph: Sparse, parent: NDArray[Any]) -> dict[str, Any]:
    return {"sources": graph.sources, "targets": graph.columns, "parent": parent}


def _components(state: Callable[..., NDArray[Any]]) -> Benchmark:
    """Return a benchmark whose kernel starts from ``state(graph, parents)`` of a round."""
    return Benchmark(
        "cc",
        {**_GRAPH_SIZES, "ROUND": Position(0, below=MAX_ROUNDS)},
        lambda graph, ROUND: _component_arrays(graph, state(graph, parents(graph, ROUND))),
        inputs={"graph": Input(scattered_graph, read_graph, need_of_graph)},
    )


@_components(lambda graph, parent: parent).kernel(
    "1",
    threads=lambda graph: (len(graph.columns),),
    block=(256,),
    result=lambda graph, ROUND: {"parent": hook(graph, parents(graph, ROUND))},
)
def cc_1(k: Block, sources: Array, targets: Array, parent: Array) -> None:
    """Components, hooking: sources[e], targets[e], parent of both; if they differ -> parent of the higher (atomic)."""
    e = k.x
    with k.where(e < sources.elements):
        v, w = k.load(sources, e), k.load(targets, e)
        one, other = k.load(parent, v), k.load(parent, w)
        with k.where(one != other):
            k.atomic(parent, np.maximum(one, other))


@_components(hook).kernel(
    "2",
    threads=lambda graph: (graph.height,),
    block=(256,),
    result=lambda graph, ROUND: {"parent": parents(graph, ROUND + 1)},
)
def cc_2(k: Block, parent: Array) -> None:
    """Components, pointer jumping: parent[v], p = parent[v], parent[p]; until p is a root: -> parent[v], parent[p]."""
    v = k.x
    with k.where(v < parent.elements):
        at: Any = k.load(parent, v)
        above: Any = k.load(parent, at)
        while k.any(above != at):
            with k.where(above != at):
                k.store(parent, v)
                higher = k.load(parent, above)
            at, above = above, np.where(above != at, higher, above)


# ---- colouring (Jones and Plassmann): the next colour goes to vertices with a higher priority than all uncoloured
# neighbours


def colours(graph: Sparse, rounds: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the colour of every vertex after `rounds` rounds (-1: none), and the array `highest` of the last round."""
    order = priorities(graph)
    colour, best = np.full(graph.height, -1, np.int32), np.full(graph.height, -1, np.int32)
    for at in range(rounds):
        checkpoint()
        best = highest(graph, colour, best)
        winners = (colour < 0) & (order > best)
        if not winners.any():
            break
        colour[winners] = at
    return colour, best


def highest(graph: Sparse, colour: NDArray[Any], before: NDArray[Any]) -> NDArray[Any]:
    """Return the highest priority of uncoloured neighbours for uncoloured vertices; `before` for other vertices."""
    unset = (colour[graph.sources] < 0) & (colour[graph.columns] < 0)
    best = np.full(graph.height, -1, np.int32)
    np.maximum.at(best, graph.sources[unset], priorities(graph)[graph.columns[unset]])
    return np.where(colour < 0, best, before)


def priorities(graph: Sparse) -> NDArray[np.int32]:
    """Return distinct priorities of the vertices."""
    return np.random.default_rng(graph.height).permutation(graph.height).astype(np.int32)


def _colouring_arrays(graph: Sparse, ROUND: int) -> dict[str, Any]:
    colour, best = colours(graph, ROUND)
    return {
        "rows": graph.rows,
        "columns": graph.columns,
        "priority": priorities(graph),
        "colour": colour,
        "highest": highest(graph, colour, best),
        "changed": Buffer(1, np.int32),
    }


color = Benchmark(
    "color",
    {**_GRAPH_SIZES, "ROUND": Position(0, below=MAX_ROUNDS)},
    _colouring_arrays,
    inputs={"graph": Input(power_law_graph, read_undirected, need_of_graph)},
)


@color.kernel(
    "1",
    threads=lambda graph: (graph.height,),
    block=(256,),
    result=lambda graph, ROUND: {"highest": _colouring_arrays(graph, ROUND)["highest"]},
)
def color_1(k: Block, rows: Array, columns: Array, priority: Array, colour: Array, highest: Array) -> None:
    """Colouring, neighbours: colour[v]; if none, per edge: columns[e], colour[w], priority[w]; -> highest[v]."""
    v = k.x
    with k.where(v < colour.elements), k.where(k.load(colour, v) < 0):
        first, last = k.load(rows, v), k.load(rows, v + 1)
        unset: Any = False
        for e in k.range(first, last):
            w = k.load(columns, after(unset, e))  # does not wait for the priority, which stays in a register
            unset = k.load(colour, w) < 0
            with k.where(unset):
                k.load(priority, w)
        k.store(highest, v)


@color.kernel(
    "2",
    threads=lambda graph: (graph.height,),
    block=(256,),
    result=lambda graph, ROUND: {"colour": colours(graph, ROUND + 1)[0]},
)
def color_2(k: Block, priority: Array, colour: Array, highest: Array, changed: Array) -> None:
    """Colouring, winners: colour[v]; if none: priority[v], highest[v] -> colour[v] if higher, else changed."""
    v = k.x
    with k.where(v < colour.elements), k.where(k.load(colour, v) < 0):
        wins = k.load(priority, v) > k.load(highest, v)
        with k.where(wins):
            k.store(colour, v)
        with k.where(~wins):
            k.store(changed, 0)
