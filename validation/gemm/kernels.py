"""Launch the kernels of leimao/CUDA-GEMM-Optimization as its programs `profile_cuda_gemm_*.cu` do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import tracegen.cuda
from rdmodel.trace import Trace

EXTENT = 4096
"""Rows, columns and terms of the products that were timed."""

TYPES: Mapping[str, tuple[str, str]] = {"fp32": ("float", "float"), "fp16": ("__half", "half")}
"""Type of the numbers in the template, and of the elements of an array, by precision."""

_WARPS = "06_2d_block_tiling_2d_warp_tiling_2d_thread_tiling_matrix_transpose"
_PRODUCTS = "07_2d_block_tiling_2d_warp_tiling_2d_thread_tiling_matrix_transpose_wmma"
_VECTORS = "_vectorized_memory_access"


class Kernel(NamedTuple):
    """A kernel: its file, its function with the template arguments behind the type, its tile, and its block."""

    file: str
    function: str
    arguments: str
    tile: int
    block: int | tuple[int, int]


_TILES = "32, 32, 32"
_COLUMNS = "64, 64, 8, 8"
_SQUARES = "128, 128, 16, 8, 8"
_OF_WARPS = "128, 128, 16, 32, 64, 8, 8, 4, 8"
_OF_PRODUCTS = "128, 128, 16, 16, 16, 32, 64, 16, 16, 16, 256"
_COLUMN_FILE = "03_2d_block_tiling_1d_thread_tiling"
_SQUARE_FILE = "04_2d_block_tiling_2d_thread_tiling"
_TRANSPOSED_FILE = "05_2d_block_tiling_2d_thread_tiling_matrix_transpose"

KERNELS: Mapping[str, Kernel] = {
    "v00": Kernel("00_non_coalesced_global_memory_access", "gemm_v00", "", 32, (32, 32)),
    "v01": Kernel("01_coalesced_global_memory_access", "gemm_v01", "", 32, (32, 32)),
    "v02": Kernel("02_2d_block_tiling", "gemm_v02", _TILES, 32, (32, 32)),
    "v02 vectors": Kernel(f"02_2d_block_tiling{_VECTORS}", "gemm_v02_vectorized", _TILES, 32, (32, 32)),
    "v03": Kernel(_COLUMN_FILE, "gemm_v03", _COLUMNS, 64, 512),
    "v03 vectors": Kernel(_COLUMN_FILE + _VECTORS, "gemm_v03_vectorized", _COLUMNS, 64, 512),
    "v04": Kernel(_SQUARE_FILE, "gemm_v04", _SQUARES, 128, 256),
    "v04 vectors": Kernel(_SQUARE_FILE + _VECTORS, "gemm_v04_vectorized", _SQUARES, 128, 256),
    "v05": Kernel(_TRANSPOSED_FILE, "gemm_v05", _SQUARES, 128, 256),
    "v05 vectors": Kernel(_TRANSPOSED_FILE + _VECTORS, "gemm_v05_vectorized", _SQUARES, 128, 256),
    "v06": Kernel(_WARPS, "gemm_v06", _OF_WARPS, 128, 256),
    "v06 vectors": Kernel(_WARPS + _VECTORS, "gemm_v06_vectorized", _OF_WARPS, 128, 256),
    "v07": Kernel(_PRODUCTS, "gemm_v07", _OF_PRODUCTS, 128, 256),
    "v07 vectors": Kernel(_PRODUCTS + _VECTORS, "gemm_v07_vectorized", _OF_PRODUCTS, 128, 256),
}


def launch(sources: Path, precision: str, name: str) -> Trace:
    """Return the launch of a kernel; `sources` has the repository."""
    kernel, (number, element) = KERNELS[name], TYPES[precision]
    arguments = f", {kernel.arguments}" if kernel.arguments else ""
    matrix = f"{element}[{EXTENT * EXTENT}]:zeros"
    sizes = {"m": EXTENT, "n": EXTENT, "k": EXTENT, "lda": EXTENT, "ldb": EXTENT, "ldc": EXTENT}
    return tracegen.cuda.trace(
        sources / "src" / f"{kernel.file}.cu",
        f"{kernel.function}<{number}{arguments}>",
        (EXTENT // kernel.tile, EXTENT // kernel.tile),
        kernel.block,
        {**sizes, "alpha": 1.0, "beta": 0.0, "A": matrix, "B": matrix, "C": matrix},
        includes=[sources / "include"],
        architecture="sm_86",
    )
