"""Find the modules that declare the named kernels, so that a use of one kernel does not load all of them."""

from __future__ import annotations

from importlib import import_module

BENCHMARKS = {
    "labelling": ("cc", "color"),
    "mapreduce": ("iix", "ss", "wc"),
    "parboil": ("stencil3d",),
    "polybench": (
        *("2dconv", "2mm", "3dconv", "3mm", "atax", "bicg", "corr", "covar"),
        *("fdtd2d", "gemm", "gesummv", "gramschmidt", "mvt", "syr2k", "syrk"),
    ),
    "rodinia": ("hotspot", "nw", "srad"),
    "rodinia_learning": ("backprop", "kmeans", "streamcluster"),
    "sdk": ("blackscholes", "convsep", "fwt", "mcpi", "scalarprod", "vectoradd"),
    "sparse": ("spmv",),
    "traversal": ("bfs", "sssp"),
    "trees": ("btree",),
}
"""Modules of this package, and the benchmarks that they declare."""

_HOMES = {benchmark: module for module, benchmarks in BENCHMARKS.items() for benchmark in benchmarks}


def load_home(kernel: str) -> None:
    """Import the module that declares a kernel, if there is one."""
    module = _HOMES.get(kernel.partition(".")[0])
    if module is not None:
        import_module(f"{__package__}.{module}")


def load_all() -> None:
    """Import all modules that declare kernels."""
    for module in BENCHMARKS:
        import_module(f"{__package__}.{module}")
