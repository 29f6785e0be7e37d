"""The benchmark kernels, one module per suite; importing the package declares them all."""

from tracegen.kernels import polybench as polybench
from tracegen.kernels.registry import Benchmark, KernelSpec, Position, kernel, kernels

__all__ = ["Benchmark", "KernelSpec", "Position", "kernel", "kernels"]
