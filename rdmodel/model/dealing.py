"""From a launch to the blocks of each modelled SM: numbering, dealing and residency (Nugteren et al., 3.1 and 4.1).

Blocks are numbered x fastest, then y, then z, and dealt round-robin over the SMs. Threads of a block are numbered the
same way, and 32 consecutive ones form a warp.
"""

from __future__ import annotations

from collections.abc import Sequence

from rdmodel.errors import ConfigError
from rdmodel.model.options import Options
from rdmodel.trace import Launch


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
