"""Deal blocks to SMs one by one: the oracle of `rdmodel.model.dealing`."""

from __future__ import annotations

from rdmodel.model.options import Options
from rdmodel.trace import Launch


def deal_one_by_one(launch: Launch, options: Options) -> list[list[int]]:
    """Go through the grid x fastest, then y, then z, and hand each block to the next SM in turn."""
    x, y, z = launch.grid
    blocks = [i + x * (j + y * k) for k in range(z) for j in range(y) for i in range(x)]
    kept = blocks if options.blocks is None else blocks[: options.blocks]
    per_sm: list[list[int]] = [[] for _ in range(options.sms)]
    for turn, block in enumerate(kept):
        mine = per_sm[turn % options.sms]
        room = options.threads is None or (len(mine) + 1) * launch.block_threads <= options.threads
        if room:
            mine.append(block)
    return per_sm if options.model_sms == "all" else per_sm[: options.model_sms]
