"""Test the refusal of mistakes in kernel functions, and of launches that cannot be."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rdmodel.errors import ConfigError, LaunchError, TraceError
from tests.support.simt_traces import simple
from tracegen.simt.kernel_trace import Buffer, trace


def outside_in_x(k, A):
    with k.where(k.x < 40):
        k.load(A, k.x, 0)


def outside_in_last_iteration(k, A):
    for j in k.range(9):
        k.store(A, 0, j)


def below(k, A):
    k.load(A, k.x - 1, 0)


def flat(k, A):
    k.load(A, 8 * 32)


def too_many(k, A):
    k.load(A, 0, 0, 0)


def unknown_index(k, A):
    k.load(A, k.load(A, 0, 0), 0)


def unknown_condition(k, A):
    with k.where(k.load(A, 0, 0) > 1):
        pass


def fraction(k, A):
    k.load(A, k.x * 0.5, 0)


def python_if(k, A):
    if k.x < 3:
        k.load(A, 0, 0)


def no_array(k, A):
    k.load(3, 0)


def reduction(k, A):
    np.add.reduce(k.x)


def sort(k, A):
    np.sort(k.x)


def no_step(k, A):
    for _ in k.range(0, 4, 0):
        pass


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (outside_in_x, "outside_in_x: thread (32, 0, 0): load of A[32, 0]: dimension 0 has indices 0 to 31"),
        (outside_in_last_iteration, "thread (0, 0, 0): store of A[0, 8]: dimension 1 has indices 0 to 7"),
        (below, "thread (0, 0, 0): load of A[-1, 0]: dimension 0 has indices 0 to 31"),
        (flat, "load of A[256]: it has indices 0 to 255"),
        (too_many, "too_many: 3 indices into A[32, 8]: must be 2, or one flat index"),
        (unknown_index, "array A holds no data: its elements cannot be an index or a condition"),
        (unknown_condition, "array A holds no data"),
        (fraction, "fraction: index into A is float64: must be a whole number"),
        (python_if, "cannot control Python code such as if and while: use k.where, k.any or np.where"),
        (no_array, "3: must be an array of the kernel"),
        (reduction, "add.reduce: threads of a block cannot be combined: use k.any"),
        (sort, "np.sort: does not work thread by thread"),
        (no_step, "no_step: step=0: must be a whole number other than 0"),
    ],
)
def test_a_mistake_in_a_kernel_is_named(kernel, message):
    t = trace(kernel, grid=1, block=64, arrays={"A": (32, 8)})
    with pytest.raises(TraceError, match=re.escape(message)):
        t.block(0)


def test_a_loaded_value_does_not_lose_its_origin_in_a_numpy_table():
    def kernel(k, A):
        np.arange(10)[k.load(A, k.x)]

    with pytest.raises(TraceError, match=re.escape("use np.take(table, value)")):
        trace(kernel, grid=1, block=32, arrays={"A": np.arange(32)}).block(0)


def test_inactive_threads_may_be_anywhere():
    def kernel(k, A):
        with k.where(k.x < 10):
            for j in k.range(2):
                k.load(A, k.x, j - 0)

    t = trace(kernel, grid=1, block=64, arrays={"A": (10, 2)})
    assert t.columns.mask.tolist() == [0x3FF] * 2


def test_an_iteration_that_never_comes_is_not_out_of_bounds():
    def kernel(k, A):
        for j in k.range(10):
            k.load(A, j)
            if j == 3:
                break

    assert len(trace(kernel, grid=1, block=32, arrays={"A": 4})) == 4


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"block": 0}, LaunchError, "block=0: must be one to three numbers of at least 1"),
        ({"block": 1025}, LaunchError, "block=1025: 1025 threads, at most 1024 fit in a block"),
        ({"grid": (1, 2, 3, 4)}, LaunchError, "grid=(1, 2, 3, 4): must be one to three"),
        ({"grid": 1.5}, LaunchError, "grid=1.5: must be one to three whole numbers"),
        ({"arrays": {}}, ConfigError, "unknown parameter of simple 'A'"),
        ({"n": 4}, ConfigError, "unknown parameter of simple 'n'"),
        ({"arrays": {"A": 0}}, ConfigError, "array A: shape (0,) needs dimensions of at least 1"),
        ({"arrays": {"A": "x"}}, ConfigError, "array A: shape 'x' must be a whole number"),
        ({"arrays": {"A": Buffer(3, "S40")}}, ConfigError, "array A: elements of 40 bytes"),
        ({"base": -256}, ConfigError, "base=-256: must be a multiple of 256"),
        ({"blocks": 3}, TraceError, "blocks"),
    ],
)
def test_a_launch_that_cannot_be_is_refused(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        trace(simple, **{"grid": 1, "block": 32, "arrays": {"A": 64}, **options})


def test_only_functions_are_kernels():
    with pytest.raises(ConfigError, match="must be a Python function"):
        trace(print, grid=1, block=32, arrays={})
    with pytest.raises(ConfigError, match="needs a parameter for its block"):
        trace(lambda: None, grid=1, block=32, arrays={})
