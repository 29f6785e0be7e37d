"""Search a B+ tree as in Rodinia, with a block per query and a thread per key of a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.cancellation import checkpoint
from tracegen.kernel_library.control import branch_on, replace_loaded
from tracegen.kernel_library.inputs import SEED
from tracegen.kernel_library.registry import Benchmark, Position
from tracegen.simt.kernel_trace import Array, Block
from tracegen.simt.symbolic import Value

ABSENT_KEY = np.iinfo(np.int32).max
"""Value of unused keys of a node, above all others."""

INDICES_OFFSET = 1
"""Offset of the indices of a node in words, after its location."""


def start_of_keys(ORDER: int) -> int:
    """Return the offset of the keys of a node in words, after one index more than it has children."""
    return INDICES_OFFSET + ORDER + 1


def words_of_node(ORDER: int) -> int:
    """Return the size of a node in words: location, indices, keys, leaf flag, number of keys."""
    return start_of_keys(ORDER) + ORDER + 3


def stored_keys(N: int, SEED: int) -> NDArray[np.int32]:
    """Return the keys in the tree in ascending order; key r has record r."""
    return np.cumsum(np.random.default_rng(SEED).integers(1, 4, N)).astype(np.int32)


def queries(N: int, M: int, SEED: int) -> NDArray[np.int32]:
    """Return the keys to search for, about half of which are in the tree."""
    return np.random.default_rng(SEED + 1).integers(0, 2 * N, M).astype(np.int32)


def height(N: int, ORDER: int) -> int:
    """Return the number of levels above the leaves."""
    nodes, levels = -(-N // ORDER), 0
    while nodes > 1:
        nodes, levels = -(-nodes // ORDER), levels + 1
    return levels


@lru_cache(maxsize=2)
def build(N: int, ORDER: int, SEED: int) -> NDArray[np.int32]:
    """Build the nodes of a tree of N keys, level by level from the root; all but the last of a level are full.

    Key t of an inner node is the lowest key below child t; the first key of a level is 0.
    """
    keys = stored_keys(N, SEED)
    levels = []
    while True:
        levels.append(keys)
        if len(keys) <= ORDER:
            break
        keys = keys[::ORDER]
    nodes: list[NDArray[np.int32]] = []
    first = 0
    for keys in levels[::-1]:
        checkpoint()
        count, leaf = -(-len(keys) // ORDER), keys is levels[0]
        below = np.arange(len(keys)) + (0 if leaf else first + count)
        part = np.zeros((count, words_of_node(ORDER)), np.int32)
        part[:, 0] = np.arange(first, first + count)
        place = np.divmod(np.arange(len(keys)), ORDER)
        part[place[0], INDICES_OFFSET + place[1]] = below
        part[:, start_of_keys(ORDER) : start_of_keys(ORDER) + ORDER + 1] = ABSENT_KEY
        part[place[0], start_of_keys(ORDER) + place[1]] = keys
        if not leaf:
            part[0, start_of_keys(ORDER)] = 0
        part[:, -2], part[:, -1] = leaf, np.bincount(place[0])
        nodes.append(part)
        first += count
    return np.concatenate(nodes)


def answers(N: int, M: int, SEED: int) -> Mapping[str, NDArray[Any]]:
    """Return the record that each query finds, or -1."""
    keys, wanted = stored_keys(N, SEED), queries(N, M, SEED)
    record = np.minimum(np.searchsorted(keys, wanted), N - 1)
    return {"answers": np.where(keys[record] == wanted, record, -1).astype(np.int32)}


btree = Benchmark(
    "btree",
    {
        "N": Position(1 << 20, least=1, below=1 << 29),
        "M": Position(4096, least=1, below=1 << 31),
        "ORDER": Position(256, least=2, below=1025),
        "SEED": SEED,
    },
    lambda N, M, ORDER, SEED: {
        "nodes": build(N, ORDER, SEED),
        "records": np.arange(N, dtype=np.int32),
        "current": np.zeros(M, np.int32),
        "offset": np.zeros(M, np.int32),
        "keys": queries(N, M, SEED),
        "answers": np.full(M, -1, np.int32),
    },
    need=lambda N, M: 112 * N + 48 * M,
)


@btree.kernel(
    threads=lambda M, ORDER: (M * ORDER,),
    grid=lambda M: (M, 1, 1),
    block=lambda ORDER: (ORDER,),
    result=answers,
)
def btree_1(
    k: Block,
    nodes: Array,
    records: Array,
    current: Array,
    offset: Array,
    keys: Array,
    answers: Array,
    N: int,
    ORDER: int,
) -> None:
    """B+ tree search, per level: current[b], key[t], keys[b]; where it descends: key[t+1], offset[b], index[t].

    The child goes through memory: -> offset[b]; |; thread 0: offset[b] -> current[b]; |. In a leaf the index of the
    equal key is loaded, and its record: -> answers[b].
    """
    query, base = k.block_x, start_of_keys(ORDER)
    assert nodes.data is not None and keys.data is not None
    tree, wanted = nodes.data.reshape(nodes.shape), keys.data[k.index]
    node = np.zeros_like(k.index)  # one number or, in a batch, one for each block
    for _ in range(height(N, ORDER)):
        for t in slots(k, ORDER):
            at = replace_loaded(k.load(current, query), node)
            key, target = k.load(nodes, at, base + t), k.load(keys, query)
            with k.where(branch_on(k, key <= target)), k.where(branch_on(k, k.load(nodes, at, base + t + 1) > target)):
                k.load(nodes, replace_loaded(k.load(offset, query), node), INDICES_OFFSET + t)
                k.store(offset, query)
        k.barrier()
        with k.where(k.thread_x == 0):
            k.load(offset, query)
            k.store(current, query)
        k.barrier()
        place = np.count_nonzero(tree[node, base : base + ORDER] <= wanted[..., None], axis=-1) - 1
        node = tree[node, INDICES_OFFSET + place]
    for t in slots(k, ORDER):
        at = replace_loaded(k.load(current, query), node)
        with k.where(k.load(nodes, at, base + t) == k.load(keys, query)):
            k.load(records, k.load(nodes, at, INDICES_OFFSET + t))
            k.store(answers, query)


def slots(k: Block, order: int) -> Iterator[Value]:
    """Yield the key of each thread, in rounds if the block has fewer threads than the node has keys."""
    for first in range(0, order, k.launch.block_threads):
        t = k.thread_x + first
        with k.where(t < order):
            yield t
