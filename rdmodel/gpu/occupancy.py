"""Compute the occupancy of an SM: the resident blocks of a launch, and the resource that limits them."""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import LaunchError
from rdmodel.gpu.config import GPU
from rdmodel.gpu.shared_memory import available_shared_memory, block_shared_memory
from rdmodel.trace import WARP, Launch


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The number of resident `blocks` of one SM, and the name of the resource that limits it (`limiter`).

    `warps` are those of the resident blocks, of `max_warps` that the SM has room for.
    """

    blocks: int
    limiter: str
    warps: int = field(default=0, repr=False, compare=False)
    max_warps: int = field(default=0, repr=False, compare=False)

    def __str__(self) -> str:
        """Return the occupancy as text: ``8 blocks, 32 of 64 warps (registers)``."""
        return f"{self.blocks} block{'s' * (self.blocks != 1)}, {self.warps} of {self.max_warps} warps ({self.limiter})"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers and strings."""
        return asdict(self)


def compute_occupancy(launch: Launch, gpu: GPU) -> Occupancy:
    """Return the occupancy: the number of blocks of a launch that fit on one SM at a time, and its limit.

    The number is the minimum over the limits on blocks, threads, warps, registers and shared memory. A warp takes its
    registers, in multiples of ``gpu.register_unit``, from one of the ``gpu.register_files`` of equal size. Shared
    memory is that of `rdmodel.gpu.shared_memory`. Raises a `LaunchError` that names the limit if not even one block
    fits. A launch is also refused if one block does not fit with its warps rounded up to a multiple of the files, as
    by the GPU (NVIDIA, cuda_occupancy.h, cudaOccMaxBlocksPerSMRegsLimit).
    """
    threads, warps = launch.block_threads, launch.block_warps
    if threads > gpu.max_block_threads:
        raise LaunchError(
            f"block={launch.block}: {threads} threads, {gpu.name} allows at most {gpu.max_block_threads} per block"
        )
    files, own = gpu.register_files, -(-launch.registers * WARP // gpu.register_unit) * gpu.register_unit
    needs = {
        "blocks": (1, gpu.max_blocks),
        "threads": (threads, gpu.max_threads),
        "warps": (warps, gpu.max_warps),
        "registers": (-(-warps // files) * files * own, gpu.registers),
        "shared memory": (block_shared_memory(launch, gpu), available_shared_memory(launch, gpu)),
    }
    fits = {name: has // need for name, (need, has) in needs.items() if need}
    if fits.get("registers"):
        fits["registers"] = gpu.registers // files // own * files // warps
    limiter = min(fits, key=lambda name: fits[name])
    if fits[limiter] == 0:
        need, has = needs[limiter]
        resource = "bytes of shared memory" if limiter == "shared memory" else limiter
        raise LaunchError(f"a block cannot be resident: it needs {need} {resource}, an SM of {gpu.name} has {has}")
    return Occupancy(fits[limiter], limiter, fits[limiter] * warps, gpu.max_warps)
