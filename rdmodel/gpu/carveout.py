"""Choose the carve-out of a launch: how an SM divides its memory between the L1 and shared memory.

Since Volta, L1 and shared memory are one memory. The driver chooses the part of shared memory, the carve-out, for each
launch among a few sizes, and the L1 gets the rest. The resident blocks are those that fit with the largest carve-out,
and the memory that they take together decides the choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from rdmodel.gpu.config import GPU, replace
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.gpu.shared_memory import block_shared_memory
from rdmodel.trace import Launch

SHARED_FACTOR = 2
"""Factor of the memory of its resident blocks that "auto" gives to a launch with shared memory."""

LARGEST_DOUBLED_BLOCK = 1023
"""Threads of the largest block whose shared memory is given more than once."""


def choose_carveout(launch: Launch, gpu: GPU) -> int:
    """Return the bytes of shared memory that an SM has while it runs a launch.

    `gpu.l1.carveout` selects them. "auto": the choice of drivers since about 2023 (`_auto_choice`). "fit": the smallest
    choice that holds the resident blocks, which earlier drivers took. "max-l1": the smallest that holds one block.
    "max-shared": the largest. A number: this choice. The rule "auto" was measured on an H100, "fit" inferred from
    profiles (docs/gpus.md). If the L1 has memory of its own, they are `gpu.shared_memory`. Raises `LaunchError` if a
    block cannot be resident.
    """
    l1 = gpu.l1
    blocks = compute_occupancy(launch, gpu).blocks
    if not l1.unified:
        return gpu.shared_memory
    if not isinstance(l1.carveout, str):
        return l1.carveout
    if l1.carveout == "max-shared":
        return l1.carveouts[-1]
    if l1.carveout == "auto":
        return _auto_choice(launch, gpu, blocks)
    return smallest_choice(blocks * block_shared_memory(launch, gpu), l1.carveouts)


def _auto_choice(launch: Launch, gpu: GPU, blocks: int) -> int:
    """Return the choice of the driver for a launch of which so many blocks are resident.

    It is meant for a multiple of these blocks, but for no more of them than an SM can have, and it is more than half of
    the memory only if nothing less holds the resident blocks.
    """
    choices, block = gpu.l1.carveouts, block_shared_memory(launch, gpu)
    fit = smallest_choice(blocks * block, choices)
    if not launch.shared_memory:
        factor = gpu.l1.bare_factor
    else:
        factor = SHARED_FACTOR if launch.block_threads <= LARGEST_DOUBLED_BLOCK else 1
    wanted = min(factor * blocks, gpu.max_blocks) * block
    most = smallest_choice(min(gpu.l1.unified // 2, choices[-1]), choices)
    return max(fit, smallest_choice(min(wanted, most), choices))


def smallest_choice(need: int, choices: Sequence[int]) -> int:
    """Return the smallest choice of at least `need` bytes; `choices` are sorted, and one of them is large enough."""
    return next(choice for choice in choices if choice >= need)


def fit_to_launch(gpu: GPU, launch: Launch) -> GPU:
    """Return the GPU whose L1 has the size that it has while a launch runs.

    `l1.carveout` then is the chosen number, and `l1.size` what it leaves. A GPU whose L1 has memory of its own is
    returned unchanged. Raises `LaunchError` if a block cannot be resident.
    """
    if not gpu.l1.unified:
        return gpu
    fitted: GPU = replace(gpu, l1=gpu.l1.with_carveout(choose_carveout(launch, gpu)))
    return fitted
