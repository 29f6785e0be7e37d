"""Declare kernels with the accesses of Rodinia's compiled clustering and learning code.

Data are float32; descriptions use the notation of `tracegen.kernel_library.rodinia`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rdmodel.trace import Space
from tracegen.kernel_library.registry import Benchmark, Multiple, Position
from tracegen.kernel_library.shared_memory import WORD_BYTES, halvings, publish, rounds
from tracegen.simt.kernel_trace import Array, Block, Buffer

WEIGHT_OFFSET, COST_OFFSET, POINT_WORDS = 0, 6, 8
"""Offsets of weight and cost in a point of streamcluster, and the size of a point, in words (32 bytes)."""

streamcluster = Benchmark(
    "streamcluster",
    {"NUM": 65_536, "DIM": 256, "K": 10, "X": Position(0, below="NUM")},
    lambda NUM, DIM, K: {
        "work_mem": (NUM + 1, K + 1),
        "center_table": Buffer(NUM, np.int32),
        "switch_membership": Buffer(NUM, np.bool_),
        "p": (NUM, POINT_WORDS),
        "coord": (DIM, NUM),
    },
)


@streamcluster.kernel(threads=lambda NUM: (NUM,), block=(512, 1, 1))
def streamcluster_1(
    k: Block, work_mem: Array, switch_membership: Array, p: Array, coord: Array, NUM: int, DIM: int, K: int, X: int
) -> None:
    """Gain of a centre at X: for d<DIM: coord[d,i], coord[d,X]; weight, cost -> switch; cost, work -> work[i,K].

    Data are unknown, so every point is assumed to be nearer to `X` than to its centre. The store of the switch may
    alias the cost, which is therefore loaded again.
    """
    i = k.x
    with k.where(i < NUM):
        for d in k.range(DIM):
            k.load(coord, d, i)
            k.load(coord, d, X)
        k.load(p, i, WEIGHT_OFFSET)
        k.load(p, i, COST_OFFSET)
        k.store(switch_membership, i)
        k.load(p, i, COST_OFFSET)
        k.load(work_mem, i, K)
        k.store(work_mem, i, K)


backprop = Benchmark(
    "backprop",
    {"IN": Multiple(65_536, of="BLOCK_SIZE"), "BLOCK_SIZE": 16},
    lambda IN, BLOCK_SIZE: {
        "input": IN + 1,
        "output_hidden": BLOCK_SIZE + 1,
        "input_hidden": (IN + 1, BLOCK_SIZE + 1),
        "partial_sum": (IN // BLOCK_SIZE, BLOCK_SIZE),
        "hidden_delta": BLOCK_SIZE + 1,
        "prev_weights": (IN + 1, BLOCK_SIZE + 1),
    },
)


@backprop.kernel(
    "1",
    threads=lambda IN, BLOCK_SIZE: (BLOCK_SIZE, IN),
    block=lambda BLOCK_SIZE: (BLOCK_SIZE, BLOCK_SIZE),
    fixed=True,
    shared_memory=lambda BLOCK_SIZE: WORD_BYTES * (BLOCK_SIZE + 1) * BLOCK_SIZE,
)
def backprop_1(k: Block, input: Array, input_hidden: Array, partial_sum: Array, BLOCK_SIZE: int) -> None:
    """Forward pass, i, j > 0: column 1: input[i]; |; w[i,j]; |; |; | per halving; -> w[i,j]; |; column 1: -> sum.

    A block is as wide as there are hidden units; row and column 0 are the bias. The weights w are `input_hidden`, which
    the source overwrites with products and sums.
    """
    i, j = k.y + 1, k.x + 1
    with k.where(k.thread_x == 0):
        k.load(input, i)
    publish(k)
    k.load(input_hidden, i, j)
    publish(k)
    k.barrier()
    rounds(k, halvings(BLOCK_SIZE), 7)
    k.store(input_hidden, i, j)
    k.barrier()
    with k.where(k.thread_x == 0):
        k.store(partial_sum, k.block_y, k.thread_y)


@backprop.kernel(
    "2",
    threads=lambda IN, BLOCK_SIZE: (BLOCK_SIZE, IN),
    block=lambda BLOCK_SIZE: (BLOCK_SIZE, BLOCK_SIZE),
    fixed=True,
)
def backprop_2(k: Block, input: Array, input_hidden: Array, hidden_delta: Array, prev_weights: Array) -> None:
    """Weight update, i, j > 0: delta[j], input[i], prev[i,j], w[i,j] -> w[i,j]; the first 3 -> prev[i,j]; |; bias.

    The first row of the first block then updates the weights of the bias in row 0, which has no input.
    """
    i, j = k.y + 1, k.x + 1
    adjust(k, input_hidden, prev_weights, hidden_delta, i, j, input)
    k.barrier()
    with k.where((k.block_y == 0) & (k.thread_y == 0)):
        adjust(k, input_hidden, prev_weights, hidden_delta, 0, j, None)


def adjust(k: Block, w: Array, prev: Array, delta: Array, i: Any, j: Any, values: Array | None) -> None:
    """Adjust a weight and store the change; the stored weight may alias the operands of the change."""
    steps(k, delta, prev, values, i, j)
    k.load(w, i, j)
    k.store(w, i, j)
    steps(k, delta, prev, values, i, j)
    k.store(prev, i, j)


def steps(k: Block, delta: Array, prev: Array, values: Array | None, i: Any, j: Any) -> None:
    """Load the operands of the change of a weight; a bias has no input value."""
    k.load(delta, j)
    if values is not None:
        k.load(values, i)
    k.load(prev, i, j)


kmeans = Benchmark(
    "kmeans",
    {"NPOINTS": 204_800, "NFEATURES": 34, "NCLUSTERS": 5},
    lambda NPOINTS, NFEATURES, NCLUSTERS: {
        "feature_flipped": (NPOINTS, NFEATURES),
        "feature": (NFEATURES, NPOINTS),
        "membership": Buffer(NPOINTS, np.int32),
        "clusters": Buffer((NCLUSTERS, NFEATURES), space=Space.CONSTANT),
    },
)


@kmeans.kernel("invert", threads=lambda NPOINTS: (NPOINTS,))
def kmeans_invert(k: Block, feature_flipped: Array, feature: Array, NPOINTS: int, NFEATURES: int) -> None:
    """Transpose the points: for f<NFEATURES: feature_flipped[i,f] -> feature[f,i]."""
    i = k.x
    with k.where(i < NPOINTS):
        for f in k.range(NFEATURES):
            k.load(feature_flipped, i, f)
            k.store(feature, f, i)


@kmeans.kernel("row", threads=lambda NPOINTS: (NPOINTS,))
def kmeans_row(
    k: Block, feature_flipped: Array, clusters: Array, membership: Array, NPOINTS: int, NFEATURES: int, NCLUSTERS: int
) -> None:
    """Nearest centre, point-major: for c, f: feature_flipped[i,f], clusters[c,f]; -> membership[i].

    Centres are in constant memory, which has a cache of its own.
    """
    i = k.x
    with k.where(i < NPOINTS):
        for c in k.range(NCLUSTERS):
            for f in k.range(NFEATURES):
                k.load(feature_flipped, i, f)
                k.load(clusters, c, f)
        k.store(membership, i)


@kmeans.kernel("col", threads=lambda NPOINTS: (NPOINTS,))
def kmeans_col(
    k: Block, feature: Array, clusters: Array, membership: Array, NPOINTS: int, NFEATURES: int, NCLUSTERS: int
) -> None:
    """Nearest centre, feature-major: for c, f: feature[f,i], clusters[c,f]; -> membership[i].

    Rodinia reads `feature` through the texture cache; here it is global memory, as in the modified benchmark that
    studies of the L1 use.
    """
    i = k.x
    with k.where(i < NPOINTS):
        for c in k.range(NCLUSTERS):
            for f in k.range(NFEATURES):
                k.load(feature, f, i)
                k.load(clusters, c, f)
        k.store(membership, i)
