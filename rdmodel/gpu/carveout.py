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


def choose_carveout(launch: Launch, gpu: GPU) -> int:
    """Return the bytes of shared memory that an SM has while it runs a launch.

    `gpu.l1.carveout` selects them. "auto": the choice of drivers since about 2023 (`auto_choice`). "fit": the smallest
    choice that holds the resident blocks, which earlier drivers took. "max-l1": the smallest that holds one block.
    "max-shared": the largest. A number: this choice. The rules "auto" and "fit" were inferred from profiles
    (docs/gpus.md). If the L1 has memory of its own, they are `gpu.shared_memory`. Raises `LaunchError` if a block
    cannot be resident.
    """
    l1 = gpu.l1
    blocks = compute_occupancy(launch, gpu).blocks
    if not l1.unified:
        return gpu.shared_memory
    if not isinstance(l1.carveout, str):
        return l1.carveout
    if l1.carveout == "max-shared":
        return l1.carveouts[-1]
    need = blocks * block_shared_memory(launch, gpu)
    return auto_choice(need, l1.carveouts) if l1.carveout == "auto" else smallest_choice(need, l1.carveouts)


def auto_choice(need: int, choices: Sequence[int]) -> int:
    """Return the choice of the driver for resident blocks that take `need` bytes.

    It is the smallest that has twice these bytes. The largest is taken only if no other one holds the blocks: an RTX
    4090 gives one block of 49 KB a carve-out of 64 KB, not of 100 KB.
    """
    double = smallest_choice(2 * need, choices) if 2 * need <= choices[-1] else choices[-1]
    return double if double < choices[-1] else smallest_choice(need, choices)


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
