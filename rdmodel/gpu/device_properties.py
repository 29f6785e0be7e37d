"""Describe a GPU as programs see it: the numbers of ``cudaDeviceProp``, by the names of its fields."""

from __future__ import annotations

import re

from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU

_CAPABILITY = re.compile(r"compute capability (\d+)\.(\d)")

_CAPABILITIES = {
    "Fermi": (2, 0), "Kepler": (3, 5), "Maxwell": (5, 2), "Pascal": (6, 0), "Volta": (7, 0), "Turing": (7, 5),
    "Ampere": (8, 0), "Ada": (8, 9), "Hopper": (9, 0), "Blackwell": (10, 0),
}  # fmt: skip
"""Compute capabilities of architectures, for GPUs whose sources name none."""

_STATIC_SHARED_BYTES = 48 << 10
"""Largest shared memory of a block that asks for no more."""


def compute_capability(gpu: GPU) -> tuple[int, int]:
    """Return the compute capability that the sources of a GPU name, or else that of its architecture.

    Raises `ConfigError` if neither is known.
    """
    for name in ("architecture", *gpu.sources):
        found = _CAPABILITY.search(str(gpu.sources.get(name, "")))
        if found:
            return int(found[1]), int(found[2])
    if gpu.architecture not in _CAPABILITIES:
        raise ConfigError(
            f"architecture={gpu.architecture!r}: must be one of {', '.join(_CAPABILITIES)}, which give the GPU "
            f"{gpu.name} its compute capability"
        )
    return _CAPABILITIES[gpu.architecture]


def device_properties(gpu: GPU, memory: int) -> dict[str, int]:
    """Return the properties of a GPU with `memory` bytes; raises `ConfigError` as `compute_capability` does."""
    major, minor = compute_capability(gpu)
    largest = gpu.shared_memory - gpu.shared_memory_reserved
    return {
        "major": major,
        "minor": minor,
        "totalGlobalMem": memory,
        "sharedMemPerBlock": min(_STATIC_SHARED_BYTES, largest),
        "sharedMemPerBlockOptin": largest,
        "sharedMemPerMultiprocessor": gpu.shared_memory,
        "reservedSharedMemPerBlock": gpu.shared_memory_reserved,
        "regsPerBlock": gpu.registers,
        "regsPerMultiprocessor": gpu.registers,
        "warpSize": 32,
        "memPitch": (1 << 31) - 1,
        "maxThreadsPerBlock": gpu.max_block_threads,
        "maxThreadsDimX": gpu.max_block_threads,
        "maxThreadsDimY": gpu.max_block_threads,
        "maxThreadsDimZ": 64,
        "maxGridSizeX": (1 << 31) - 1 if major > 2 else 65535,
        "maxGridSizeY": 65535,
        "maxGridSizeZ": 65535,
        "clockRate": 1000 * gpu.clock,
        "totalConstMem": 1 << 16,
        "textureAlignment": 512,
        "texturePitchAlignment": 32,
        "deviceOverlap": 1,
        "multiProcessorCount": gpu.sms,
        "canMapHostMemory": 1,
        "concurrentKernels": 1,
        "asyncEngineCount": 1,
        "unifiedAddressing": 1,
        "memoryClockRate": 1000 * gpu.dram.clock,
        "memoryBusWidth": 8 * gpu.dram.width * gpu.l2.slices // 2,
        "l2CacheSize": gpu.l2.size * gpu.l2.slices,
        "maxThreadsPerMultiProcessor": gpu.max_threads,
        "maxBlocksPerMultiProcessor": gpu.max_blocks,
        "globalL1CacheSupported": 1,
        "localL1CacheSupported": 1,
        "managedMemory": 1,
        "concurrentManagedAccess": 0,
        "cooperativeLaunch": int(major >= 6),
        "memoryPoolsSupported": 1,
        "clusterLaunch": int(major >= 9),
    }
