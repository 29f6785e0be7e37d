"""List the measured kernels, their launch files, and the inputs that a launch file cannot describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from validation.common import records

FOLDER = Path(__file__).parent
LAUNCHES = FOLDER / "launches"
GPU = "gv100"
"""Folder of the launch files, and preset of the measured GPU."""

Inputs = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Case:
    """A measured kernel: its name in `measured.csv`, which is that of its launch file, and the reason of its errors."""

    name: str
    kernel: str
    simulated: bool = False
    inputs: Callable[[], Inputs] = field(default=dict)
    reason: str = ""


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
    )
}


def read_measured() -> list[Measured]:
    """Return the measured counters."""
    return records.from_csv(Measured, (FOLDER / "measured.csv").read_text())
