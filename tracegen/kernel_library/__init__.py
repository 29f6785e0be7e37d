"""Declare the named kernels, one module per suite, which is imported when one of its kernels is used."""

from tracegen.kernel_library.registry import Benchmark, KernelSpec, Multiple, Position, kernel, kernels
from tracegen.kernel_library.tiled import TiledSpec

__all__ = ["Benchmark", "KernelSpec", "Multiple", "Position", "TiledSpec", "kernel", "kernels"]
