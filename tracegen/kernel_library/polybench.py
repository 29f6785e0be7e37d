"""Declare the 30 kernels of PolyBench/GPU with the accesses of compiled code (Grauer-Gray et al., InPar 2012).

Data are float32 and row-major. An accumulator in memory is stored in every iteration but loaded only once, because the
compiler forwards the stored value, unless another array may alias it. Arrays lie in memory in the order in which the
kernels of a benchmark first name them. In descriptions, loads stand before ``->`` and stores after it.
"""

from __future__ import annotations

from typing import Any

from tracegen.kernel_library.registry import Benchmark, Position
from tracegen.simt.kernel_trace import Array, Block

conv2d = Benchmark("2dconv", {"NI": 4096, "NJ": 4096}, lambda NI, NJ: {"A": (NI, NJ), "B": (NI, NJ)})


@conv2d.kernel(threads=lambda NI, NJ: (NJ, NI))
def conv2d_1(k: Block, A: Array, B: Array, NI: int, NJ: int) -> None:
    """3x3 convolution, interior only: the 9 neighbours in A -> B[i,j]."""
    i, j = k.y, k.x
    with k.where((i > 0) & (i < NI - 1) & (j > 0) & (j < NJ - 1)):
        k.load(A, i - 1, j - 1)
        k.load(A, i - 1, j)
        k.load(A, i - 1, j + 1)
        k.load(A, i, j - 1)
        k.load(A, i, j)
        k.load(A, i, j + 1)
        k.load(A, i + 1, j - 1)
        k.load(A, i + 1, j)
        k.load(A, i + 1, j + 1)
        k.store(B, i, j)


conv3d = Benchmark(
    "3dconv",
    {"NI": 256, "NJ": 256, "NK": 256, "I": Position(1, below="NI")},
    lambda NI, NJ, NK: {"A": (NI, NJ, NK), "B": (NI, NJ, NK)},
)


@conv3d.kernel(threads=lambda NJ, NK: (NK, NJ))
def conv3d_1(k: Block, A: Array, B: Array, NI: int, NJ: int, NK: int, I: int) -> None:  # noqa: E741
    """3x3x3 convolution, interior of plane I: 11 neighbours in A -> B[I,j,k]."""
    i, j, l = I, k.y, k.x  # noqa: E741
    inside = 0 < i < NI - 1
    with k.where(inside & (j > 0) & (j < NJ - 1) & (l > 0) & (l < NK - 1)):
        k.load(A, i - 1, j - 1, l - 1)
        k.load(A, i + 1, j - 1, l - 1)
        k.load(A, i, j - 1, l)
        k.load(A, i, j, l)
        k.load(A, i, j + 1, l)
        k.load(A, i - 1, j - 1, l + 1)
        k.load(A, i + 1, j - 1, l + 1)
        k.load(A, i - 1, j, l + 1)
        k.load(A, i + 1, j, l + 1)
        k.load(A, i - 1, j + 1, l + 1)
        k.load(A, i + 1, j + 1, l + 1)
        k.store(B, i, j, l)


def multiply(k: Block, A: Array, B: Array, C: Array) -> None:
    """Multiply A by B: -> C[i,j]; for each n: A[i,n], B[n,j] -> C[i,j]."""
    i, j = k.y, k.x
    with k.where((i < C.shape[0]) & (j < C.shape[1])):
        k.store(C, i, j)
        for n in k.range(A.shape[1]):
            k.load(A, i, n)
            k.load(B, n, j)
            k.store(C, i, j)


mm2 = Benchmark(
    "2mm",
    {"NI": 2048, "NJ": 2048, "NK": 2048, "NL": 2048},
    lambda NI, NJ, NK, NL: {"tmp": (NI, NJ), "A": (NI, NK), "B": (NK, NJ), "D": (NI, NL), "C": (NJ, NL)},
)


@mm2.kernel("1", threads=lambda NI, NJ: (NJ, NI))
def mm2_1(k: Block, tmp: Array, A: Array, B: Array) -> None:
    """Product A B: -> tmp[i,j]; for k<NK: A[i,k], B[k,j] -> tmp[i,j]."""
    multiply(k, A, B, tmp)


