"""Define the callback by which long work reports its progress."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Callback with the arguments (blocks started or finished, total blocks), summed over the runs of one call.

It is called often while work goes on, and may raise to end it.
"""


def stage(progress: Progress | None, number: int, runs: int) -> Progress | None:
    """Return the callback for run `number` (from 0) of `runs` equally long runs that `progress` sees as one."""
    if progress is None:
        return None
    return lambda begun, blocks: progress(number * blocks + begun, runs * blocks)
