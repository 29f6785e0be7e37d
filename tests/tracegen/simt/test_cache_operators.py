"""Loads of Python kernels with cache operators."""

from __future__ import annotations

import pytest

import tracegen
from rdmodel.errors import TraceError
from rdmodel.trace.expansion import expand
from rdmodel.trace.summary import summarise


def kernel(k, A, B):
    for j in k.range(3):
        k.load(A, k.x + 64 * j, cache="cg")
        k.load(B, k.x)
    k.load(B, k.x, cache="nc")
    k.store(A, k.x)


def trace_of(function):
    return tracegen.trace(function, grid=2, block=64, arrays={"A": 1024, "B": 1024})


def test_the_loads_that_have_an_operator_are_marked_in_loops_and_outside():
    trace = trace_of(kernel)
    columns = expand(trace.block(1), 2)
    assert columns.cache_op.tolist() == [2, 0, 2, 0, 2, 0, 16, 0] * 2
    assert summarise(trace).cache_ops == {"cg": 12, "nc": 4}


def test_a_kernel_without_operators_has_no_column():
    def plain(k, A, B):
        k.load(A, k.x)
        k.store(B, k.x)

    assert all(segment.cache_op is None for segment in trace_of(plain).block(0))
    assert summarise(trace_of(plain)).cache_ops == {}


@pytest.mark.parametrize("cache", ["wb", "CG", "", 2])
def test_another_word_is_refused(cache):
    def wrong(k, A, B):
        k.load(A, k.x, cache=cache)

    with pytest.raises(TraceError, match=rf"^cache={cache!r}: must be one of ca, cg, cs, lu, cv, volatile"):
        trace_of(wrong).block(0)


def test_bundled_kernels_say_that_they_have_none():
    assert not tracegen.kernel("atax.1").may_have_cache_ops
    assert trace_of(kernel).may_have_cache_ops