@mm2.kernel("2", threads=lambda NI, NL: (NL, NI))
def mm2_2(k: Block, tmp: Array, C: Array, D: Array, NI: int, NJ: int, NL: int) -> None:
    """Product tmp C + D: D[i,j] -> D[i,j]; for k<NJ: tmp[i,k], C[k,j] -> D[i,j]."""
    i, j = k.y, k.x
    with k.where((i < NI) & (j < NL)):
        k.load(D, i, j)
        k.store(D, i, j)
        for n in k.range(NJ):
            k.load(tmp, i, n)
            k.load(C, n, j)
            k.store(D, i, j)


mm3 = Benchmark(
    "3mm",
    {"NI": 512, "NJ": 512, "NK": 512, "NL": 512, "NM": 512},
    lambda NI, NJ, NK, NL, NM: {
        "A": (NI, NK),
        "B": (NK, NJ),
        "E": (NI, NJ),
        "C": (NJ, NM),
        "D": (NM, NL),
        "F": (NJ, NL),
        "G": (NI, NL),
    },
)


@mm3.kernel("1", threads=lambda NI, NJ: (NJ, NI))
def mm3_1(k: Block, A: Array, B: Array, E: Array) -> None:
    """Product A B: -> E[i,j]; for k<NK: A[i,k], B[k,j] -> E[i,j]."""
    multiply(k, A, B, E)


@mm3.kernel("2", threads=lambda NJ, NL: (NL, NJ))
def mm3_2(k: Block, C: Array, D: Array, F: Array) -> None:
    """Product C D: -> F[i,j]; for k<NM: C[i,k], D[k,j] -> F[i,j]."""
    multiply(k, C, D, F)


@mm3.kernel("3", threads=lambda NI, NL: (NL, NI))
def mm3_3(k: Block, E: Array, F: Array, G: Array) -> None:
    """Product E F: -> G[i,j]; for k<NJ: E[i,k], F[k,j] -> G[i,j]."""
    multiply(k, E, F, G)


atax = Benchmark(
    "atax",
    {"NX": 4096, "NY": 4096},
    lambda NX, NY: {"tmp": NX, "A": (NX, NY), "x": NY, "y": NY},
)


@atax.kernel("1", threads=lambda NX: (NX,))
def atax_1(k: Block, A: Array, x: Array, tmp: Array, NX: int, NY: int) -> None:
    """Product A x: -> tmp[i]; for j<NY: A[i,j], x[j] -> tmp[i]."""
    i = k.x
    with k.where(i < NX):
        k.store(tmp, i)
        for j in k.range(NY):
            k.load(A, i, j)
            k.load(x, j)
            k.store(tmp, i)


@atax.kernel("2", threads=lambda NY: (NY,))
def atax_2(k: Block, A: Array, y: Array, tmp: Array, NX: int, NY: int) -> None:
    """Product A^T tmp: -> y[j]; for i<NX: A[i,j], tmp[i] -> y[j]."""
    j = k.x
    with k.where(j < NY):
        k.store(y, j)
        for i in k.range(NX):
            k.load(A, i, j)
            k.load(tmp, i)
            k.store(y, j)


bicg = Benchmark(
    "bicg",
    {"NX": 4096, "NY": 4096},
    lambda NX, NY: {"s": NY, "r": NX, "A": (NX, NY), "q": NX, "p": NY},
)


@bicg.kernel("1", threads=lambda NY: (NY,))
def bicg_1(k: Block, A: Array, r: Array, s: Array, NX: int, NY: int) -> None:
    """Product r A: -> s[j]; for i<NX: r[i], A[i,j] -> s[j]."""
    j = k.x
    with k.where(j < NY):
        k.store(s, j)
        for i in k.range(NX):
            k.load(r, i)
            k.load(A, i, j)
            k.store(s, j)


@bicg.kernel("2", threads=lambda NX: (NX,))
def bicg_2(k: Block, A: Array, p: Array, q: Array, NX: int, NY: int) -> None:
    """Product A p: -> q[i]; for j<NY: A[i,j], p[j] -> q[i]."""
    i = k.x
    with k.where(i < NX):
        k.store(q, i)
        for j in k.range(NY):
            k.load(A, i, j)
            k.load(p, j)
            k.store(q, i)


PAD = Position(0, below=2)
"""Declaration of the rows or columns of padding before the data."""

