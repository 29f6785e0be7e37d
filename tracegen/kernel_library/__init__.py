"""Declare the named kernels, one module per suite; importing the package registers all of them."""

from tracegen.kernel_library import labelling as labelling
from tracegen.kernel_library import mapreduce as mapreduce
from tracegen.kernel_library import parboil as parboil
from tracegen.kernel_library import polybench as polybench
from tracegen.kernel_library import rodinia as rodinia
from tracegen.kernel_library import rodinia_learning as rodinia_learning
from tracegen.kernel_library import sdk as sdk
from tracegen.kernel_library import sparse as sparse
from tracegen.kernel_library import traversal as traversal
from tracegen.kernel_library import trees as trees
from tracegen.kernel_library.registry import Benchmark, KernelSpec, Multiple, Position, kernel, kernels
from tracegen.kernel_library.tiled import TiledSpec

__all__ = ["Benchmark", "KernelSpec", "Multiple", "Position", "TiledSpec", "kernel", "kernels"]
