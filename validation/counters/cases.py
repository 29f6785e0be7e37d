"""List the measured kernels, their launch files or programs, and the inputs that a launch file cannot describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from validation.common import records

FOLDER = Path(__file__).parent
LAUNCHES = FOLDER / "launches"
PROGRAMS = FOLDER / "programs"
GPU = "gv100"
"""Folders of the launch files and of programs for libraries of headers, and preset of the measured GPU."""

Inputs = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Program:
    """A program whose host code makes the data of its kernels, so that it is built, run and recorded.

    `folder` holds `sources`; `files` are the texts of its input files, and `launch` is the number of the launch. For a
    library of headers, `main` is the file in `PROGRAMS` that is compiled, and `sources` are headers that it includes.
    """

    folder: str
    sources: tuple[str, ...]
    files: Callable[[], Mapping[str, str]] = dict
    arguments: tuple[str, ...] = ()
    launch: int = 1
    main: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A measured kernel: its name in `measured.csv`, which is that of its launch file if it needs no program."""

    name: str
    kernel: str
    simulated: bool = False
    inputs: Callable[[], Inputs] = field(default=dict)
    program: Program | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured counter."""

    case: str
    metric: str
    value: float


def neighbours() -> Inputs:
    """Return the rows and columns beside each of the picture of srad, which end at its borders."""
    rows, columns = np.arange(502, dtype=np.int32), np.arange(458, dtype=np.int32)
    return {
        "north": np.maximum(rows - 1, 0),
        "south": np.minimum(rows + 1, 501),
        "west": np.maximum(columns - 1, 0),
        "east": np.minimum(columns + 1, 457),
    }


def keys_and_commands() -> Mapping[str, str]:
    """Return the input files of b+tree.

    The file of keys is made here, since no copy of the sources has it. Its SHA-256 is that of the file of Rodinia's
    data (Munksgaard/rodinia@74c85fe, data/b+tree/mil.txt).
    """
    keys = "\n".join(map(str, [1_000_000, *range(1_000_000)]))
    return {"mil.txt": f"{keys}\n", "command.txt": "j 6000 3000\nk 10000\n"}


B_PLUS_TREE = Program(
    folder="rodinia/cuda/b+tree",
    sources=(
        "main.c",
        "kernel/kernel_gpu_cuda_wrapper.cu",
        "kernel/kernel_gpu_cuda_wrapper_2.cu",
        "util/timer/timer.c",
        "util/num/num.c",
        "util/cuda/cuda.cu",
    ),
    files=keys_and_commands,
    arguments=("file", "mil.txt", "command", "command.txt"),
    launch=2,
)

CUTLASS = Program(folder="cutlass", sources=("cutlass/gemm/gemm.h",), main="wmma_gemm.cu")

CASES = {
    case.name: case
    for case in (
        Case("hotspot", "calculate_temp", simulated=True),
        Case("backprop", "bpnn_layerforward_CUDA", simulated=True),
        Case("srad", "srad", simulated=True, inputs=neighbours),
        Case("sgemm", "mysgemmNT", simulated=True),
        Case("dct8x8", "CUDAkernel2DCT", simulated=True),
        Case("fastWalshTransform", "fwtBatch1Kernel", simulated=True),
        Case("histogram", "histogram64Kernel", simulated=True),
        Case("mergeSort", "mergeSortSharedKernel<1>", simulated=True),
        Case("quasirandomGenerator", "quasirandomGeneratorKernel", simulated=True),
        Case("cudaTensorCoreGemm", "compute_gemm"),
        Case("b+tree", "findK", simulated=True, program=B_PLUS_TREE),
        Case("cutlass", "gemm_kernel_nolb", simulated=True, program=CUTLASS),
    )
}


def read_measured() -> list[Measured]:
    """Return the measured counters."""
    return records.from_csv(Measured, (FOLDER / "measured.csv").read_text())