corr = Benchmark(
    "corr",
    {"M": 2048, "N": 2048, "PAD": PAD},
    lambda M, N, PAD: {"mean": M + PAD, "data": (N + PAD, M + PAD), "std": M + PAD, "symmat": (M + PAD, M + PAD)},
)
covar = Benchmark(
    "covar",
    {"M": 2048, "N": 2048, "PAD": PAD},
    lambda M, N, PAD: {"mean": M + PAD, "data": (N + PAD, M + PAD), "symmat": (M + PAD, M + PAD)},
)


@covar.kernel("mean", threads=lambda M: (M,))
@corr.kernel("mean", threads=lambda M: (M,))
def column_mean(k: Block, mean: Array, data: Array, M: int, N: int, PAD: int) -> None:
    """Column means: -> mean[j]; for i<N: data[i,j] -> mean[j]; -> mean[j]."""
    j = k.x + PAD
    with k.where(j < M + PAD):
        k.store(mean, j)
        for i in k.range(PAD, N + PAD):
            k.load(data, i, j)
            k.store(mean, j)
        k.store(mean, j)


@corr.kernel("std", threads=lambda M: (M,))
def corr_std(k: Block, mean: Array, std: Array, data: Array, M: int, N: int, PAD: int) -> None:
    """Standard deviations: -> std[j]; for i<N: data[i,j], mean[j] -> std[j]; -> std[j]; -> std[j].

    The source has one more store for a deviation of almost 0. Data are unknown, so it is assumed not to happen.
    """
    j = k.x + PAD
    with k.where(j < M + PAD):
        k.store(std, j)
        for i in k.range(PAD, N + PAD):
            k.load(data, i, j)
            k.load(mean, j)
            k.store(std, j)
        k.store(std, j)
        k.store(std, j)


@corr.kernel("reduce", threads=lambda M, N: (M, N))
def corr_reduce(k: Block, mean: Array, std: Array, data: Array, M: int, N: int, PAD: int) -> None:
    """Centre and scale: data[i,j], mean[j] -> data[i,j]; std[j] -> data[i,j]."""
    i, j = k.y + PAD, k.x + PAD
    with k.where((i < N + PAD) & (j < M + PAD)):
        k.load(data, i, j)
        k.load(mean, j)
        k.store(data, i, j)
        k.load(std, j)
        k.store(data, i, j)


def correlate(k: Block, data: Array, symmat: Array, j1: Any, first: int, PAD: int) -> None:
    """Multiply column `j1` by the columns from j1 + `first` on, and store to both triangles of `symmat`."""
    rows, columns = data.shape
    for j2 in k.range(j1 + first, columns):
        k.store(symmat, j1, j2)
        for i in k.range(PAD, rows):
            k.load(data, i, j1)
            k.load(data, i, j2)
            k.store(symmat, j1, j2)
        k.store(symmat, j2, j1)


@corr.kernel("corr", threads=lambda M: (M,))
def corr_corr(k: Block, data: Array, symmat: Array, M: int, PAD: int) -> None:
    """-> s[j1,j1]; for j2>j1: -> s[j1,j2]; for i: data[i,j1], data[i,j2] -> s[j1,j2]; -> s[j2,j1]."""
    j1 = k.x + PAD
    with k.where(j1 < M - 1 + PAD):
        k.store(symmat, j1, j1)
        correlate(k, data, symmat, j1, 1, PAD)


