"""Compare the work that Python kernels declare with counts by hand."""

from __future__ import annotations

import numpy as np
import pytest

import tracegen
from rdmodel.errors import TraceError
from rdmodel.trace.counting import count_work
from tracegen import Buffer


def only(counts):
    return {name: value for name, value in counts.items() if value}


def dot(k, a, b, out, n):
    with k.where(k.x < n):
        for j in k.range(12):
            k.load(a, k.x, j)
            k.load(b, j)
            k.compute(flops=2)
        k.compute(flops=1, special=1)
        k.store(out, k.x)


def test_declared_arithmetic_counts_active_lanes_in_every_iteration():
    # 40 of 64 threads: 2 warps. 12 multiply-adds and one addition each.
    arrays = {"a": (64, 12), "b": 12, "out": 64}
    found = count_work(tracegen.trace(dot, grid=1, block=64, arrays=arrays, n=40))
    assert only(found.flops) == {"fp32": 40 * 25}
    assert found.operations["fp32_fma"] == 40 * 12
    assert (found.instructions["fp32"], found.instructions["special"]) == (2 * 13, 2)
    assert (found.instructions["load_global"], found.instructions["store_global"]) == (2 * 24, 2)
    # Estimated: the condition, a quarter of (2 addresses + 2 of the loop) in 12 iterations, the index of the store.
    assert found.instructions["int"] == 2 * (1 + 12 + 1)
    assert found.instructions["branch"] == 2 * (1 + 3)


def transpose(k, a, b, tile, n):
    for j in k.range(0, 32, 8):
        k.load(a, k.y + j, k.x)
        k.store(tile, k.thread_y + j, k.thread_x)
    k.barrier()
    for j in k.range(0, 32, 8):
        k.load(tile, k.thread_x, k.thread_y + j)
        k.store(b, k.y + j, k.x)


@pytest.mark.parametrize(("pad", "wavefronts"), [(0, 32), (1, 1), (2, 2)])
def test_accesses_to_shared_arrays_are_no_memory_instructions_and_have_conflicts(pad, wavefronts):
    arrays = {"a": (32, 32), "b": (32, 32), "tile": Buffer((32, 32 + pad), shared=True)}
    trace = tracegen.trace(transpose, grid=1, block=(32, 8), arrays=arrays, n=32)
    found = count_work(trace)
    assert trace.launch.shared_memory == 4 * 32 * (32 + pad)
    assert [a.name for a in trace.launch.arrays] == ["a", "b"]
    assert len(trace) == 8 * (4 + 1 + 4)
    assert only(found.shared_wavefronts) == {"load_shared": 32 * wavefronts, "store_shared": 32}
    assert found.instructions["barrier"] == 8


def test_small_elements_have_the_conflicts_of_all_iterations():
    def bytes_of(k, words):
        for j in k.range(4):
            k.load(words, 33 * k.thread_x + j)

    # Lane l reads byte 33 l + j, in word (33 l + j) // 4: the conflicts of four iterations differ.
    words = Buffer(33 * 32 + 4, np.uint8, shared=True)
    found = count_work(tracegen.trace(bytes_of, grid=1, block=32, arrays={"words": words}))
    expected = sum(
        max(np.bincount([word % 32 for word in {(33 * lane + j) // 4 for lane in range(32)}])) for j in range(4)
    )
    assert found.shared_wavefronts["load_shared"] == expected


def test_a_kernel_that_declares_nothing_has_requests_only():
    def copy(k, a, b):
        k.load(a, k.x)
        k.store(b, k.x)

    found = count_work(tracegen.trace(copy, grid=2, block=64, arrays={"a": 128, "b": 128}))
    assert not found.has_arithmetic
    assert only(found.instructions) == {"load_global": 4, "store_global": 4}


def test_declared_integers_replace_the_estimate():
    def kernel(k, a):
        k.load(a, k.x)
        k.compute(ints=3, flops=1, type="float64")

    found = count_work(tracegen.trace(kernel, grid=1, block=32, arrays={"a": 32}))
    assert (found.instructions["int"], found.operations["int"]) == (3, 96)
    assert only(found.flops) == {"fp64": 32}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"flops": -1}, "flops -1: must be a whole number from 0 to 2^20"),
        ({"ints": 1.5}, "ints 1.5: must be a whole number"),
        ({"type": "int8"}, "unknown type 'int8'; known: float32, float64, float16"),
    ],
)
def test_a_mistake_in_declared_arithmetic_is_named(given, message):
    def kernel(k, a):
        k.compute(**given)
        k.load(a, k.x)

    with pytest.raises(TraceError) as error:
        len(tracegen.trace(kernel, grid=1, block=32, arrays={"a": 32}))
    assert message in str(error.value)
