"""Trace kernels that are Python functions of a block of threads."""

from tracegen.simt.kernel_trace import Array, Block, Buffer, KernelTrace, trace

__all__ = ["Array", "Block", "Buffer", "KernelTrace", "trace"]
