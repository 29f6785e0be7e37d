"""Affine kernels: traces against a naive interpreter, an access at a time, and against `tracegen.trace`."""

from __future__ import annotations

import pickle
import re
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given

import tracegen
from rdmodel.errors import TraceError
from rdmodel.trace import Columns
from tests.support.examples import examples
from tests.support.naive_affine import OPS, Naive, assert_as_naive, columns, renumbered, shape_of
from tests.support.random_affine import MOST_ROWS, UNROLL, iterations, kernels
from tracegen.affine import (
    AffineArray,
    AffineKernel,
    Barrier,
    Guard,
    Load,
    Loop,
    Store,
    from_json,
    load_affine,
    names,
    to_json,
)
from tracegen.affine.nest import NestAccess, walk
from tracegen.kernel_library.suites import POLYBENCH, TILED

EXACT = ("warp_start", "op", "space", "size", "gap", "needs", "loop_exit", "mask", "address_start", "addresses")


def assert_same(one: Columns, other: Columns, where=""):
    for name in EXACT:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=f"{name} {where}")
    assert renumbered(one.pc) == renumbered(other.pc), where


# ---- the kernels that come with rdmodel

ODD = {"NI": 37, "NJ": 45, "NK": 29, "NL": 33, "NM": 21, "NX": 270, "NY": 277, "M": 261, "N": 67}
POSITIONS = {"3dconv": {"I": 3}, "fdtd2d": {"T": 7}, "gramschmidt": {"K": 2}}
PADDED = ("corr", "covar", "fdtd2d.3")


def odd_sizes(name):
    declared = next(spec.sizes for spec in tracegen.kernels() if spec.name == name)
    sizes = {size: ODD[size] for size in declared if size in ODD}
    if name == "covar.reduce":
        sizes |= {"N": 140}
    return sizes | POSITIONS.get(name.partition(".")[0], {}) | ({"PAD": 1} if name.startswith(PADDED) else {})


def test_all_kernels_of_polybench_are_there_with_the_same_sizes():
    assert set(names()) == {*POLYBENCH, *TILED}
    for spec in tracegen.kernels():
        if spec.name in POLYBENCH:
            kernel = load_affine(spec.name)
            assert (kernel.name, kernel.description) == (spec.name, spec.description)
            assert kernel.parameters == spec.sizes


@pytest.mark.parametrize("name", POLYBENCH)
def test_affine_kernels_equal_their_other_traces_at_odd_sizes(name):
    sizes = odd_sizes(name)
    one, other = tracegen.kernel(name, **sizes), tracegen.affine_kernel(name, **sizes)
    assert one.launch == other.launch
    for block in list(one.blocks)[:3] + list(one.blocks)[3::7] + list(one.blocks)[-1:]:
        assert_same(columns(one, block), columns(other, block), f"{name} block {block}")