@covar.kernel(
    "reduce",
    threads=lambda M, N: (M, N),
    grid=lambda block, M, N: (-(-M // block[0]), -(-N // block[0]), 1),
)
def covar_reduce(k: Block, mean: Array, data: Array, M: int, N: int, PAD: int) -> None:
    """Centre: data[i,j], mean[j] -> data[i,j].

    The suite divides both sizes by the width of the block, so blocks of 32x8 cover a quarter of the rows.
    """
    i, j = k.y + PAD, k.x + PAD
    with k.where((i < N + PAD) & (j < M + PAD)):
        k.load(data, i, j)
        k.load(mean, j)
        k.store(data, i, j)


@covar.kernel("covar", threads=lambda M: (M,))
def covar_covar(k: Block, data: Array, symmat: Array, M: int, PAD: int) -> None:
    """Covariance: for j2>=j1: -> s[j1,j2]; for i: data[i,j1], data[i,j2] -> s[j1,j2]; -> s[j2,j1]."""
    j1 = k.x + PAD
    with k.where(j1 < M + PAD):
        correlate(k, data, symmat, j1, 0, PAD)


FDTD_STEPS = 500
"""Time steps of fdtd2d, the length of its source array."""

fdtd2d = Benchmark(
    "fdtd2d",
    {"NX": 2048, "NY": 2048, "T": Position(0, below=FDTD_STEPS), "PAD": PAD},
    lambda NX, NY, PAD: {"fict": FDTD_STEPS, "ey": (NX + PAD, NY), "hz": (NX, NY), "ex": (NX, NY + PAD)},
)


@fdtd2d.kernel("1", threads=lambda NX, NY: (NY, NX))
def fdtd2d_1(k: Block, fict: Array, ey: Array, hz: Array, NX: int, NY: int, T: int) -> None:
    """Electric field in y: i=0: fict[T] -> ey[0,j]; else ey[i,j], hz[i,j], hz[i-1,j] -> ey[i,j]."""
    i, j = k.y, k.x
    with k.where((i < NX) & (j < NY)):
        with k.where(i == 0):
            k.load(fict, T)
            k.store(ey, i, j)
        with k.where(i > 0):
            k.load(ey, i, j)
            k.load(hz, i, j)
            k.load(hz, i - 1, j)
            k.store(ey, i, j)


@fdtd2d.kernel("2", threads=lambda NX, NY: (NY, NX))
def fdtd2d_2(k: Block, ex: Array, hz: Array, NX: int, NY: int) -> None:
    """Electric field in x, j>0: ex[i,j], hz[i,j], hz[i,j-1] -> ex[i,j]."""
    i, j = k.y, k.x
    with k.where((i < NX) & (j < NY) & (j > 0)):
        k.load(ex, i, j)
        k.load(hz, i, j)
        k.load(hz, i, j - 1)
        k.store(ex, i, j)


@fdtd2d.kernel("3", threads=lambda NX, NY: (NY, NX))
def fdtd2d_3(k: Block, ex: Array, ey: Array, hz: Array, NX: int, NY: int, PAD: int) -> None:
    """Magnetic field, interior: hz[i,j], ex[i,j+1], ex[i,j], ey[i+1,j], ey[i,j] -> hz[i,j].

    With ``PAD=1`` the arrays have a border, and all of `hz` is computed.
    """
    i, j = k.y, k.x
    with k.where((i < NX - 1 + PAD) & (j < NY - 1 + PAD)):
        k.load(hz, i, j)
        k.load(ex, i, j + 1)
        k.load(ex, i, j)
        k.load(ey, i + 1, j)
        k.load(ey, i, j)
        k.store(hz, i, j)


gemm = Benchmark(
    "gemm",
    {"NI": 512, "NJ": 512, "NK": 512},
    lambda NI, NJ, NK: {"c": (NI, NJ), "a": (NI, NK), "b": (NK, NJ)},
)


@gemm.kernel(threads=lambda NI, NJ: (NJ, NI))
def gemm_1(k: Block, a: Array, b: Array, c: Array, NI: int, NJ: int, NK: int) -> None:
    """Product a b + c: c[i,j] -> c[i,j]; for k<NK: a[i,k], b[k,j] -> c[i,j]."""
    i, j = k.y, k.x
    with k.where((i < NI) & (j < NJ)):
        k.load(c, i, j)
        k.store(c, i, j)
        for n in k.range(NK):
            k.load(a, i, n)
            k.load(b, n, j)
            k.store(c, i, j)


gesummv = Benchmark(
    "gesummv",
    {"N": 4096},
    lambda N: {"tmp": N, "A": (N, N), "x": N, "y": N, "B": (N, N)},
)


@gesummv.kernel(threads=lambda N: (N,))
def gesummv_1(k: Block, A: Array, B: Array, x: Array, y: Array, tmp: Array, N: int) -> None:
    """Sum (A + B) x: for j: tmp[i], A[i,j], x[j] -> tmp[i]; y[i], B[i,j], x[j] -> y[i]; y[i] -> y[i]."""
    i = k.x
    with k.where(i < N):
        for j in k.range(N):
            k.load(tmp, i)
            k.load(A, i, j)
            k.load(x, j)
            k.store(tmp, i)
            k.load(y, i)
            k.load(B, i, j)
            k.load(x, j)
            k.store(y, i)
        k.load(y, i)
        k.store(y, i)


gramschmidt = Benchmark(
    "gramschmidt",
    {"NI": 2048, "NJ": 2048, "K": Position(0, below="NJ")},
    lambda NI, NJ: {"a": (NI, NJ), "r": (NJ, NJ), "q": (NI, NJ)},
)


@gramschmidt.kernel("1", threads=lambda NI: (1,))
def gramschmidt_1(k: Block, a: Array, r: Array, NI: int, K: int) -> None:
    """Norm of column K, by one thread: for i<NI: a[i,K]; -> r[K,K]."""
    with k.where(k.x == 0):
        for i in k.range(NI):
            k.load(a, i, K)
        k.store(r, K, K)


@gramschmidt.kernel("2", threads=lambda NI: (NI,))
def gramschmidt_2(k: Block, a: Array, r: Array, q: Array, NI: int, K: int) -> None:
    """Normalise column K: a[i,K], r[K,K] -> q[i,K]."""
    i = k.x
    with k.where(i < NI):
        k.load(a, i, K)
        k.load(r, K, K)
        k.store(q, i, K)


@gramschmidt.kernel("3", threads=lambda NJ: (NJ,))
def gramschmidt_3(k: Block, a: Array, r: Array, q: Array, NI: int, NJ: int, K: int) -> None:
    """Project, j>K: -> r[K,j]; for i: q[i,K], a[i,j] -> r[K,j]; for i: a[i,j], q[i,K], r[K,j] -> a[i,j]."""
    j = k.x
    with k.where((j > K) & (j < NJ)):
        k.store(r, K, j)
        for i in k.range(NI):
            k.load(q, i, K)
            k.load(a, i, j)
            k.store(r, K, j)
        for i in k.range(NI):
            k.load(a, i, j)
            k.load(q, i, K)
            k.load(r, K, j)
            k.store(a, i, j)


mvt = Benchmark(
    "mvt",
    {"N": 4096},
    lambda N: {"x1": N, "a": (N, N), "y1": N, "x2": N, "y2": N},
)


@mvt.kernel("1", threads=lambda N: (N,))
def mvt_1(k: Block, a: Array, x1: Array, y1: Array, N: int) -> None:
    """Product a y1 + x1: x1[i]; for j<N: a[i,j], y1[j] -> x1[i]."""
    i = k.x
    with k.where(i < N):
        k.load(x1, i)
        for j in k.range(N):
            k.load(a, i, j)
            k.load(y1, j)
            k.store(x1, i)


@mvt.kernel("2", threads=lambda N: (N,))
def mvt_2(k: Block, a: Array, x2: Array, y2: Array, N: int) -> None:
    """Product a^T y2 + x2: x2[i]; for j<N: a[j,i], y2[j] -> x2[i]."""
    i = k.x
    with k.where(i < N):
        k.load(x2, i)
        for j in k.range(N):
            k.load(a, j, i)
            k.load(y2, j)
            k.store(x2, i)


syrk = Benchmark("syrk", {"N": 1024, "M": 1024}, lambda N, M: {"c": (N, N), "a": (N, M)})


@syrk.kernel(threads=lambda N: (N, N))
def syrk_1(k: Block, a: Array, c: Array, N: int, M: int) -> None:
    """Product a a^T + c: c[i,j] -> c[i,j]; for k<M: a[i,k], a[j,k] -> c[i,j]."""
    i, j = k.y, k.x
    with k.where((i < N) & (j < N)):
        k.load(c, i, j)
        k.store(c, i, j)
        for n in k.range(M):
            k.load(a, i, n)
            k.load(a, j, n)
            k.store(c, i, j)


syr2k = Benchmark("syr2k", {"N": 1024, "M": 1024}, lambda N, M: {"c": (N, N), "a": (N, M), "b": (N, M)})


@syr2k.kernel(threads=lambda N: (N, N))
def syr2k_1(k: Block, a: Array, b: Array, c: Array, N: int, M: int) -> None:
    """Product a b^T + b a^T + c: c[i,j] -> c[i,j]; for k<M: a[i,k], b[j,k], b[i,k], a[j,k] -> c[i,j]."""
    i, j = k.y, k.x
    with k.where((i < N) & (j < N)):
        k.load(c, i, j)
        k.store(c, i, j)
        for n in k.range(M):
            k.load(a, i, n)
            k.load(b, j, n)
            k.load(b, i, n)
            k.load(a, j, n)
            k.store(c, i, j)
