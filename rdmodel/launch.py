"""From a launch to the blocks of each modelled SM: numbering, dealing and residency (Nugteren et al., 3.1 and 4.1).

Blocks are numbered x fastest, then y, then z, and dealt round-robin over the SMs. Threads of a block are numbered the
same way, and 32 consecutive ones form a warp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rdmodel.config import GPU
from rdmodel.errors import ConfigError, LaunchError
from rdmodel.options import Options
from rdmodel.trace import WARP, Launch


@dataclass(frozen=True, slots=True)
class Residency:
    """How many `blocks` are resident on one SM, and the limit (`limiter`) that says so."""

    blocks: int
    limiter: str


def residency(launch: Launch, gpu: GPU) -> Residency:
    """Return how many blocks of a launch fit on one SM at a time.

    The minimum over the limits on blocks, threads, warps, registers and shared memory; registers are allocated per
    warp in multiples of ``gpu.register_unit``. Raises `LaunchError`, naming the limit, if not even one block fits.
    """
    threads, warps = launch.block_threads, launch.block_warps
    if threads > gpu.max_block_threads:
        raise LaunchError(
            f"block={launch.block}: {threads} threads, {gpu.name} allows at most {gpu.max_block_threads} per block"
        )
    unit = gpu.register_unit
    registers = warps * (-(-launch.registers * WARP // unit) * unit)
    needs = {
        "blocks": (1, gpu.max_blocks),
        "threads": (threads, gpu.max_threads),
        "warps": (warps, gpu.max_warps),
        "registers": (registers, gpu.registers),
        "shared memory": (launch.shared_memory, gpu.shared_memory),
    }
    fits = {name: has // need for name, (need, has) in needs.items() if need}
    limiter = min(fits, key=lambda name: fits[name])
    if fits[limiter] == 0:
        need, has = needs[limiter]
        raise LaunchError(f"a block cannot be resident: it needs {need} {limiter}, an SM of {gpu.name} has {has}")
    return Residency(fits[limiter], limiter)


def cap_blocks(launch: Launch, options: Options) -> int:
    """Return how many blocks one modelled SM takes at most under the option `threads`.

    Raises `ConfigError` if `threads` does not even cover one block.
    """
    if options.threads is None:
        return launch.blocks
    if options.threads < launch.block_threads:
        raise ConfigError(
            f"threads={options.threads}: is less than one block of {launch.block_threads} threads; nothing to model"
        )
    return options.threads // launch.block_threads


def deal(launch: Launch, options: Options) -> list[Sequence[int]]:
    """Return, for every modelled SM, the ids of its blocks in order.

    `options` must be resolved. Dealing is round-robin, so SM i gets blocks i, i + sms, ...; with
    ``model_sms="all"`` under the `hardware` definition, where a dispatcher hands out blocks at run time, these are
    the blocks that are available to be handed out.
    """
    assert options.sms is not None
    total = launch.blocks if options.blocks is None else min(options.blocks, launch.blocks)
    cap = cap_blocks(launch, options)
    modelled = options.sms if options.model_sms == "all" else options.model_sms
    return [range(sm, total, options.sms)[:cap] for sm in range(modelled)]


def modelled_blocks(launch: Launch, options: Options) -> Sequence[int]:
    """Return the ids of all blocks that a prediction under resolved `options` reads, ascending."""
    per_sm = deal(launch, options)
    if len(per_sm) == 1:
        return per_sm[0]
    return sorted(block for blocks in per_sm for block in blocks)
