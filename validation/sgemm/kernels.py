"""Launch the kernels of siboehm/SGEMM_CUDA as its program `runner.cu` does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tracegen.cuda
from rdmodel import presets
from rdmodel.gpu.device_properties import compute_capability
from rdmodel.trace import Trace

EXTENT = 4096
"""Rows, columns and terms of the products that were timed."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: its file, its name with template arguments, its tile of the result, and the shape of its blocks."""

    file: str
    name: str
    tile: tuple[int, int]
    block: int | tuple[int, int]


_SINGLE = {
    1: Kernel("1_naive", "sgemm_naive", (32, 32), (32, 32)),
    2: Kernel("2_kernel_global_mem_coalesce", "sgemm_global_mem_coalesce<32>", (32, 32), 1024),
    3: Kernel("3_kernel_shared_mem_blocking", "sgemm_shared_mem_block<32>", (32, 32), 1024),
    4: Kernel("4_kernel_1D_blocktiling", "sgemm1DBlocktiling<64, 64, 8, 8>", (64, 64), 512),
    5: Kernel("5_kernel_2D_blocktiling", "sgemm2DBlocktiling<128, 128, 8, 8, 8>", (128, 128), 256),
    6: Kernel("6_kernel_vectorize", "sgemmVectorize<128, 128, 8, 8, 8>", (128, 128), 256),
    7: Kernel("7_kernel_resolve_bank_conflicts", "sgemmResolveBankConflicts<128, 128, 8, 8, 8>", (128, 128), 256),
    8: Kernel("8_kernel_bank_extra_col", "sgemmResolveBankExtraCol<128, 128, 8, 8, 8>", (128, 128), 256),
}

_TUNED_A6000 = {
    9: Kernel("9_kernel_autotuned", "sgemmAutotuned<128, 128, 16, 8, 8>", (128, 128), 256),
    10: Kernel("10_kernel_warptiling", "sgemmWarptiling<128, 128, 16, 64, 64, 4, 8, 4, 128>", (128, 128), 128),
    11: Kernel(
        "11_kernel_double_buffering", "sgemmDoubleBuffering<128, 256, 16, 128, 32, 1, 8, 8, 256>", (128, 256), 256
    ),
}

_TUNED_A100 = {
    9: Kernel("9_kernel_autotuned", "sgemmAutotuned<64, 64, 16, 4, 4>", (64, 64), 256),
    10: Kernel("10_kernel_warptiling", "sgemmWarptiling<64, 128, 16, 32, 64, 1, 4, 4, 128>", (64, 128), 128),
}

KERNELS: Mapping[str, Mapping[int, Kernel]] = {
    "a6000": {**_SINGLE, **_TUNED_A6000},
    "a100-40g": {**_SINGLE, **_TUNED_A100},
}
"""The kernels by GPU and number; those from 9 on were tuned for each GPU."""

COMMITS = {"a6000": "da8be69", "a100-40g": "c09b350"}
"""The commits whose README has the speeds of each GPU, and whose kernels were timed."""

_BY_COLUMNS = 4
"""Number of the first kernel whose blocks with neighbouring numbers lie beside each other."""


def launch(sources: Path, gpu: str, number: int) -> Trace:
    """Return the launch of a kernel; `sources` has the repository in a folder for each GPU, at its commit."""
    kernel = KERNELS[gpu][number]
    rows, columns = (EXTENT // extent for extent in kernel.tile)
    folder = sources / gpu / "src" / "kernels"
    # Kernel 11 takes the size of a warp from the header of kernel 10.
    files = [kernel.file] if number <= 10 else ["10_kernel_warptiling", kernel.file]
    major, minor = compute_capability(presets.gpu(gpu))
    matrix = f"float[{EXTENT * EXTENT}]:zeros"
    return tracegen.cuda.trace(
        "".join(f'#include "{file}.cuh"\n' for file in files),
        kernel.name,
        (rows, columns) if number < _BY_COLUMNS else (columns, rows),
        kernel.block,
        {"M": EXTENT, "N": EXTENT, "K": EXTENT, "alpha": 0.5, "beta": 3.0, "A": matrix, "B": matrix, "C": matrix},
        includes=[folder],
        architecture=f"sm_{major}{minor}",
    )
