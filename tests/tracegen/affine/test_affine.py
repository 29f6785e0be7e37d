"""Affine kernels: traces against a naive interpreter, an access at a time, and against `tracegen.trace`."""

from __future__ import annotations

import pickle
import re
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import tracegen
from rdmodel.errors import TraceError
from rdmodel.trace import WARP, Columns, Op
from rdmodel.trace.expansion import expand
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
from tracegen.affine.nest import NestAccess, NestLoop, walk
from tracegen.kernel_library.suites import POLYBENCH, TILED

EXACT = ("warp_start", "op", "space", "size", "gap", "needs", "loop_exit", "mask", "address_start", "addresses")
OPS = {"load": Op.LOAD, "store": Op.STORE, "atomic": Op.ATOMIC}


def renumbered(pc):
    """Return pcs numbered by first appearance."""
    numbers: dict[int, int] = {}
    return [numbers.setdefault(int(one), len(numbers)) for one in pc]


def assert_same(one: Columns, other: Columns, where=""):
    for name in EXACT:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=f"{name} {where}")
    assert renumbered(one.pc) == renumbered(other.pc), where


def columns(trace, block):
    return expand(trace.block(block), trace.launch.block_warps)


# ---- the oracle: plain Python over the JSON, threads one by one, no formula in common with tracegen.affine


