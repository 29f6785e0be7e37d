"""Define suites: kernels that are run together, at sizes that the simulator completes in a minute or two.

Sizes are reduced along loops and outer dimensions. Row lengths stay powers of two, so that rows conflict in the cache,
and grids keep enough blocks for all SMs where possible. A kernel has the same sizes in every suite.
"""

from __future__ import annotations

from collections.abc import Mapping

_PRODUCT = {"NI": 256, "NJ": 256, "NK": 256}
_PLANE = {"NX": 512, "NY": 512}
_MANY_ROWS = {"NX": 4096, "NY": 512}
_MANY_COLUMNS = {"NX": 512, "NY": 4096}
_TALL = {"M": 4096, "N": 256}
_SQUARE = {"M": 512, "N": 512}
_PAIRS = {"M": 1024, "N": 64}

POLYBENCH: Mapping[str, Mapping[str, int]] = {
    "2dconv": {"NI": 512, "NJ": 512},
    "2mm.1": _PRODUCT,
    "2mm.2": {"NI": 256, "NJ": 256, "NL": 256},
    "3dconv": {},
    "3mm.1": _PRODUCT,
    "3mm.2": {"NJ": 256, "NL": 256, "NM": 256},
    "3mm.3": {"NI": 256, "NJ": 256, "NL": 256},
    "atax.1": _MANY_ROWS,
    "atax.2": _MANY_COLUMNS,
    "bicg.1": _MANY_COLUMNS,
    "bicg.2": _MANY_ROWS,
    "corr.mean": _TALL,
    "corr.std": _TALL,
    "corr.reduce": _SQUARE,
    "corr.corr": _PAIRS,
    "covar.mean": _TALL,
    "covar.reduce": _SQUARE,
    "covar.covar": _PAIRS,
    "fdtd2d.1": _PLANE,
    "fdtd2d.2": _PLANE,
    "fdtd2d.3": _PLANE,
    "gemm": _PRODUCT,
    "gesummv": {"N": 2048},
    "gramschmidt.1": {},
    "gramschmidt.2": {},
    "gramschmidt.3": {"NI": 256, "NJ": 4096},
    "mvt.1": {"N": 2048},
    "mvt.2": {"N": 2048},
    "syr2k": {"N": 256, "M": 128},
    "syrk": {"N": 256, "M": 128},
}
"""The 30 kernels of PolyBench/GPU at reduced sizes: about 60 million load transactions in total."""

CLASSIC: Mapping[str, Mapping[str, int]] = {
    "backprop.1": {},
    "backprop.2": {},
    "blackscholes": {"OPT_N": 1_000_000},
    "convsep.columns": {"W": 1024, "H": 1024},
    "convsep.rows": {"W": 1024, "H": 1024},
    "fwt.1": {"LOG2N": 21},
    "fwt.2": {"LOG2N": 21},
    "hotspot": {},
    "kmeans.col": {"NPOINTS": 32_768},
    "kmeans.invert": {"NPOINTS": 32_768},
    "kmeans.row": {"NPOINTS": 32_768},
    "mcpi": {},
    "nw.1": {},
    "nw.2": {},
    "scalarprod": {},
    "srad.1": {"ROWS": 512, "COLS": 512},
    "srad.2": {"ROWS": 512, "COLS": 512},
    "stencil3d": {"NY": 128, "NZ": 16},
    "streamcluster": {"NUM": 16_384},
    "vectoradd": {},
}
"""Regular kernels of the CUDA SDK, Rodinia and Parboil in studies of cache management, at reduced sizes."""

IRREGULAR: Mapping[str, Mapping[str, int]] = {
    "bfs.1": {"N": 32_768},
    "bfs.2": {},
    "btree": {"M": 1024},
    "cc.1": {},
    "cc.2": {},
    "color.1": {},
    "color.2": {},
    "iix": {"N": 8192},
    "iix.count": {"N": 8192},
    "spmv": {},
    "spmv.warp": {},
    "ss": {"N": 256},
    "sssp": {},
    "wc": {"N": 8192},
    "wc.count": {"N": 8192},
}
"""Kernels whose addresses depend on generated graphs, sparse matrices, texts or trees, at reduced sizes."""

TILED: Mapping[str, Mapping[str, int]] = {
    "2dconv.tiled": {"NI": 512, "NJ": 512},
    "2mm.tiled.1": _PRODUCT,
    "2mm.tiled.2": {"NI": 256, "NJ": 256, "NL": 256},
    "3dconv.tiled": {"NI": 32, "NJ": 128, "NK": 128},
    "gemm.shared": _PRODUCT,
    "gemm.tiled": _PRODUCT,
    "jacobi2d.tiled": {"NI": 512, "NJ": 512},
    "jacobi3d.tiled": {"NI": 32, "NJ": 128, "NK": 128},
    "syr2k.tiled": {"N": 256, "M": 128},
    "syrk.tiled": {"N": 256, "M": 128},
    "transpose.tiled": {"NI": 512, "NJ": 512},
}
"""Kernels with tile sizes as parameters, at reduced sizes with default tiles."""

NAIVE: Mapping[str, Mapping[str, int]] = {**POLYBENCH, **CLASSIC, **IRREGULAR}
"""All kernels but the tiled ones."""

ALL: Mapping[str, Mapping[str, int]] = {**NAIVE, **TILED}
"""All kernels of rdmodel."""


def select_kernels(applications: str) -> Mapping[str, Mapping[str, int]]:
    """Return the kernels of `applications`, names before the dot separated by spaces, with their sizes."""
    names = applications.split()
    return {kernel: sizes for name in names for kernel, sizes in NAIVE.items() if kernel.partition(".")[0] == name}


SUITES: Mapping[str, Mapping[str, Mapping[str, int]]] = {
    "polybench": POLYBENCH,
    "classic": CLASSIC,
    "irregular": IRREGULAR,
    "tiled": TILED,
    "all": ALL,
    "khairy": select_kernels(
        "blackscholes scalarprod vectoradd fwt nw hotspot convsep srad stencil3d 2dconv 2mm streamcluster bfs spmv iix "
        "kmeans syrk gesummv mcpi btree backprop"
    ),
    "jia": select_kernels("2dconv 2mm 3dconv 3mm fdtd2d gemm atax bicg gesummv mvt syr2k syrk"),
    "koo": select_kernels("bfs kmeans iix wc color sssp spmv ss cc srad"),
    "wang": select_kernels("atax bicg mvt gesummv syrk syr2k kmeans bfs spmv iix"),
    "sensitive": {
        kernel: NAIVE[kernel]
        for kernel in (
            *("spmv", "kmeans.row", "iix", "syrk", "gesummv"),
            *("atax.1", "bicg.2", "mvt.1", "syr2k"),
            *("bfs.1", "kmeans.invert", "wc", "color.1", "sssp"),
        )
    },
}
"""Suites by name: sizes by kernel; other sizes keep their defaults.

Four of the last five contain the available kernels of studies of cache management, in the order of the study: Khairy et
al., table 2; Jia et al., section 2.4; Koo et al., table 1; Wang et al., table II. `sensitive` contains the kernels that
these studies call sensitive to the size of the L1: thrashing ones (Khairy et al., table 2), those with intra-warp and
cross-warp contention (Jia et al., section 5.2), and highly cache-sensitive ones (Koo et al., table 1).
"""
