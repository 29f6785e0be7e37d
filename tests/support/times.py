"""Tell the cycles of an estimated time that belong to the blocks of its launch."""

from __future__ import annotations

from rdmodel.timing.values import LAUNCH, TimeEstimate


def of_blocks(found: TimeEstimate) -> float:
    """Return the cycles of the blocks of a launch, without the launch itself."""
    return found.cycles - found.terms[LAUNCH]
