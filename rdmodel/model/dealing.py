"""Deal the blocks of a launch to the modelled SMs (Nugteren et al., 3.1 and 4.1).

Blocks are numbered with x fastest, then y, then z, and are dealt round-robin to the SMs. The threads of a block are
numbered the same way; 32 consecutive threads form a warp.
"""

from __future__ import annotations

from collections.abc import Sequence

from rdmodel.errors import ConfigError
from rdmodel.model.options import Options
from rdmodel.trace import Launch


def cap_blocks(launch: Launch, options: Options) -> int:
    """Return the largest number of blocks that a modelled SM runs under the option `threads`.

    Raises `ConfigError` if `threads` is less than one block.
    """
    if options.threads is None:
        return launch.blocks
    if options.threads < launch.block_threads:
        raise ConfigError(
            f"threads={options.threads}: must be at least {launch.block_threads}, the threads of one block"
        )
    return options.threads // launch.block_threads


def deal(launch: Launch, options: Options) -> list[Sequence[int]]:
    """Return, for every modelled SM, the ids of its blocks in order.

    `options` must be resolved. Dealing is round-robin: SM i gets blocks i, i + sms, ... With ``model_sms="all"`` under
    the `hardware` definition, a dispatcher assigns the blocks at run time; then the result has all blocks that it may
    assign, but not their SMs.
    """
    assert options.sms is not None
    total = launch.blocks if options.blocks is None else min(options.blocks, launch.blocks)
    cap = cap_blocks(launch, options)
    modelled = options.sms if options.model_sms == "all" else options.model_sms
    return [range(sm, total, options.sms)[:cap] for sm in range(modelled)]


def modelled_blocks(launch: Launch, options: Options) -> Sequence[int]:
    """Return the ids of all blocks that a prediction with resolved `options` reads, ascending."""
    per_sm = deal(launch, options)
    if len(per_sm) == 1:
        return per_sm[0]
    return sorted(block for blocks in per_sm for block in blocks)
