"""Tiled kernels: what they load and store against the mathematics, an element at a time, for any sizes and tiles."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from importlib.resources import files
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel.errors import ConfigError, LaunchError, TraceError
from rdmodel.trace import EVERY_ITERATION, Op
from tests.support.examples import examples
from tests.support.naive_affine import assert_as_naive, columns
from tests.support.presets import FERMI
from tracegen.affine import AffineKernel, Load, Loop, load_affine, to_json
from tracegen.affine.nest import NestAccess, walk
from tracegen.kernel_library.registry import spec_of
from tracegen.kernel_library.suites import TILED

PRODUCTS = ("gemm.tiled", "syrk.tiled", "syr2k.tiled", "2mm.tiled.1", "2mm.tiled.2")
CUBES = ("3dconv.tiled", "jacobi3d.tiled")

# ---- the mathematics: (array, index) of what is loaded and what is stored


def product_of(left, right, c, loaded, rows, inner, across):
    """Return what c += left right takes: `left` and `right` say what they load for (i, j, k)."""
    loads = Counter()
    for i, j in product(range(rows), range(across)):
        loads.update([(c, (i, j))] if loaded else [])
        for k in range(inner):
            loads.update([*left(i, j, k), *right(i, j, k)])
    return loads, Counter((c, (i, j)) for i, j in product(range(rows), range(across)))


def gemm(NI, NJ, NK):
    return product_of(lambda i, j, k: [("a", (i, k))], lambda i, j, k: [("b", (k, j))], "c", True, NI, NK, NJ)


def syrk(N, M):
    return product_of(lambda i, j, k: [("a", (i, k))], lambda i, j, k: [("a", (j, k))], "c", True, N, M, N)


def syr2k(N, M):
    def left(i, j, k):
        return [("a", (i, k)), ("b", (j, k))]

    return product_of(left, lambda i, j, k: [("b", (i, k)), ("a", (j, k))], "c", True, N, M, N)


def mm2_1(NI, NJ, NK):
    return product_of(lambda i, j, k: [("A", (i, k))], lambda i, j, k: [("B", (k, j))], "tmp", False, NI, NK, NJ)


def mm2_2(NI, NJ, NL):
    return product_of(lambda i, j, k: [("tmp", (i, k))], lambda i, j, k: [("C", (k, j))], "D", True, NI, NJ, NL)


def transpose(NI, NJ):
    points = list(product(range(NI), range(NJ)))
    return Counter(("a", (j, i)) for i, j in points), Counter(("b", (i, j)) for i, j in points)


def stencil(near, *extents):
    """Return what a stencil takes: `near` are the distances of what each inner point loads."""
    inner = list(product(*(range(1, extent - 1) for extent in extents)))
    loads = Counter(("A", tuple(a + b for a, b in zip(at, by, strict=True))) for at in inner for by in near)
    return loads, Counter(("B", at) for at in inner)


def conv2d(NI, NJ):
    return stencil(list(product((-1, 0, 1), repeat=2)), NI, NJ)


def jacobi2d(NI, NJ):
    return stencil([by for by in product((-1, 0, 1), repeat=2) if np.abs(by).sum() <= 1], NI, NJ)


def jacobi3d(NI, NJ, NK):
    return stencil([by for by in product((-1, 0, 1), repeat=3) if np.abs(by).sum() <= 1], NI, NJ, NK)


def conv3d(NI, NJ, NK):
    # PolyBench's: the middle plane gives its middle column, the others their corners, and right neighbours.
    middle = [(0, j, 0) for j in (-1, 0, 1)]
    others = [(i, j, k) for i in (-1, 1) for j, k in ((-1, -1), (-1, 1), (0, 1), (1, 1))]
    return stencil(middle + others, NI, NJ, NK)


MATHEMATICS = {
    "gemm.tiled": gemm,
    "syrk.tiled": syrk,
    "syr2k.tiled": syr2k,
    "2mm.tiled.1": mm2_1,
    "2mm.tiled.2": mm2_2,
    "transpose.tiled": transpose,
    "2dconv.tiled": conv2d,
    "3dconv.tiled": conv3d,
    "jacobi2d.tiled": jacobi2d,
    "jacobi3d.tiled": jacobi3d,
}


def accessed(trace, op):
    """Return what all blocks of a trace access, counted by array and index."""
    shapes = {name: array.shape for name, array in trace.kernel.arrays.items()}
    extents = {name: [eval(str(n), {}, dict(trace.params)) for n in shape] for name, shape in shapes.items()}
    found = Counter()
    for block in trace.blocks:
        c = columns(trace, block)
        for row in np.flatnonzero(c.op == op):
            for address in c.addresses[c.address_start[row] : c.address_start[row + 1]].tolist():
                array = next(a for a in trace.launch.arrays if a.base <= address < a.base + a.bytes)
                index = np.unravel_index((address - array.base) // 4, extents[array.name])
                found[array.name, tuple(map(int, index))] += 1
    return found


def sizes_of(name, values):
    """Return the sizes of a kernel that its mathematics names, from a list."""
    names = MATHEMATICS[name].__code__.co_varnames[: MATHEMATICS[name].__code__.co_argcount]
    return dict(zip(names, values, strict=False))


TILES = st.sampled_from([1, 2, 3, 4, 5, 8, 16, 40])


@st.composite
def cases(draw, names=tuple(MATHEMATICS)):
    """Return a kernel, its sizes and tiles, among which are some that divide and some that do not."""
    name = draw(st.sampled_from(names))
    sizes = sizes_of(name, draw(st.lists(st.integers(1, 12), min_size=3, max_size=3)))
    tiles = {tile: draw(TILES) for tile in ("TI", "TJ", "TK") if tile in load_affine(name).parameters}
    block = {"BX": draw(st.sampled_from([1, 3, 4, 8, 32])), "BY": draw(st.sampled_from([1, 2, 5]))}
    return name, sizes, {**tiles, **block}


@examples(80)
@given(cases())
def test_every_tile_loads_and_stores_what_the_mathematics_says(case):
    name, sizes, tiles = case
    trace = tracegen.affine_kernel(name, **sizes, **tiles)
    loads, stores = MATHEMATICS[name](**sizes)
    assert accessed(trace, Op.LOAD) == loads
    assert accessed(trace, Op.STORE) == stores
    assert set(stores.values()) <= {1}  # one thread, once


def json_of(name, **params):
    value = json.loads((files("tracegen") / "kernel_library" / "affine" / f"{name}.json").read_text())
    return {**value, "parameters": {**value["parameters"], **params}}


@examples(25)
@given(cases(), st.data())
def test_threads_go_through_their_points_in_the_order_that_is_written(case, data):
    name, sizes, tiles = case
    trace = tracegen.affine_kernel(name, **sizes, **tiles)
    assert_as_naive(json_of(name, **sizes, **tiles), trace, data.draw(st.sampled_from(trace.blocks)))


@examples(30)
@given(
    name=st.sampled_from([*PRODUCTS, "gemm.shared"]),
    long=st.integers(20, 70),
    tile=st.integers(1, 9),
    points=st.sampled_from([{"TI": 4, "TJ": 6}, {"TI": 2, "TJ": 3}, {"TI": 3, "TJ": 4}, {"TI": 1, "TJ": 9}]),
)
def test_long_rows_of_k_tiles_are_what_is_written(name, long, tile, points):
    long_size = {"gemm.tiled": "NK", "gemm.shared": "NK", "2mm.tiled.1": "NK", "2mm.tiled.2": "NJ"}.get(name, "M")
    sizes = {size: 5 for size in ("NI", "NJ", "NK", "NL", "N", "M") if size in load_affine(name).parameters}
    sizes |= {long_size: long, "TK": tile, "BX": 3, "BY": 2, **points}
    trace = tracegen.affine_kernel(name, **sizes)
    for block in (0, trace.launch.blocks - 1):
        assert_as_naive(json_of(name, **sizes), trace, block)


def test_k_tiles_that_do_the_same_are_iterations_of_one_segment():
    sizes = {"NI": 8, "NJ": 16, "NK": 101, "TI": 4, "TJ": 8, "TK": 4, "BX": 4, "BY": 2}
    trace = tracegen.affine_kernel("gemm.tiled", **sizes)
    longest = max(trace.block(0), key=lambda segment: segment.instructions)
    assert longest.trips == 100 // 4 - 2  # the first waits for other loads, the second is the one that is repeated
    assert (longest.loop_exit == EVERY_ITERATION).sum() == 2 * 4  # both loads of the last k, for each of four points
    assert len(trace.block(0)) < 40
    assert_as_naive(json_of("gemm.tiled", **sizes), trace, 3)


@pytest.mark.parametrize("name", TILED)
def test_all_subscripts_are_proven_to_be_inside(name):
    for tiles in ({}, {"TI": 7, "TJ": 33}):
        nest = tracegen.affine_kernel(name, **tiles)._nest
        assert all(node.inside for node in walk(nest.body) if isinstance(node, NestAccess))


# ---- what tiles change, and what they do not


def loads_of(trace, block):
    c = columns(trace, block)
    return [
        [
            c.addresses[c.address_start[row] : c.address_start[row + 1]].tolist()
            for row in range(c.warp_start[warp], c.warp_start[warp + 1])
            if c.op[row] == Op.LOAD
        ]
        for warp in range(c.warps)
    ]


@pytest.mark.parametrize(
    ("tiled", "plain", "sizes"),
    [
        ("gemm.tiled", "gemm", {"NI": 21, "NJ": 70, "NK": 13}),
        ("syrk.tiled", "syrk", {"N": 37, "M": 13}),
        ("syr2k.tiled", "syr2k", {"N": 37, "M": 9}),
        ("2mm.tiled.1", "2mm.1", {"NI": 21, "NJ": 70, "NK": 13}),
        ("2mm.tiled.2", "2mm.2", {"NI": 21, "NJ": 13, "NL": 70}),
        ("2dconv.tiled", "2dconv", {"NI": 21, "NJ": 70}),
    ],
)
def test_tiles_of_one_point_per_thread_load_as_the_kernel_without_tiles(tiled, plain, sizes):
    inner = {"TK": 1000} if "TK" in load_affine(tiled).parameters else {}
    one = tracegen.affine_kernel(tiled, **sizes, TI=8, TJ=32, **inner)
    other = tracegen.kernel(plain, **sizes)
    assert one.launch.grid == other.launch.grid
    for block in one.blocks:
        assert loads_of(one, block) == loads_of(other, block)


def test_tiles_change_locality_and_not_the_work():
    tiles = [{"TI": 8, "TJ": 32}, {"TI": 32, "TJ": 32}, {"TI": 64, "TJ": 64}]
    found = [rd.predict(tracegen.kernel("syrk.tiled", N=128, M=64, TK=8, **tile), threads=None) for tile in tiles]
    whole = [
        rd.predict(tracegen.kernel("syrk.tiled", N=128, M=64, TK=8, **t), model_sms="all", threads=None) for t in tiles
    ]
    assert len({p.misses.total for p in found}) == 3
    assert len({p.transactions for p in whole}) == 1


def test_the_length_of_k_tiles_changes_the_order_only():
    short, long = (tracegen.kernel("gemm.tiled", NI=16, NJ=32, NK=48, TI=16, TK=tk) for tk in (8, 24))
    assert accessed(short, Op.LOAD) == accessed(long, Op.LOAD)
    assert len(short) == len(long)
    assert loads_of(short, 0) != loads_of(long, 0)


def test_sums_in_registers_need_one_for_each_point():
    registers = [
        tracegen.kernel("gemm.tiled", TI=ti, TJ=tj).launch.registers for ti, tj in ((8, 32), (64, 64), (65, 65))
    ]
    assert registers == [16 + 1, 16 + 8 * 2, 16 + 9 * 3]
    assert tracegen.kernel("gemm.tiled", TI=64, TJ=64, block=(16, 16)).launch.registers == 16 + 4 * 4


# ---- gemm through shared memory


@examples(25)
@given(st.data())
def test_gemm_through_shared_memory_loads_each_tile_once_per_block(data):
    ni, nj, nk = (data.draw(st.integers(1, 11)) for _ in range(3))
    ti, tj, tk = (data.draw(TILES) for _ in range(3))
    trace = tracegen.affine_kernel("gemm.shared", NI=ni, NJ=nj, NK=nk, TI=ti, TJ=tj, TK=tk, BX=4, BY=3)
    loads = Counter({("a", at): -(-nj // tj) for at in product(range(ni), range(nk))})
    loads |= Counter({("b", at): -(-ni // ti) for at in product(range(nk), range(nj))})
    loads |= Counter({("c", at): 1 for at in product(range(ni), range(nj))})
    assert accessed(trace, Op.LOAD) == loads
    assert accessed(trace, Op.STORE) == Counter(("c", at) for at in product(range(ni), range(nj)))
    barriers = sum(int((columns(trace, block).op == Op.BARRIER).sum()) for block in trace.blocks)
    assert barriers == 2 * -(-nk // tk) * trace.launch.blocks
    assert trace.launch.shared_memory == 4 * (ti * tk + tk * tj)


def test_a_tile_that_does_not_fit_into_shared_memory_says_so():
    trace = tracegen.kernel("gemm.shared", TI=128, TJ=128, TK=64)
    with pytest.raises(LaunchError, match="needs 65536 bytes of shared memory, an SM of gtx470-16k has 49152"):
        rd.predict(trace, gpu=FERMI)


# ---- names


@pytest.mark.parametrize("name", TILED)
def test_tiled_kernels_are_found_wherever_kernels_are(name, run):
    named, nest = tracegen.kernel(name), tracegen.affine_kernel(name)
    spec = spec_of(name)
    assert named.launch == nest.launch
    assert (named.launch.kernel, named.launch.block, dict(spec.sizes)) == (spec.name, spec.block, named.params)
    assert spec in tracegen.kernels()
    assert spec.inputs == ()
    listed = {one["name"]: one for one in json.loads(run("kernels", "--json")[1])}
    assert listed[name]["sizes"] == spec.sizes
    assert spec.kernel == load_affine(name)


def test_the_command_line_and_python_predict_the_same(run):
    status, out, _ = run("predict", "syrk.tiled", "--param", "N=96", "--param", "M=64", "--param", "TI=16", "--json")
    assert status == 0
    assert json.loads(out)["transactions"] == rd.predict(tracegen.kernel("syrk.tiled", N=96, M=64, TI=16)).transactions


def test_a_loop_nest_gives_its_trace_itself():
    kernel = load_affine("transpose.tiled")
    trace = kernel.trace(NI=100, TI=np.int64(16), block=(16, 4), blocks=[1, 3], base=1 << 20)
    other = tracegen.affine_kernel(kernel, NI=100, TI=16, block=(16, 4), blocks=[1, 3], base=1 << 20)
    assert (trace.launch, trace.params, trace.blocks) == (other.launch, other.params, [1, 3])
    assert json.dumps(trace.params)
    copied = pickle.loads(pickle.dumps(kernel)).trace(NI=100)
    assert copied.launch == kernel.trace(NI=100).launch


def test_nothing_is_computed():
    with pytest.raises(ConfigError, match=r"gemm\.tiled: has no computed result"):
        spec_of("gemm.tiled").result(NI=8)


# ---- bad input

BAD = {
    "TI=0": "gemm.tiled: TI=0: must be TI >= 1",
    "TJ=-3": "gemm.tiled: TJ=-3: must be TJ >= 1",
    "TK=-8": "gemm.tiled: TK=-8: must be TK >= 1",
    "TK=x": "param TK='x': must be a whole number",
    "TQ=8": "unknown parameter of gemm.tiled 'TQ'",
    "BX=64 BY=32": "block=[64, 32]: 2048 threads, at most 1024 fit in a block",
    "BX=0": "block=[0, 8]",
    "NI=0": "grid=[16, 0]",
    "NI=9223372036854775807": "has numbers beyond 2^63",
    "TI=4611686018427387904": "reaches numbers beyond 2^62",
    "TI=100000 NI=8": "registers",
}


@pytest.mark.parametrize(("given", "said"), BAD.items())
def test_tiles_that_cannot_be_are_refused_in_a_line(run, given, said):
    options = [part for pair in given.split() for part in ("--param", pair)]
    status, out, err = run("predict", "gemm.tiled", *options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def vector(**fields):
    body = [Loop("i", 0, "N", [Load("v", "i")])]
    return AffineKernel(
        "k", arrays={"v": ["N"]}, parameters={"N": 8, "T": 2}, block=[32], grid=[1], body=body, **fields
    )


def test_a_kernel_says_what_it_requires_of_parameters():
    kernel = vector(requires=["0 < T <= N", "N % 2 == 0"])
    assert to_json(kernel)["requires"] == ["0 < T <= N", "N % 2 == 0"]
    assert load_affine(to_json(kernel)) == kernel
    assert kernel.trace(T=8).params == {"N": 8, "T": 8}
    with pytest.raises(ConfigError, match=r"^k: N=8, T=9: must be 0 < T <= N$"):
        kernel.trace(T=9)
    with pytest.raises(ConfigError, match=r"^k: N=9: must be N % 2 == 0$"):
        kernel.trace(N=9)
    with pytest.raises(TraceError, match=r"^k: requires: 'Q > 0': unknown name"):
        vector(requires="Q > 0").trace()
    for wrong in ("T", 3, [3], ["T >"]):
        with pytest.raises(TraceError, match=r"^requires"):
            vector(requires=wrong)
