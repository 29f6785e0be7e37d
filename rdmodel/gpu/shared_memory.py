"""Compute the shared memory that a block takes, and the shared memory of an SM that limits the resident blocks."""

from __future__ import annotations

from rdmodel.errors import LaunchError
from rdmodel.gpu.config import GPU
from rdmodel.trace import Launch


def block_shared_memory(launch: Launch, gpu: GPU) -> int:
    """Return the bytes of shared memory that a block takes: its own, those reserved by the driver, in whole units."""
    unit = gpu.shared_memory_unit
    return -(-(launch.shared_memory + gpu.shared_memory_reserved) // unit) * unit


def available_shared_memory(launch: Launch, gpu: GPU) -> int:
    """Return the bytes of shared memory that limit the resident blocks of an SM.

    The largest carve-out limits them, unless `gpu.l1.carveout` prefers another one: under "max-l1" it is the smallest
    choice that holds one block. Raises `LaunchError` if a block does not fit.
    """
    l1, need = gpu.l1, block_shared_memory(launch, gpu)
    if not l1.unified:
        return gpu.shared_memory
    if need > l1.carveouts[-1]:
        reserved = f" and {gpu.shared_memory_reserved} that the driver reserves" if gpu.shared_memory_reserved else ""
        raise LaunchError(
            f"shared memory: a block takes {need} bytes ({launch.shared_memory} of its own{reserved}); the largest "
            f"carve-out of {gpu.name} has {l1.carveouts[-1]}"
        )
    if l1.carveout == "max-l1":
        return next(choice for choice in l1.carveouts if choice >= need)
    if isinstance(l1.carveout, str):
        return l1.carveouts[-1]
    if need > l1.carveout:
        fitting = ", ".join(str(choice) for choice in l1.carveouts if choice >= need)
        raise LaunchError(
            f"carveout={l1.carveout}: a block takes {need} bytes of shared memory; choose one of {fitting}, or auto"
        )
    return l1.carveout
