"""The benchmark kernels, one module per suite; importing the package declares them all."""

from tracegen.kernels import labelling as labelling
from tracegen.kernels import mapreduce as mapreduce
from tracegen.kernels import parboil as parboil
from tracegen.kernels import polybench as polybench
from tracegen.kernels import rodinia as rodinia
from tracegen.kernels import rodinia_learning as rodinia_learning
from tracegen.kernels import sdk as sdk
from tracegen.kernels import sparse as sparse
from tracegen.kernels import traversal as traversal
from tracegen.kernels import trees as trees
from tracegen.kernels.registry import Benchmark, KernelSpec, Multiple, Position, kernel, kernels
from tracegen.kernels.tiled import TiledSpec

__all__ = ["Benchmark", "KernelSpec", "Multiple", "Position", "TiledSpec", "kernel", "kernels"]
