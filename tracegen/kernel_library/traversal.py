"""Search a graph: one launch of a breadth-first search or of a shortest-paths computation.

A launch starts from the results of earlier launches, which NumPy computes. All its threads read these; the next launch
sees their stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.cancellation import checkpoint
from rdmodel.errors import ConfigError
from tracegen.arrays import Buffer
from tracegen.kernel_library.control import branch_on
from tracegen.kernel_library.data import Input
from tracegen.kernel_library.inputs import SEED, Sparse, need_of_graph, power_law_graph, read_graph, read_weighted
from tracegen.kernel_library.registry import Benchmark, Position
from tracegen.simt.kernel_trace import Array, Block

MAX_ROUNDS = 1 << 31
"""Bound of rounds and levels that no search reaches."""

UNREACHED_DISTANCE = np.iinfo(np.int32).max
"""Distance of a vertex that the search has not reached."""

_SOURCE = Position(0, below=MAX_ROUNDS)


# ---- breadth-first search, as in Rodinia: kernel 1 visits the neighbours of a level, kernel 2 advances to them


def search_levels(graph: Sparse, source: int, last: int = MAX_ROUNDS) -> NDArray[np.int32]:
    """Return the distance of every vertex from `source` in edges; -1 if it is larger than `last` or infinite."""
    if source >= graph.height:
        raise ConfigError(f"SOURCE={source}: the graph has vertices 0 to {graph.height - 1}")
    level = np.full(graph.height, -1, np.int32)
    front, at = np.array([source]), 0
    while len(front) and at <= last:
        checkpoint()
        level[front] = at
        front = np.unique(graph.columns[_entries(graph, front)])
        front, at = front[level[front] < 0], at + 1
    return level


def _entries(graph: Sparse, vertices: NDArray[Any]) -> NDArray[Any]:
    """Return the positions of all edges that leave `vertices`."""
    counts = graph.rows[vertices + 1] - graph.rows[vertices]
    before = np.cumsum(counts) - counts
    places: NDArray[Any] = np.arange(counts.sum()) + np.repeat(graph.rows[vertices] - before, counts)
    return places


def _bfs_arrays(graph: Sparse, LEVEL: int, SOURCE: int) -> dict[str, Any]:
    level = search_levels(graph, SOURCE, LEVEL + 1)
    if level.max() < LEVEL:
        raise ConfigError(f"LEVEL={LEVEL}: the search from vertex {SOURCE} ends with level {level.max()}")
    seen = (level >= 0) & (level <= LEVEL)
    return {
        "nodes": np.stack([graph.rows[:-1], np.diff(graph.rows)], axis=1),
        "edges": graph.columns,
        "mask": (level == LEVEL).astype(np.uint8),
        "updating": (level == LEVEL + 1).astype(np.uint8),
        "visited": seen.astype(np.uint8),
        "cost": np.where(seen, level, -1).astype(np.int32),
        "over": Buffer(1, np.uint8),
    }


def _after_bfs_1(graph: Sparse, LEVEL: int, SOURCE: int) -> Mapping[str, NDArray[Any]]:
    before = _bfs_arrays(graph, LEVEL, SOURCE)
    return {
        "mask": np.zeros_like(before["mask"]),
        "updating": before["updating"],
        "cost": search_levels(graph, SOURCE, LEVEL + 1),
    }


def _after_bfs_2(graph: Sparse, LEVEL: int, SOURCE: int) -> Mapping[str, NDArray[Any]]:
    before = _bfs_arrays(graph, LEVEL, SOURCE)
    return {
        "mask": before["updating"],
        "visited": before["visited"] | before["updating"],
        "updating": np.zeros_like(before["updating"]),
        "over": before["updating"].max(keepdims=True),
    }


bfs = Benchmark(
    "bfs",
    {"N": 65536, "DEGREE": 8, "SEED": SEED, "LEVEL": Position(4, below=MAX_ROUNDS), "SOURCE": _SOURCE},
    _bfs_arrays,
    inputs={"graph": Input(power_law_graph, read_graph, need_of_graph)},
)


@bfs.kernel("1", threads=lambda graph: (graph.height,), block=(512,), result=_after_bfs_1)
def bfs_1(k: Block, nodes: Array, edges: Array, mask: Array, updating: Array, visited: Array, cost: Array) -> None:
    """Neighbours of a level: mask[v], nodes[v]; per edge: edges[e], visited[w], cost[v] -> cost[w], updating[w]."""
    v = k.x
    with k.where(v < mask.elements), k.where(k.load(mask, v)):
        k.store(mask, v)
        degree = k.load(nodes, v, 1)
        with k.where(degree > 0):
            first = k.load(nodes, v, 0)
            for e in k.range(first, first + degree):
                w = k.load(edges, e)
                with k.where(branch_on(k, k.load(visited, w) == 0)):
                    k.load(cost, v)
                    k.store(cost, w)
                    k.store(updating, w)
                    k.load(nodes, v, 1)  # the stores may have changed the bounds of the loop
                    k.load(nodes, v, 0)
                    k.wait()


@bfs.kernel("2", threads=lambda graph: (graph.height,), block=(512,), result=_after_bfs_2)
def bfs_2(k: Block, mask: Array, updating: Array, visited: Array, over: Array) -> None:
    """Next level of a breadth-first search: updating[v]; if set -> mask[v], visited[v], over, updating[v]."""
    v = k.x
    with k.where(v < mask.elements), k.where(k.load(updating, v)):
        k.store(mask, v)
        k.store(visited, v)
        k.store(over, 0)
        k.store(updating, v)


# ---- shortest paths: Bellman-Ford, a thread per vertex


def shortest_distances(graph: Sparse, source: int, rounds: int = MAX_ROUNDS) -> NDArray[np.int64]:
    """Return the distance of every vertex after `rounds` rounds, `UNREACHED_DISTANCE` if it was not reached."""
    if source >= graph.height:
        raise ConfigError(f"SOURCE={source}: the graph has vertices 0 to {graph.height - 1}")
    distance = np.full(graph.height, UNREACHED_DISTANCE, np.int64)
    distance[source] = 0
    sources, weights = graph.sources, graph.values.astype(np.int64)
    for _ in range(rounds):
        checkpoint()
        before = distance.copy()
        reached = before[sources] < UNREACHED_DISTANCE
        np.minimum.at(distance, graph.columns[reached], (before[sources] + weights)[reached])
        if np.array_equal(distance, before):
            break
    return distance


def _after_sssp(graph: Sparse, ROUND: int, SOURCE: int) -> Mapping[str, NDArray[Any]]:
    before, after = (shortest_distances(graph, SOURCE, rounds) for rounds in (ROUND, ROUND + 1))
    return {"distance": after.astype(np.int32), "changed": np.array([(before != after).any()], np.int32)}


sssp = Benchmark(
    "sssp",
    {"N": 16384, "DEGREE": 8, "SEED": SEED, "ROUND": Position(3, below=MAX_ROUNDS), "SOURCE": _SOURCE},
    lambda graph, ROUND, SOURCE: {
        "rows": graph.rows,
        "columns": graph.columns,
        "weights": graph.values.astype(np.int32),
        "distance": shortest_distances(graph, SOURCE, ROUND).astype(np.int32),
        "changed": Buffer(1, np.int32),
    },
    inputs={"graph": Input(power_law_graph, read_weighted, need_of_graph)},
)


@sssp.kernel(threads=lambda graph: (graph.height,), block=(256,), result=_after_sssp)
def sssp_1(k: Block, rows: Array, columns: Array, weights: Array, distance: Array, changed: Array) -> None:
    """Shortest paths, a round: distance[v]; per edge: weights[e], columns[e], distance[w] -> distance[w] if shorter."""
    v, improved = k.x, np.zeros(1, np.bool_)
    with k.where(v < distance.elements):
        here = k.load(distance, v)
        with k.where(here < UNREACHED_DISTANCE):
            first, last = k.load(rows, v), k.load(rows, v + 1)
            for e in k.range(first, last):
                through = here + k.load(weights, e)
                w = k.load(columns, e)
                shorter = branch_on(k, (e < last) & (through < k.load(distance, w)))
                with k.where(shorter):
                    k.atomic(distance, w)
                    k.load(rows, v + 1)  # the atomic may have changed the end of the loop
                    k.wait()
                improved = improved | shorter
            with k.where(improved):
                k.store(changed, 0)
