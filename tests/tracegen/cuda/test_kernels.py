"""Test the bundled CUDA kernels in the emulator: results against NumPy, accesses against the Python kernels.

Sums of float32 are made in another order, and with fused products, than NumPy's in float64: n positive terms differ
by at most n * 2^-24 of the sum, which is 2e-5 for the sizes here, and differences of numbers near 1 by some 1e-6.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.csgraph

import tracegen
from rdmodel.trace import Op
from tracegen import cuda
from tracegen.cuda import nvrtc, sources
from tracegen.cuda.signatures import signatures
from tracegen.kernel_library.registry import declared_spec

pytestmark = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")

ALPHA, BETA, EPS = 1.5, 1.25, 0.005


# ---- the 30 kernels of PolyBench/GPU, in NumPy


def conv2d(A, B):
    weights = ((0.2, -0.3, 0.4), (0.5, 0.6, 0.7), (-0.8, -0.9, 0.1))
    NI, NJ = A.shape
    B[1:-1, 1:-1] = sum(weights[i][j] * A[i : NI - 2 + i, j : NJ - 2 + j] for i in range(3) for j in range(3))


def conv3d(A, B, i):
    _, NJ, NK = A.shape
    weights = {
        (-1, -1, -1): 0.2,
        (1, -1, -1): 0.4,
        (0, -1, 0): -0.3,
        (0, 0, 0): 0.6,
        (0, 1, 0): -0.9,
        (-1, -1, 1): 0.5,
        (1, -1, 1): 0.7,
        (-1, 0, 1): -0.8,
        (1, 0, 1): 0.1,
        (-1, 1, 1): 1.1,
        (1, 1, 1): -1.3,
    }
    B[i, 1:-1, 1:-1] = sum(
        weight * A[i + di, 1 + dj : NJ - 1 + dj, 1 + dk : NK - 1 + dk] for (di, dj, dk), weight in weights.items()
    )


def mm2_1(A, B, tmp):
    tmp[:] = A @ B


def mm2_2(tmp, C, D):
    D[:] = BETA * D + tmp @ C


def mm3_1(A, B, E):
    E[:] = A @ B


def mm3_2(C, D, F):
    F[:] = C @ D


def mm3_3(E, F, G):
    G[:] = E @ F


def atax_1(A, x, tmp):
    tmp[:] = A @ x


def atax_2(A, y, tmp):
    y[:] = A.T @ tmp


def bicg_1(A, r, s):
    s[:] = A.T @ r


def bicg_2(A, p, q):
    q[:] = A @ p


def mean(mean, data):
    mean[:] = data.sum(axis=0) / data.shape[0]


def corr_std(mean, std, data):
    std[:] = np.sqrt(((data - mean) ** 2).sum(axis=0) / data.shape[0])
    std[std <= EPS] = 1


def corr_reduce(mean, std, data):
    data[:] = (data - mean) / (np.sqrt(data.shape[0]) * std)


def corr_corr(symmat, data):
    last = symmat[-1, -1]
    symmat[:] = data.T @ data
    np.fill_diagonal(symmat, 1)
    symmat[-1, -1] = last


def covar_reduce(mean, data):
    rows = -(-len(data) // 32) * 8  # the suite's own grid leaves rows out
    data[:rows] -= mean


def covar_covar(symmat, data):
    symmat[:] = data.T @ data


def fdtd2d_1(fict, ey, hz, t):
    ey[1:] -= 0.5 * (hz[1:] - hz[:-1])
    ey[0] = fict[t]


def fdtd2d_2(ex, hz):
    ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])


def fdtd2d_3(ex, ey, hz):
    hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


def gemm(a, b, c):
    c[:] = ALPHA * a @ b + BETA * c


def gesummv(A, B, x, y, tmp):
    tmp += A @ x
    y[:] = ALPHA * tmp + BETA * (y + B @ x)


def gramschmidt_1(a, r, k):
    r[k, k] = np.sqrt((a[:, k] ** 2).sum())


def gramschmidt_2(a, r, q, k):
    q[:, k] = a[:, k] / r[k, k]


def gramschmidt_3(a, r, q, k):
    r[k, k + 1 :] = q[:, k] @ a[:, k + 1 :]
    a[:, k + 1 :] -= np.outer(q[:, k], r[k, k + 1 :])


def mvt_1(a, x1, y1):
    x1 += a @ y1


def mvt_2(a, x2, y2):
    x2 += a.T @ y2


def syrk(a, c):
    c[:] = ALPHA * a @ a.T + BETA * c


def syr2k(a, b, c):
    c[:] = ALPHA * (a @ b.T + b @ a.T) + BETA * c


@dataclass(frozen=True)
class Row:
    kernel: str
    answer: object
    sizes: dict[str, int]


ROWS = {
    "2dconv": Row("conv2d_1", conv2d, {"NI": 19, "NJ": 37}),
    "2mm.1": Row("mm2_1", mm2_1, {"NI": 9, "NJ": 35, "NK": 150, "NL": 4}),
    "2mm.2": Row("mm2_2", mm2_2, {"NI": 9, "NJ": 150, "NK": 3, "NL": 35}),
    "3dconv": Row("conv3d_1", conv3d, {"NI": 6, "NJ": 11, "NK": 35, "I": 2}),
    "3mm.1": Row("mm3_1", mm3_1, {"NI": 9, "NJ": 35, "NK": 150, "NL": 4, "NM": 3}),
    "3mm.2": Row("mm3_2", mm3_2, {"NI": 9, "NJ": 10, "NK": 5, "NL": 34, "NM": 150}),
    "3mm.3": Row("mm3_3", mm3_3, {"NI": 9, "NJ": 150, "NK": 5, "NL": 33, "NM": 3}),
    "atax.1": Row("atax_1", atax_1, {"NX": 300, "NY": 150}),
    "atax.2": Row("atax_2", atax_2, {"NX": 150, "NY": 300}),
    "bicg.1": Row("bicg_1", bicg_1, {"NX": 150, "NY": 300}),
    "bicg.2": Row("bicg_2", bicg_2, {"NX": 300, "NY": 150}),
    "corr.mean": Row("corr_mean", mean, {"M": 270, "N": 150}),
    "corr.std": Row("corr_std", corr_std, {"M": 270, "N": 150}),
    "corr.reduce": Row("corr_reduce", corr_reduce, {"M": 37, "N": 19}),
    "corr.corr": Row("corr_corr", corr_corr, {"M": 45, "N": 150}),
    "covar.mean": Row("covar_mean", mean, {"M": 270, "N": 150}),
    "covar.reduce": Row("covar_reduce", covar_reduce, {"M": 37, "N": 150}),
    "covar.covar": Row("covar_covar", covar_covar, {"M": 45, "N": 150}),
    "fdtd2d.1": Row("fdtd2d_1", fdtd2d_1, {"NX": 11, "NY": 37, "T": 3}),
    "fdtd2d.2": Row("fdtd2d_2", fdtd2d_2, {"NX": 11, "NY": 37}),
    "fdtd2d.3": Row("fdtd2d_3", fdtd2d_3, {"NX": 11, "NY": 37}),
    "gemm": Row("gemm", gemm, {"NI": 9, "NJ": 35, "NK": 150}),
    "gesummv": Row("gesummv", gesummv, {"N": 150}),
    "gramschmidt.1": Row("gramschmidt_1", gramschmidt_1, {"NI": 150, "NJ": 4, "K": 2}),
    "gramschmidt.2": Row("gramschmidt_2", gramschmidt_2, {"NI": 270, "NJ": 4, "K": 2}),
    "gramschmidt.3": Row("gramschmidt_3", gramschmidt_3, {"NI": 150, "NJ": 270, "K": 5}),
    "mvt.1": Row("mvt_1", mvt_1, {"N": 150}),
    "mvt.2": Row("mvt_2", mvt_2, {"N": 150}),
    "syr2k": Row("syr2k", syr2k, {"N": 35, "M": 150}),
    "syrk": Row("syrk", syrk, {"N": 35, "M": 150}),
}
PADDED = [name for name in ROWS if name.startswith(("corr", "covar", "fdtd2d"))]


def run(name, pad=None):
    """Run one of the 30 on random arrays; return its trace, the arrays before, and the arrays after."""
    row = ROWS[name]
    sizes = row.sizes if pad is None else {**row.sizes, "PAD": pad}
    model = tracegen.kernel(name, **sizes)
    draw = np.random.default_rng(1)
    shapes = shapes_of(name, sizes)
    file = sources.source_path(name.partition(".")[0])
    arrays = {n: (0.5 + draw.random(shape)).astype(np.float32) for n, shape in shapes.items()}
    wanted = cuda_parameters(file, row.kernel)
    args = {p: arrays[p] if p in arrays else sizes[p.upper()] for p in wanted}
    before = {p: np.array(v, dtype=np.float64 if isinstance(v, np.ndarray) else None) for p, v in args.items()}
    trace = cuda.trace(
        file, row.kernel, model.launch.grid, model.launch.block, args, defines=sizes, check=True, base=1 << 28
    )
    return model, trace, before, args


def cuda_parameters(file, kernel):
    (found,) = (s for s in signatures(file.read_text()) if s.name == kernel)
    return found.parameters


def shapes_of(name, sizes):
    arrays = declared_spec(name).benchmark.arrays
    accepted = {n: sizes[n] for n in inspect.signature(arrays).parameters if n in sizes}
    accepted |= {n: 0 for n in inspect.signature(arrays).parameters if n == "PAD" and n not in sizes}
    return arrays(**accepted)


@pytest.mark.parametrize("name", ROWS)
def test_results_of_the_polybench_kernels_equal_numpys(name):
    _, _, arrays, results = run(name)
    arrays = {p: v if v.ndim else int(v) for p, v in arrays.items()}
    ROWS[name].answer(**arrays)
    for array, wanted in arrays.items():
        np.testing.assert_allclose(results[array], wanted, rtol=2e-5, atol=2e-6, err_msg=array)


def stream(trace):
    """Return, per warp, what its instructions access: operation, array, and the 128-byte lines in it."""
    c, arrays = trace.columns, trace.launch.arrays
    c.check()
    bases = np.array([a.base for a in arrays])
    names = [a.name for a in arrays]
    found = []
    for w in range(c.warps):
        warp = []
        for row in range(c.warp_start[w], c.warp_start[w + 1]):
            addresses = c.addresses[c.address_start[row] : c.address_start[row + 1]]
            at = int(np.searchsorted(bases, addresses[0], side="right")) - 1
            warp.append((Op(c.op[row]).name, names[at], *dict.fromkeys(((addresses - bases[at]) // 128).tolist())))
        found.append(warp)
    return found


SAME_ORDER = {"2dconv", "3dconv", "corr.mean", "corr.reduce", "covar.mean", "covar.reduce"} | {
    "gemm",
    "gramschmidt.1",
    "syr2k",
    "syrk",
}
"""Kernels whose loads the compiler keeps in the order of the source. In the others it loads the operands of an
expression in another order: x, A for ``tmp[i] += A[i * NY + j] * x[j]``. Between two stores, the loads are the same."""


def between_stores(warp):
    """Return a warp's stream with the loads between two stores sorted, so that their order does not count."""
    found, loads = [], []
    for access in warp:
        if access[0] == "LOAD":
            loads.append(access)
        else:
            found += [*sorted(loads), access]
            loads = []
    return [*found, *sorted(loads)]