def shape_of(kernel):
    """Return the values of names that all threads share, the block and the grid."""
    values = dict(kernel.get("parameters", {}))
    size = [*(number(n, values) for n in kernel["block"]), 1, 1][:3]
    values |= dict(zip(("block_size_x", "block_size_y", "block_size_z"), size, strict=True))
    if "grid" in kernel:
        return values, size, [*(number(n, values) for n in kernel["grid"]), 1, 1][:3]
    threads = [*(number(n, values) for n in kernel["threads"]), 1, 1][:3]
    return values, size, [-(-n // s) for n, s in zip(threads, size, strict=True)]


def number(text, values):
    return text if isinstance(text, int) else eval(text, {"min": min, "max": max, **values})  # the tests' own text


class Naive:
    """Runs one block of a kernel in JSON; expressions are evaluated by Python, whose syntax they share."""

    def __init__(self, kernel: dict[str, Any], block: int, base: int = 1 << 28) -> None:
        self.values, size, grid = shape_of(kernel)
        at = block % grid[0], block // grid[0] % grid[1], block // (grid[0] * grid[1])
        self.threads = []
        for lane in range(prod(size)):
            thread = lane % size[0], lane // size[0] % size[1], lane // (size[0] * size[1])
            ids = {}
            for axis, b, t, s in zip("xyz", at, thread, size, strict=True):
                ids |= {axis: b * s + t, f"block_{axis}": b, f"thread_{axis}": t}
            self.threads.append(ids)
        self.arrays = {}
        for name, shape in kernel["arrays"].items():
            extents = [self.number(n) for n in shape]
            self.arrays[name] = base, extents
            base += -(-prod(extents) * 4 // 256) * 256
        warps = -(-len(self.threads) // WARP)
        self.rows: list[list[tuple[Any, ...]]] = [[] for _ in range(warps)]
        self.open: list[list[int]] = [[] for _ in range(warps)]
        self.waiting = [False] * warps
        self.gap = 0
        self.body(kernel["body"], list(range(len(self.threads))), False, "body")

    def number(self, text, thread=None):
        return number(text, {**self.values, **(thread or {})})

    def body(self, statements, active, last, where):
        for i, statement in enumerate(statements):
            if active:
                self.statement(statement, active, last, f"{where}[{i}]")

    def statement(self, s, active, last, where):
        if s == "wait":
            for lane in active:
                self.waiting[lane // WARP] = True
        elif s == "barrier":
            self.row(Op.BARRIER, dict.fromkeys(active), False, where)
        elif "gap" in s:
            self.gap += s["gap"]
        elif "if" in s:
            holding = [n for n in active if all(self.number(c, self.threads[n]) for c in s["if"])]
            self.body(s["do"], holding, last, where)
        elif "for" in s:
            self.loop(s, active, where)
        else:
            (kind,) = OPS.keys() & s.keys()
            self.row(OPS[kind], {n: self.address(s[kind], s["at"], n) for n in active}, last, where)

    def loop(self, s, active, where):
        ranges = {}
        for lane in active:
            thread = self.threads[lane]
            ends = self.number(s.get("from", 0), thread), self.number(s["to"], thread)
            ranges[lane] = range(*ends, self.number(s.get("step", 1)))
        trips = max(map(len, ranges.values()))
        for t in range(trips):
            running = [lane for lane in active if t < len(ranges[lane])]
            for lane in running:
                self.threads[lane][s["for"]] = ranges[lane][t]
            self.body(s["do"], running, t == trips - 1, where)

    def address(self, array, subscripts, lane):
        base, extents = self.arrays[array]
        index = 0
        for subscript, extent in zip(subscripts, extents, strict=True):
            at = self.number(subscript, self.threads[lane])
            if not 0 <= at < extent:
                raise IndexError(f"{array} {at}")
            index = index * extent + at
        return base + 4 * index

    def row(self, op, addresses, last, where):
        gap, self.gap = self.gap, 0
        for warp in sorted({lane // WARP for lane in addresses}):
            rows, needs = self.rows[warp], 0
            if op != Op.BARRIER:
                if op != Op.LOAD or self.waiting[warp]:
                    position = sum(row[0] != Op.BARRIER for row in rows)
                    needs = sum(1 << (position - 1 - p) for p in self.open[warp] if position - 1 - p < 64)
                    self.open[warp], self.waiting[warp] = [], False
                if op == Op.LOAD:
                    self.open[warp].append(sum(row[0] != Op.BARRIER for row in rows))
            lanes = {lane % WARP: a for lane, a in addresses.items() if lane // WARP == warp}
            mask = sum(1 << lane for lane in lanes)
            rows.append(
                (op, gap, needs, last and op == Op.LOAD, mask, [a for a in lanes.values() if a is not None], where)
            )


def assert_as_naive(kernel, trace, block):
    got, naive = columns(trace, block), Naive(kernel, block)
    assert np.diff(got.warp_start).tolist() == [len(rows) for rows in naive.rows]
    for i, (op, gap, needs, last, mask, addresses, where) in enumerate(row for rows in naive.rows for row in rows):
        at = f"block {block}, row {i}, {where}"
        assert (got.op[i], got.mask[i]) == (op, mask), at
        assert got.addresses[got.address_start[i] : got.address_start[i + 1]].tolist() == addresses, at
        assert (got.gap[i], int(got.needs[i]), got.loop_exit[i]) == (gap, needs, last), at
    places = [row[-1] for rows in naive.rows for row in rows]
    assert renumbered(got.pc) == [dict(zip(dict.fromkeys(places), range(len(places)), strict=False))[p] for p in places]


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

ARRAYS = {"A": ["N", 40], "B": [200]}
COEFFICIENTS = st.integers(-2, 2)


@st.composite
def sums(draw, variables, terms=2):
    """Return the text of an affine expression of some variables, the block's and the thread's."""
    chosen = draw(st.lists(st.sampled_from(variables), min_size=0, max_size=terms, unique=True))
    parts = [f"{draw(COEFFICIENTS)}*{name}" for name in chosen] + [str(draw(st.integers(-3, 6)))]
    return " + ".join(parts)


@st.composite
def bounds_of_loops(draw, variables):
    parts = draw(st.lists(sums(variables), min_size=1, max_size=2))
    return parts[0] if len(parts) == 1 else f"{draw(st.sampled_from(['min', 'max']))}({', '.join(parts)})"


@st.composite
def bodies(draw, variables, depth):
    statements: list[Any] = []
    for _ in range(draw(st.integers(1, 3))):
        kinds = ["access", "access", "fitting", "other"] + (["for", "if", "for"] if depth else [])
        kind = draw(st.sampled_from(kinds))
        if kind == "access":
            op = draw(st.sampled_from(["load", "load", "store", "atomic"]))
            at = [f"{draw(sums(variables))} + {draw(st.sampled_from([0, 20, 60, 100]))}"]
            statements.append({op: "B", "at": at})
        elif kind == "fitting":
            row, column = draw(sums(variables)), draw(sums(variables))
            fits = [f"0 <= {row}", f"{row} < N", f"{column} >= 0", f"{column} <= 39"]
            statements.append({"if": fits, "do": [{"load": "A", "at": [row, column]}]})
        elif kind == "other":
            statements.append(draw(st.sampled_from(["wait", "barrier", {"gap": 3}, {"gap": 1}])))
        elif kind == "if":
            signs = st.sampled_from(["<", "<=", ">", ">=", "=="])
            conditions = [
                f"{draw(sums(variables))} {draw(signs)} {draw(sums(variables))}" for _ in range(draw(st.integers(1, 2)))
            ]
            statements.append({"if": conditions, "do": draw(bodies(variables, depth - 1))})
        else:
            name = f"i{depth}"
            loop = {"for": name, "from": draw(bounds_of_loops(variables)), "to": draw(bounds_of_loops(variables))}
            step = draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
            body = draw(bodies([*variables, name], depth - 1))
            statements.append({**loop, "step": step, "do": body})
    return statements


@st.composite
def kernels(draw, depth=3):
    variables = ["x", "y", "thread_x", "block_x", "block_y", "N"]
    grid = draw(st.sampled_from([{"grid": [3]}, {"grid": [2, 2]}, {"threads": ["N * 5", 3]}, {"threads": [70, "N"]}]))
    return {
        "name": "random",
        "parameters": {"N": draw(st.integers(1, 9))},
        "arrays": {"A": ["N", 40], "B": [200]},
        **grid,
        "block": draw(st.sampled_from([[8], [33], [6, 3], [32, 2], [5, "N"]])),
        "body": draw(bodies(variables, depth)),
    }


MOST_ROWS = 3000
"""What the naive interpreter is asked for at most."""


def iterations(kernel):
    """Return the trace of a kernel and all its columns, or the error."""
    trace = None
    try:
        trace = tracegen.affine_kernel(kernel)
        assume(prod(node.most for node in walk(trace._nest.body) if isinstance(node, NestLoop)) < MOST_ROWS)
        assume(sum(segment.instructions for block in trace.blocks for segment in trace.block(block)) < MOST_ROWS)
        return trace, [columns(trace, block) for block in trace.blocks]
    except TraceError as error:
        return trace, error


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(kernels())
def test_random_kernels_do_what_the_naive_interpreter_does(kernel):
    trace, found = iterations(kernel)
    if isinstance(found, TraceError):
        assert re.search(r"indices 0 to|2\^62", str(found)), found
        with pytest.raises(IndexError):
            all(Naive(kernel, block) for block in range(prod(shape_of(kernel)[2])))
        return
    for block in trace.blocks:
        assert_as_naive(kernel, trace, block)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(kernels(depth=2))
def test_random_kernels_go_to_json_and_back(kernel):
    made = load_affine(kernel)
    assert from_json(to_json(made)) == made


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(kernels(depth=2))
def test_random_kernels_equal_the_same_run_as_python(kernel):
    trace, found = iterations(kernel)
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
                    for i in k.range(value(s["from"]), value(s["to"]), s["step"]):
                        body(k, inner, arrays, {**names, name: i})
                case _:
                    (op,) = OPS.keys() & s.keys()
                    getattr(k, op)(arrays[s[op]], *map(value, s["at"]))

    def run(k, A, B, N):
        ids = {"x": k.x, "y": k.y, "thread_x": k.thread_x, "block_x": k.block_x, "block_y": k.block_y, "N": N}
        body(k, kernel["body"], {"A": A, "B": B}, ids)

    n = kernel["parameters"]["N"]
    arrays = {"A": (n, 40), "B": 200}
    other = tracegen.trace(run, grid=trace.launch.grid, block=trace.launch.block, arrays=arrays, N=n)
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
    assert [trace.block(block)[0].trips for block in (0, 11, 12)] == [8, 8, 4]
    assert len(trace._generator._cache) == 2


def test_a_triangular_loop_is_split_where_threads_leave():
    kernel = tiled([{"for": "j", "from": 0, "to": "x + 1", "do": [load("A", "x", "j")]}], grid=[1])
    program = tracegen.affine_kernel(kernel).block(0)
    assert [segment.trips for segment in program] == [1] * 32
    assert [int(segment.mask[0, 0]).bit_count() for segment in program] == list(range(32, 0, -1))


def test_a_guard_on_the_loop_variable_splits_the_loop_and_nothing_is_unrolled():
    kernel = tiled(
        [{"for": "j", "to": "N", "do": [{"if": ["10 <= j < 90"], "do": [load("A", 0, "j")]}, load("v", "j")]}]
    )
    trace = tracegen.affine_kernel(kernel)
    assert [segment.trips for segment in trace.block(0)] == [10, 80, 10]
    assert_as_naive(kernel, trace, 0)


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
