"""Test the 30 kernels of PolyBench/GPU against scalar versions, which make one access of one thread at a time."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

import tracegen
from rdmodel.errors import ConfigError, LaunchError, TraceError
from rdmodel.trace import Op
from tracegen.kernel_library.suites import POLYBENCH

L, S = int(Op.LOAD), int(Op.STORE)


def conv2d(x, y, NI, NJ):
    i, j = y, x
    if 0 < i < NI - 1 and 0 < j < NJ - 1:
        for r in (i - 1, i, i + 1):
            for c in (j - 1, j, j + 1):
                yield L, "A", r * NJ + c
        yield S, "B", i * NJ + j


OFFSETS_3D = "--- +-- 0-0 000 0+0 --+ +-+ -0+ +0+ -++ +++"


def conv3d(x, y, NI, NJ, NK, I):  # noqa: E741
    i, j, k = I, y, x
    if 0 < i < NI - 1 and 0 < j < NJ - 1 and 0 < k < NK - 1:
        for text in OFFSETS_3D.split():
            di, dj, dk = ({"-": -1, "0": 0, "+": 1}[c] for c in text)
            yield L, "A", ((i + di) * NJ + j + dj) * NK + k + dk
        yield S, "B", (i * NJ + j) * NK + k


def product(i, j, height, depth, width, a, b, c, reload=False):
    if i < height and j < width:
        if reload:
            yield L, c, i * width + j
        yield S, c, i * width + j
        for k in range(depth):
            yield L, a, i * depth + k
            yield L, b, k * width + j
            yield S, c, i * width + j


def mm2_1(x, y, NI, NJ, NK, NL):
    return product(y, x, NI, NK, NJ, "A", "B", "tmp")


def mm2_2(x, y, NI, NJ, NK, NL):
    return product(y, x, NI, NJ, NL, "tmp", "C", "D", reload=True)


def mm3_1(x, y, NI, NJ, NK, NL, NM):
    return product(y, x, NI, NK, NJ, "A", "B", "E")


def mm3_2(x, y, NI, NJ, NK, NL, NM):
    return product(y, x, NJ, NM, NL, "C", "D", "F")


def mm3_3(x, y, NI, NJ, NK, NL, NM):
    return product(y, x, NI, NJ, NL, "E", "F", "G")


def gemm(x, y, NI, NJ, NK):
    return product(y, x, NI, NK, NJ, "a", "b", "c", reload=True)


def atax_1(x, y, NX, NY):
    if x < NX:
        yield S, "tmp", x
        for j in range(NY):
            yield from ((L, "A", x * NY + j), (L, "x", j), (S, "tmp", x))


def atax_2(x, y, NX, NY):
    if x < NY:
        yield S, "y", x
        for i in range(NX):
            yield from ((L, "A", i * NY + x), (L, "tmp", i), (S, "y", x))


def bicg_1(x, y, NX, NY):
    if x < NY:
        yield S, "s", x
        for i in range(NX):
            yield from ((L, "r", i), (L, "A", i * NY + x), (S, "s", x))


def bicg_2(x, y, NX, NY):
    if x < NX:
        yield S, "q", x
        for j in range(NY):
            yield from ((L, "A", x * NY + j), (L, "p", j), (S, "q", x))


def mean(x, y, M, N):
    if x < M:
        yield S, "mean", x
        for i in range(N):
            yield from ((L, "data", i * M + x), (S, "mean", x))
        yield S, "mean", x


def corr_std(x, y, M, N):
    if x < M:
        yield S, "std", x
        for i in range(N):
            yield from ((L, "data", i * M + x), (L, "mean", x), (S, "std", x))
        yield S, "std", x
        yield S, "std", x


def corr_reduce(x, y, M, N):
    if x < M and y < N:
        here = y * M + x
        yield from ((L, "data", here), (L, "mean", x), (S, "data", here), (L, "std", x), (S, "data", here))


def covar_reduce(x, y, M, N):
    if x < M and y < N:
        yield from ((L, "data", y * M + x), (L, "mean", x), (S, "data", y * M + x))


def pairs(j1, start, M, N):
    for j2 in range(start, M):
        yield S, "symmat", j1 * M + j2
        for i in range(N):
            yield from ((L, "data", i * M + j1), (L, "data", i * M + j2), (S, "symmat", j1 * M + j2))
        yield S, "symmat", j2 * M + j1


def corr_corr(x, y, M, N):
    if x < M - 1:
        yield S, "symmat", x * M + x
        yield from pairs(x, x + 1, M, N)


def covar_covar(x, y, M, N):
    if x < M:
        yield from pairs(x, x, M, N)


def fdtd2d_1(x, y, NX, NY, T):
    i, j = y, x
    if i < NX and j < NY:
        if i == 0:
            yield from ((L, "fict", T), (S, "ey", j))
        else:
            here = i * NY + j
            yield from ((L, "ey", here), (L, "hz", here), (L, "hz", here - NY), (S, "ey", here))


def fdtd2d_2(x, y, NX, NY, T):
    i, j = y, x
    if i < NX and 0 < j < NY:
        here = i * NY + j
        yield from ((L, "ex", here), (L, "hz", here), (L, "hz", here - 1), (S, "ex", here))


def fdtd2d_3(x, y, NX, NY, T):
    i, j = y, x
    if i < NX - 1 and j < NY - 1:
        here = i * NY + j
        yield L, "hz", here
        yield from ((L, "ex", here + 1), (L, "ex", here), (L, "ey", here + NY), (L, "ey", here))
        yield S, "hz", here


def gesummv(x, y, N):
    if x < N:
        for j in range(N):
            yield from ((L, "tmp", x), (L, "A", x * N + j), (L, "x", j), (S, "tmp", x))
            yield from ((L, "y", x), (L, "B", x * N + j), (L, "x", j), (S, "y", x))
        yield from ((L, "y", x), (S, "y", x))


def gramschmidt_1(x, y, NI, NJ, K):
    if x == 0:
        for i in range(NI):
            yield L, "a", i * NJ + K
        yield S, "r", K * NJ + K


def gramschmidt_2(x, y, NI, NJ, K):
    if x < NI:
        yield from ((L, "a", x * NJ + K), (L, "r", K * NJ + K), (S, "q", x * NJ + K))


def gramschmidt_3(x, y, NI, NJ, K):
    if K < x < NJ:
        r = K * NJ + x
        yield S, "r", r
        for i in range(NI):
            yield from ((L, "q", i * NJ + K), (L, "a", i * NJ + x), (S, "r", r))
        for i in range(NI):
            yield from ((L, "a", i * NJ + x), (L, "q", i * NJ + K), (L, "r", r), (S, "a", i * NJ + x))


def mvt_1(x, y, N):
    if x < N:
        yield L, "x1", x
        for j in range(N):
            yield from ((L, "a", x * N + j), (L, "y1", j), (S, "x1", x))


def mvt_2(x, y, N):
    if x < N:
        yield L, "x2", x
        for j in range(N):
            yield from ((L, "a", j * N + x), (L, "y2", j), (S, "x2", x))


def syrk(x, y, N, M):
    i, j = y, x
    if i < N and j < N:
        yield from ((L, "c", i * N + j), (S, "c", i * N + j))
        for k in range(M):
            yield from ((L, "a", i * M + k), (L, "a", j * M + k), (S, "c", i * N + j))


def syr2k(x, y, N, M):
    i, j = y, x
    if i < N and j < N:
        yield from ((L, "c", i * N + j), (S, "c", i * N + j))
        for k in range(M):
            yield from ((L, "a", i * M + k), (L, "b", j * M + k), (L, "b", i * M + k), (L, "a", j * M + k))
            yield S, "c", i * N + j


ROWS = {
    "2dconv": (conv2d, {"NI": 19, "NJ": 37}),
    "2mm.1": (mm2_1, {"NI": 9, "NJ": 35, "NK": 5, "NL": 4}),
    "2mm.2": (mm2_2, {"NI": 9, "NJ": 5, "NK": 3, "NL": 35}),
    "3dconv": (conv3d, {"NI": 6, "NJ": 11, "NK": 35, "I": 2}),
    "3mm.1": (mm3_1, {"NI": 9, "NJ": 35, "NK": 5, "NL": 4, "NM": 3}),
    "3mm.2": (mm3_2, {"NI": 9, "NJ": 10, "NK": 5, "NL": 34, "NM": 3}),
    "3mm.3": (mm3_3, {"NI": 9, "NJ": 6, "NK": 5, "NL": 33, "NM": 3}),
    "atax.1": (atax_1, {"NX": 300, "NY": 7}),
    "atax.2": (atax_2, {"NX": 7, "NY": 300}),
    "bicg.1": (bicg_1, {"NX": 7, "NY": 300}),
    "bicg.2": (bicg_2, {"NX": 300, "NY": 7}),
    "corr.mean": (mean, {"M": 270, "N": 5}),
    "corr.std": (corr_std, {"M": 270, "N": 5}),
    "corr.reduce": (corr_reduce, {"M": 37, "N": 19}),
    "corr.corr": (corr_corr, {"M": 45, "N": 3}),
    "covar.mean": (mean, {"M": 270, "N": 5}),
    "covar.reduce": (covar_reduce, {"M": 37, "N": 70}),
    "covar.covar": (covar_covar, {"M": 45, "N": 3}),
    "fdtd2d.1": (fdtd2d_1, {"NX": 11, "NY": 37, "T": 3}),
    "fdtd2d.2": (fdtd2d_2, {"NX": 11, "NY": 37, "T": 0}),
    "fdtd2d.3": (fdtd2d_3, {"NX": 11, "NY": 37, "T": 0}),
    "gemm": (gemm, {"NI": 9, "NJ": 35, "NK": 5}),
    "gesummv": (gesummv, {"N": 70}),
    "gramschmidt.1": (gramschmidt_1, {"NI": 80, "NJ": 4, "K": 2}),
    "gramschmidt.2": (gramschmidt_2, {"NI": 270, "NJ": 4, "K": 2}),
    "gramschmidt.3": (gramschmidt_3, {"NI": 4, "NJ": 270, "K": 5}),
    "mvt.1": (mvt_1, {"N": 70}),
    "mvt.2": (mvt_2, {"N": 70}),
    "syr2k": (syr2k, {"N": 35, "M": 4}),
    "syrk": (syrk, {"N": 35, "M": 4}),
}


# The layout of the CUDA source (PAD=1): rows and columns from 1 to M, in matrices of M + 1.


def padded_mean(x, y, M, N, PAD):
    j = x + 1
    if 1 <= j <= M:
        yield S, "mean", j
        for i in range(1, N + 1):
            yield from ((L, "data", i * (M + 1) + j), (S, "mean", j))
        yield S, "mean", j


def padded_std(x, y, M, N, PAD):
    j = x + 1
    if 1 <= j <= M:
        yield S, "std", j
        for i in range(1, N + 1):
            yield from ((L, "data", i * (M + 1) + j), (L, "mean", j), (S, "std", j))
        yield S, "std", j
        yield S, "std", j


def padded_corr_reduce(x, y, M, N, PAD):
    i, j = y + 1, x + 1
    if i <= N and j <= M:
        here = i * (M + 1) + j
        yield from ((L, "data", here), (L, "mean", j), (S, "data", here), (L, "std", j), (S, "data", here))


def padded_covar_reduce(x, y, M, N, PAD):
    i, j = y + 1, x + 1
    if i <= N and j <= M:
        yield from ((L, "data", i * (M + 1) + j), (L, "mean", j), (S, "data", i * (M + 1) + j))


def padded_pairs(j1, start, M, N):
    row = M + 1
    for j2 in range(start, M + 1):
        yield S, "symmat", j1 * row + j2
        for i in range(1, N + 1):
            yield from ((L, "data", i * row + j1), (L, "data", i * row + j2), (S, "symmat", j1 * row + j2))
        yield S, "symmat", j2 * row + j1


def padded_corr(x, y, M, N, PAD):
    j1 = x + 1
    if 1 <= j1 < M:
        yield S, "symmat", j1 * (M + 1) + j1
        yield from padded_pairs(j1, j1 + 1, M, N)


def padded_covar(x, y, M, N, PAD):
    if x + 1 <= M:
        yield from padded_pairs(x + 1, x + 1, M, N)


def padded_fdtd2d_2(x, y, NX, NY, T, PAD):
    i, j = y, x
    if i < NX and 0 < j < NY:
        ex = i * (NY + 1) + j
        yield from ((L, "ex", ex), (L, "hz", i * NY + j), (L, "hz", i * NY + j - 1), (S, "ex", ex))


def padded_fdtd2d_3(x, y, NX, NY, T, PAD):
    i, j = y, x
    if i < NX and j < NY:
        yield L, "hz", i * NY + j
        yield from ((L, "ex", i * (NY + 1) + j + 1), (L, "ex", i * (NY + 1) + j))
        yield from ((L, "ey", (i + 1) * NY + j), (L, "ey", i * NY + j))
        yield S, "hz", i * NY + j


PADDED = {
    "corr.mean": padded_mean,
    "corr.std": padded_std,
    "corr.reduce": padded_corr_reduce,
    "corr.corr": padded_corr,
    "covar.mean": padded_mean,
    "covar.reduce": padded_covar_reduce,
    "covar.covar": padded_covar,
    "fdtd2d.1": lambda PAD, **sizes: fdtd2d_1(**sizes),
    "fdtd2d.2": padded_fdtd2d_2,
    "fdtd2d.3": padded_fdtd2d_3,
}
CASES = [(name, None) for name in ROWS] + [
    ("2dconv", (8, 8, 1)),
    ("3dconv", (5, 7, 1)),
    ("fdtd2d.1", (16, 4, 1)),
    ("fdtd2d.3", (7, 3, 1)),
    ("corr.corr", (20, 1, 1)),
    ("covar.reduce", (16, 16, 1)),
    ("gesummv", (33, 1, 1)),
    ("gramschmidt.3", (64, 1, 1)),
    ("syrk", (16, 16, 1)),
]


def accesses_by_thread(trace):
    """Return {global (x, y): [(op, address), ...]} of a trace, in program order."""
    c, launch = trace.columns, trace.launch
    c.check()
    found = {}
    for w in range(c.warps):
        block, warp = divmod(w, launch.block_warps)
        for row in range(c.warp_start[w], c.warp_start[w + 1]):
            addresses = iter(c.addresses[c.address_start[row] : c.address_start[row + 1]].tolist())
            for lane in (lane for lane in range(32) if int(c.mask[row]) >> lane & 1):
                thread = warp * 32 + lane
                assert thread < launch.block_threads
                x = block % launch.grid[0] * launch.block[0] + thread % launch.block[0]
                y = block // launch.grid[0] * launch.block[1] + thread // launch.block[0]
                found.setdefault((x, y), []).append((int(c.op[row]), next(addresses)))
    return found


@pytest.mark.parametrize(("name", "block"), CASES)
def test_every_thread_makes_the_accesses_of_its_row_in_order(name, block):
    check_every_access(name, block, *ROWS[name])


@pytest.mark.parametrize("name", PADDED)
def test_padded_kernels_have_the_layout_of_the_cuda_source(name):
    check_every_access(name, None, PADDED[name], {**ROWS[name][1], "PAD": 1})


def check_every_access(name, block, scalar, sizes):
    trace = tracegen.kernel(name, block=block, **sizes)
    base = {array.name: array.base for array in trace.launch.arrays}
    extent = {array.name: array.bytes for array in trace.launch.arrays}
    found = accesses_by_thread(trace)
    width, height = (trace.launch.grid[d] * trace.launch.block[d] for d in (0, 1))
    for y in range(height):
        for x in range(width):
            wanted = list(scalar(x=x, y=y, **sizes))
            assert all(0 <= 4 * index < extent[array] for _, array, index in wanted)
            assert found.pop((x, y), []) == [(op, base[array] + 4 * index) for op, array, index in wanted]
    assert not found


@pytest.mark.parametrize("name", ROWS)
def test_the_grid_covers_every_thread_that_has_something_to_do(name):
    scalar, sizes = ROWS[name]
    launch = tracegen.kernel(name, **sizes).launch
    width, height = (launch.grid[d] * launch.block[d] for d in (0, 1))
    assert not list(scalar(width, 0, **sizes))
    if name != "covar.reduce":  # the suite's own grid leaves rows out
        assert not list(scalar(0 if name != "fdtd2d.2" else 1, height, **sizes)) or height == 1


def test_covar_reduce_covers_a_quarter_of_the_rows_as_the_suite_does():
    launch = tracegen.kernel("covar.reduce").launch
    assert (launch.grid, launch.block) == ((64, 64, 1), (32, 8, 1))


def test_the_suite_has_thirty_kernels_described_in_a_line_each():
    specs = [spec for spec in tracegen.kernels() if spec.name in POLYBENCH]
    assert sorted(spec.name for spec in specs) == sorted(ROWS)
    assert len(specs) == 30
    assert all(spec.description and "\n" not in spec.description for spec in specs)
    assert {spec.block for spec in specs} == {(256, 1, 1), (32, 8, 1)}


@pytest.mark.parametrize(
    ("name", "grid"),
    [("atax.1", (16, 1, 1)), ("2dconv", (128, 512, 1)), ("gramschmidt.1", (1, 1, 1)), ("3mm.2", (16, 64, 1))],
)
def test_default_sizes_give_the_grids_of_the_suite(name, grid):
    assert tracegen.kernel(name).launch.grid == grid


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("atax.2", "tmp A x y"),
        ("bicg.2", "s r A q p"),
        ("3mm.3", "A B E C D F G"),
        ("2mm.1", "tmp A B D C"),
        ("corr.corr", "mean data std symmat"),
        ("fdtd2d.3", "fict ey hz ex"),
        ("mvt.2", "x1 a y1 x2 y2"),
    ],
)
def test_kernels_of_a_benchmark_share_their_arrays_in_order_of_first_naming(name, order):
    arrays = tracegen.kernel(name, base=512).launch.arrays
    assert [a.name for a in arrays] == order.split()
    assert arrays[0].base == 512
    for before, after in pairwise(arrays):
        assert after.base == -(-(before.base + before.bytes) // 256) * 256


def test_lanes_of_a_diverged_warp_execute_the_branches_one_after_the_other():
    trace = tracegen.kernel("fdtd2d.1", block=(16, 2, 1), NX=2, NY=16)
    c = trace.columns
    assert c.mask.tolist() == [0xFFFF] * 2 + [0xFFFF0000] * 4
    assert c.op.tolist() == [L, S, L, L, L, S]


def test_call_sites_have_a_pc_of_their_own_that_does_not_depend_on_the_block():
    trace = tracegen.kernel("2dconv", NI=70, NJ=70)
    programs = [{tuple(s.pc.tolist()) for s in trace.block(b)} for b in trace.blocks]
    pcs = {pc for program in programs for pc in program}
    assert len(pcs) == 1
    assert len(set(next(iter(pcs)))) == 10


def test_stores_wait_for_the_loads_since_the_store_before_and_loads_for_nothing():
    first, loop = tracegen.kernel("atax.1", NX=256, NY=8).block(0)
    assert first.needs.tolist() == [[0]] * 8
    assert loop.trips == 8
    assert loop.needs.tolist() == [[0, 0, 0b11]] * 8
    assert loop.loop_exit.tolist() == [True, True, False]


def test_the_first_iteration_stands_alone_where_its_store_waits_for_a_load_before_the_loop():
    first, peeled, loop = tracegen.kernel("mvt.1", N=64).block(0)
    assert (first.trips, peeled.trips, loop.trips) == (1, 1, 63)
    assert peeled.needs[0].tolist() == [0, 0, 0b111]
    assert loop.needs[0].tolist() == [0, 0, 0b11]


def test_a_sum_in_a_register_is_waited_for_when_it_is_stored():
    _, store = tracegen.kernel("gramschmidt.1", NI=100, NJ=4).block(0)
    assert store.needs[0].tolist() == [(1 << 64) - 1]


def test_a_block_of_the_largest_kernel_stays_small():
    program = tracegen.kernel("corr.corr", M=600, N=2048).block(0)
    held = {id(a): a.nbytes for s in program for a in (s.base, s.mask, s.needs, s.pc, s.op, s.step)}
    accesses = 32 * sum(s.instructions for s in program)
    assert sum(held.values()) < accesses // 100


def test_running_a_block_twice_gives_the_same_program():
    trace = tracegen.kernel("gesummv", N=300)
    for one, two in zip(trace.block(1), trace.block(1), strict=True):
        assert one.trips == two.trips
        for name in ("pc", "needs", "mask", "base", "step"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tracegen.kernel("atax1"), ConfigError, "unknown kernel 'atax1'; did you mean 'atax.1'"),
        (
            lambda: tracegen.kernel("atax.1", NZ=4),
            ConfigError,
            "unknown size of atax.1 'NZ'; did you mean 'N",
        ),
        (lambda: tracegen.kernel("atax.1", NX=0), ConfigError, "atax.1: NX=0: must be at least 1"),
        (lambda: tracegen.kernel("atax.1", NX=1.5), ConfigError, "atax.1: NX=1.5: must be a whole number"),
        (lambda: tracegen.kernel("atax.1", NX=True), ConfigError, "NX=True: must be a whole number"),
        (lambda: tracegen.kernel("3dconv", I=256), ConfigError, "3dconv: I=256: must be 0 to 255"),
        (lambda: tracegen.kernel("gramschmidt.3", K=-1), ConfigError, "K=-1: must be 0 to 2047"),
        (lambda: tracegen.kernel("fdtd2d.1", T=500), ConfigError, "T=500: must be 0 to 499"),
        (lambda: tracegen.kernel("atax.1", block=(2048,)), LaunchError, "2048 threads, at most 1024 fit"),
        (lambda: tracegen.kernel("atax.1", block=(32, 0)), LaunchError, "must be one to three numbers of at least 1"),
        (lambda: tracegen.kernel("atax.1", base=100), ConfigError, "base=100: must be a multiple of 256"),
        (lambda: tracegen.kernel("atax.1", blocks=[99]), TraceError, "below 16"),
        (lambda: tracegen.kernel("atax.1", blocks=[1]).block(0), TraceError, "it holds 1 of 16 blocks"),
        (lambda: tracegen.kernel("2dconv", NI=1 << 40, NJ=1 << 40), ConfigError, "end beyond address 2^63"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(call, error, message):
    with pytest.raises(error, match=re.escape(message)) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_parameters_are_kept_with_the_trace():
    trace = tracegen.kernel("atax.1", NX=64)
    assert trace.params == {"NX": 64, "NY": 4096}
    assert "NX=64" in repr(trace)
    assert list(tracegen.kernel("atax.1", blocks=[2, 5]).blocks) == [2, 5]
