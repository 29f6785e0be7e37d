"""Add the accesses of spilled registers, which a trace does not have, to the work and the latency of a block."""

from __future__ import annotations

from rdmodel.timing.latency import Phase
from rdmodel.trace import WARP, Work

_WORD_BYTES = 4
"""Bytes of a register; the lanes of a warp have theirs side by side in local memory, in one line."""


def with_spills(work: Work, spills: tuple[float, float], sector: int) -> Work:
    """Return the work of a block, with the loads and the stores of spilled registers (`Trace.spills`)."""
    if not any(spills):
        return work
    counts = dict(zip(("load_local", "store_local"), spills, strict=True))
    sectors = {name: count * WARP * _WORD_BYTES / sector for name, count in counts.items()}
    return work + Work(
        blocks=0, warps=0, instructions=counts, requests=counts, tag_lookups=counts, sectors=sectors,
        has_arithmetic=work.has_arithmetic, has_shared=work.has_shared,
    )  # fmt: skip


def phases_of_spills(spills: tuple[float, float], warps: int, latency: float) -> list[Phase]:
    """Return the time in which a warp waits for its spilled registers, as a phase of its own; none without spills.

    A thread spills since it has no register left, so that it loads a value when it needs it, and waits for it.
    """
    loads, stores = (count / warps for count in spills)
    return [Phase(loads * latency + stores, loads + stores, 0.0)] if loads or stores else []