def as_compiled(name, warp):
    """Return a stream of the Python kernels, adapted to differences of current compilers."""
    if name == "corr.std" and warp:
        # std[j] /= N; std[j] = sqrtf(std[j]): the first of the two stores is dead, and is left out
        assert warp[-1] == warp[-2]
        return warp[:-1]
    if name == "gesummv" and warp:
        # y[i] = ALPHA * tmp[i] + BETA * y[i]: y[i] was stored last and is still in a register, tmp[i] is not
        assert warp[-2][:2] == ("LOAD", "y")
        return [*warp[:-2], ("LOAD", "tmp", *warp[-2][2:]), warp[-1]]
    return warp


def arithmetic(trace):
    """Return the floating-point operations of all blocks by precision."""
    works = [trace.block_work(block) for block in trace.blocks]
    return {precision: sum(work.flops[precision] for work in works) for precision in works[0].flops}


@pytest.mark.parametrize(("name", "pad"), [*((name, None) for name in ROWS), *((name, 1) for name in PADDED)])
def test_accesses_of_the_polybench_kernels_equal_those_of_the_python_kernels(name, pad):
    model, trace, _, _ = run(name, pad)
    wanted, found = [as_compiled(name, warp) for warp in stream(model)], stream(trace)
    if name not in SAME_ORDER:
        wanted, found = ([between_stores(warp) for warp in streams] for streams in (wanted, found))
    for warp, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one == other, warp
    if pad is None:  # the declared arithmetic is the compiled one
        assert arithmetic(model) == arithmetic(trace)