@pytest.mark.parametrize("name", sorted(set(POLYBENCH) - {"corr.corr", "covar.covar"}))
def test_affine_kernels_equal_their_other_traces_at_the_sizes_of_the_suite(name):
    sizes = {size: value // 4 if value >= 256 else value for size, value in POLYBENCH[name].items()}
    if name.startswith(("gramschmidt", "3dconv")):
        sizes = {"NI": 64, "NJ": 512} | ({"NK": 256} if name == "3dconv" else {})
    one, other = (
        make(name, **sizes, block=(64, 4), base=1 << 20) for make in (tracegen.kernel, tracegen.affine_kernel)
    )
    assert one.launch == other.launch
    for block in (0, 1, 2, len(one.blocks) // 2, len(one.blocks) - 1):
        if block in one.blocks:
            assert_same(columns(one, block), columns(other, block), f"{name} block {block}")


@pytest.mark.parametrize("name", POLYBENCH)
def test_all_subscripts_of_polybench_are_proven_to_be_inside(name):
    nest = tracegen.affine_kernel(name)._nest
    assert all(node.inside for node in walk(nest.body) if isinstance(node, NestAccess))


@pytest.mark.parametrize("name", POLYBENCH)
def test_affine_kernels_go_to_json_and_back(name):
    kernel = load_affine(name)
    assert from_json(to_json(kernel)) == kernel
    assert to_json(from_json(to_json(kernel))) == to_json(kernel)


# ---- random kernels


@examples(120, suppress_health_check=list(HealthCheck))
@given(kernels(), UNROLL)
def test_random_kernels_do_what_the_naive_interpreter_does(kernel, unroll):
    trace, found = iterations(kernel, unroll)
    if isinstance(found, TraceError):
        assert re.search(r"indices 0 to|2\^62", str(found)), found
        with pytest.raises(IndexError):
            all(Naive(kernel, block, max_steps=20 * MOST_ROWS) for block in range(prod(shape_of(kernel)[2])))
        return
    for block in trace.blocks:
        assert_as_naive(kernel, trace, block, unroll)


@examples(40, suppress_health_check=list(HealthCheck))
@given(kernels(depth=2))
def test_random_kernels_go_to_json_and_back(kernel):
    made = load_affine(kernel)
    assert from_json(to_json(made)) == made


@examples(40, suppress_health_check=list(HealthCheck))
@given(kernels(depth=2), UNROLL)
def test_random_kernels_equal_the_same_run_as_python(kernel, unroll):
    trace, found = iterations(kernel, unroll)
    assume(not isinstance(found, TraceError))

    def body(k, statements, arrays, names):
        def value(text):
            return text if isinstance(text, int) else eval(text, {"min": np.minimum, "max": np.maximum, **names})

        for s in statements:
            match s:
                case "wait":
                    k.wait()
                case "barrier":
                    k.barrier()
                case {"gap": n}:
                    k.gap(n)
                case {"if": conditions, "do": inner}:
                    holds = np.True_
                    for condition in conditions:
                        holds = holds & value(condition)
                    with k.where(holds):
                        body(k, inner, arrays, names)
                case {"for": name, "do": inner}:
                    for i in k.range(value(s["from"]), value(s["to"]), s["step"], unroll=s.get("unroll")):
                        body(k, inner, arrays, {**names, name: i})
                case _:
                    (op,) = OPS.keys() & s.keys()
                    getattr(k, op)(arrays[s[op]], *map(value, s["at"]))

    def run(k, A, B, N):
        ids = {"x": k.x, "y": k.y, "thread_x": k.thread_x, "block_x": k.block_x, "block_y": k.block_y, "N": N}
        body(k, kernel["body"], {"A": A, "B": B}, ids)

    n = kernel["parameters"]["N"]
    arrays = {"A": (n, 40), "B": 200}
    other = tracegen.trace(run, grid=trace.launch.grid, block=trace.launch.block, arrays=arrays, unroll=unroll, N=n)
    for block, mine in zip(trace.blocks, found, strict=True):
        theirs = columns(other, block)
        for name in EXACT:
            np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name), err_msg=name)


# ---- scenarios


def tiled(body, **fields):
    value = {"name": "k", "parameters": {"N": 100, "T": 8}, "arrays": {"A": ["N", "N"], "v": ["N"]}, "block": [32]}
    return {**value, "grid": [4], "body": body, **fields}


def load(array, *at):
    return {"load": array, "at": list(at)}


def test_blocks_that_do_the_same_are_recorded_once():
    trace = tracegen.affine_kernel("gemm")
    for block in (0, 1, 5, 17, 100):
        trace.block(block)
    assert len(trace._generator._cache) == 1


def test_a_strip_that_ends_early_is_another_one_than_whole_strips():
    loop = {"for": "i", "from": "block_x * T", "to": "min(N, block_x * T + T)", "do": [load("v", "i")]}
    kernel = tiled([loop], grid=["(N + T - 1) // T"])
    trace = tracegen.affine_kernel(kernel)
    for block in trace.blocks:
        assert_as_naive(kernel, trace, block)
    assert [sum(s.trips * len(s.pc) for s in trace.block(block)) for block in (0, 11, 12)] == [8, 8, 4]
    assert len(trace._generator._cache) == 2


