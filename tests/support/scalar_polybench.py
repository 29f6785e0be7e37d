"""Restate the 30 kernels of PolyBench/GPU in plain Python, one access of one thread at a time."""

from __future__ import annotations

from rdmodel.trace import Op

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