# ---- irregular kernels, shared memory, barriers, atomics


def launch(name, kernel, grid, block, args, **options):
    return cuda.trace(sources.source_path(name), kernel, grid, block, args, check=True, **options)


def test_tiled_matrix_multiply():
    draw = np.random.default_rng(2)
    a, b, c = (draw.random((48, 48), dtype=np.float32) for _ in range(3))
    trace = launch("matmul_tiled", None, (6, 6), (8, 8), [a, b, c, 48], defines={"TILE": 8})
    np.testing.assert_allclose(c, a.astype(float) @ b, rtol=2e-5)
    assert trace.launch.shared_memory == 2 * 8 * 8 * 4
    assert np.count_nonzero(trace.columns.op == Op.BARRIER) == 36 * 2 * (48 // 8) * 2


@pytest.mark.parametrize("shape", [(64, 64), (45, 70), (1, 33)])
def test_transpose(shape):
    a = np.random.default_rng(3).random(shape, dtype=np.float32)
    b = np.zeros(shape[::-1], np.float32)
    launch("transpose", None, (-(-shape[1] // 32), -(-shape[0] // 32)), (32, 8), [a, b, shape[1], shape[0]])
    np.testing.assert_array_equal(b, a.T)


@pytest.mark.parametrize("threads", [32, 64, 256])
def test_reduction(threads):
    values = np.random.default_rng(4).random(3001, dtype=np.float32)
    total = np.zeros(1, np.float32)
    launch("reduction", None, 3, threads, [values, total, 3001], shared=4 * threads)
    np.testing.assert_allclose(total[0], values.astype(float).sum(), rtol=2e-5)


def test_scan_in_three_launches():
    values = np.random.default_rng(5).integers(-9, 9, 1000).astype(np.int32)
    out, sums = np.zeros_like(values), np.zeros(16, np.int32)
    launch("scan", "scan_blocks", 16, 64, {"in": values, "out": out, "sums": sums, "n": 1000}, shared=256)
    launch("scan", "scan_sums", 1, 64, {"sums": sums, "blocks": 16}, shared=256)
    launch("scan", "scan_add", 16, 64, {"out": out, "sums": sums, "n": 1000})
    np.testing.assert_array_equal(out, np.cumsum(values))


def test_histogram_with_atomics():
    data = np.random.default_rng(6).integers(0, 200, 5000).astype(np.uint8)
    bins = np.zeros(256, np.uint32)
    trace = launch("histogram", None, 3, 96, [data, bins, 5000])
    np.testing.assert_array_equal(bins, np.bincount(data, minlength=256))
    assert (trace.columns.op == Op.ATOMIC).any()


def graph(vertices):
    random = scipy.sparse.random_array((vertices, vertices), density=2 / vertices, rng=np.random.default_rng(7))
    return scipy.sparse.csr_array(random + random.T)


def test_breadth_first_search_level_by_level():
    edges = graph(500)
    rows, columns = edges.indptr.astype(np.int32), edges.indices.astype(np.int32)
    levels, changed = np.full(500, -1, np.int32), np.ones(1, np.int32)
    levels[0] = 0
    level = 0
    while changed[0]:
        changed[0] = 0
        launch("bfs", None, 4, 128, [rows, columns, levels, changed, level, 500])
        level += 1
    distance = scipy.sparse.csgraph.shortest_path(edges, unweighted=True, indices=0)
    np.testing.assert_array_equal(levels, np.where(np.isinf(distance), -1, distance))


@pytest.mark.parametrize(("kernel", "threads_per_row"), [("spmv_thread", 1), ("spmv_warp", 32)])
def test_sparse_matrix_vector_product(kernel, threads_per_row):
    matrix = scipy.sparse.csr_array(scipy.sparse.random_array((300, 200), density=0.2, rng=np.random.default_rng(8)))
    x, y = np.random.default_rng(9).random(200, dtype=np.float32), np.zeros(300, np.float32)
    values = matrix.data.astype(np.float32)
    args = [matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), values, x, y, 300]
    launch("spmv", kernel, -(-300 * threads_per_row // 128), 128, args)
    np.testing.assert_allclose(y, matrix @ x.astype(float), rtol=2e-5)


def test_hot_spot_stencil():
    draw = np.random.default_rng(10)
    power, before, after = (draw.random((37, 50), dtype=np.float32) for _ in range(3))
    launch("hotspot", None, (4, 3), (16, 16), [power, before, after, 50, 37, 0.1])
    padded = np.pad(before.astype(float), 1, mode="edge")
    around = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
    np.testing.assert_allclose(after, before + 0.1 * (around - 4 * before + power), rtol=2e-5)


def test_needleman_wunsch_diagonal_by_diagonal():
    n, penalty = 48, 3
    similarity = np.random.default_rng(11).integers(-5, 6, (n, n)).astype(np.int32)
    score = np.zeros((n + 1, n + 1), np.int32)
    score[0] = score[:, 0] = -penalty * np.arange(n + 1)
    wanted = score.copy()
    for i in range(n):
        for j in range(n):
            gap = max(wanted[i, j + 1], wanted[i + 1, j]) - penalty
            wanted[i + 1, j + 1] = max(wanted[i, j] + similarity[i, j], gap)
    for diagonal in range(2 * n // 16 - 1):
        tiles = min(diagonal + 1, 2 * n // 16 - 1 - diagonal)
        launch("needle", None, tiles, 16, [similarity, score, n, diagonal, penalty])
    np.testing.assert_array_equal(score, wanted)