def test_a_triangular_loop_is_split_where_threads_leave():
    kernel = tiled([{"for": "j", "from": 0, "to": "x + 1", "do": [load("A", "x", "j")]}], grid=[1])
    program = tracegen.affine_kernel(kernel).block(0)
    assert [segment.trips for segment in program] == [1] * 32
    assert [int(segment.mask[0, 0]).bit_count() for segment in program] == list(range(32, 0, -1))


def test_a_guard_on_the_loop_variable_splits_the_loop_and_nothing_is_written_out():
    kernel = tiled(
        [{"for": "j", "to": "N", "do": [{"if": ["10 <= j < 90"], "do": [load("A", 0, "j")]}, load("v", "j")]}]
    )
    trace = tracegen.affine_kernel(kernel, unroll="none")
    assert [segment.trips for segment in trace.block(0)] == [10, 80, 10]
    assert_as_naive(kernel, trace, 0, "none")
    assert_as_naive(kernel, tracegen.affine_kernel(kernel), 0)


def test_a_loop_that_counts_down_does():
    kernel = tiled(
        [{"for": "j", "from": "N - 1", "to": -1, "step": -3, "do": [load("v", "j"), {"store": "v", "at": ["j"]}]}]
    )
    assert_as_naive(kernel, tracegen.affine_kernel(kernel), 3)


def test_local_arrays_types_and_launch_fields_are_those_of_tracegen():
    arrays = {"s": {"shape": [5], "type": "float64", "space": "local"}, "h": {"shape": ["N"], "type": "int16"}}
    body = [{"for": "j", "to": 5, "do": [load("s", "j"), {"atomic": "h", "at": ["x - x + j"]}]}]
    kernel = tiled(body, arrays=arrays, block=[8, 5], grid=[2, 3], shared_memory="4*T*T", registers=20)

    def run(k, s, h):
        for j in k.range(5):
            k.load(s, j)
            k.atomic(h, j)

    declared = {"s": tracegen.Buffer(5, np.float64, 1), "h": tracegen.Buffer(100, np.int16)}
    other = tracegen.trace(run, grid=(2, 3), block=(8, 5), arrays=declared, name="k", registers=20, shared_memory=256)
    trace = tracegen.affine_kernel(kernel)
    assert trace.launch == other.launch
    for block in trace.blocks:
        assert_same(columns(trace, block), columns(other, block))


def test_kernels_written_in_python_are_those_in_json():
    body = [Guard("x < N", [Loop("j", 0, "N", [Load("A", ["x", "j"]), Barrier()]), Store("v", "x")])]
    arrays = {"A": AffineArray(["N", "N"]), "v": ["N"]}
    made = AffineKernel("k", arrays=arrays, block=[32], grid=[4], parameters={"N": 100, "T": 8}, body=body)
    inner = [load("A", "x", "j"), "barrier"]
    value = [{"if": ["x < N"], "do": [{"for": "j", "from": 0, "to": "N", "do": inner}, {"store": "v", "at": ["x"]}]}]
    assert made == load_affine(tiled(value))
    assert to_json(made)["body"] == value


def test_a_trace_can_be_cut_pickled_and_counted():
    trace = tracegen.affine_kernel("atax.1", NX=600, NY=16)
    assert len(trace) == len(tracegen.kernel("atax.1", NX=600, NY=16)) == len(trace.columns)
    trace.block(0)
    part = pickle.loads(pickle.dumps(trace.cut([1])))
    assert_same(columns(part, 1), columns(trace, 1))
    with pytest.raises(TraceError, match="it holds 1 of 3 blocks"):
        part.block(0)
    assert repr(part) == "AffineTrace('atax.1', grid=(3, 1, 1), block=(256, 1, 1), NX=600, NY=16)"
