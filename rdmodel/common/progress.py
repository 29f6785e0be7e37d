"""How long work tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with (blocks begun or done, blocks in all), often, as work goes on; blocks of several runs are added up."""


def stage(progress: Progress | None, number: int, of: int) -> Progress | None:
    """Return the progress of run `number` among `of` runs of equal length, told to `progress` as one long run."""
    if progress is None:
        return None
    return lambda begun, blocks: progress(number * blocks + begun, of * blocks)
