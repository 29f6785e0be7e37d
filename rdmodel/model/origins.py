"""Make the counters by origin of a prediction from those that its cores tallied."""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from rdmodel.gpu.config import GPU
from rdmodel.model._core import Core
from rdmodel.results.counts import MissCounts
from rdmodel.results.origins import TALLIED_COUNTERS, OriginEntry, Origins
from rdmodel.trace import ArrayInfo, Launch, Trace

PLACE_BYTES = 1 << 21
"""Bytes of a place outside all arrays: CUDA gives every large allocation such pages of its own."""


def begin_tally(core: Core, launch: Launch, gpu: GPU) -> None:
    """Let a new core count by instruction, and by array or range of addresses."""
    line, arrays = gpu.l1.line, place_arrays(launch)
    first = np.array([array.base // line for array in arrays], np.int64)
    end = np.array([-(-(array.base + array.bytes) // line) for array in arrays], np.int64)
    # A line that two arrays share belongs to the one that begins in it.
    end[:-1] = np.minimum(end[:-1], first[1:])
    core.tally_by(first, end, (PLACE_BYTES // line).bit_length() - 1)


def collect_tally(core: Core, trace: Trace, gpu: GPU) -> Origins:
    """Return what a core has counted by origin."""
    pcs, places, counts = core.tallied()
    assert counts.shape[1] == len(TALLIED_COUNTERS)
    if not core.sectored:
        # Such a core counts neither: a line that misses is absent.
        causes = [TALLIED_COUNTERS.index(cause) for cause in MissCounts.CAUSES]
        counts[:, TALLIED_COUNTERS.index("tag_misses")] = counts[:, causes].sum(axis=1)
    entries = (
        OriginEntry(*row) for row in zip(pcs.tolist(), places.tolist(), map(tuple, counts.tolist()), strict=True)
    )
    present = set(pcs.tolist())
    return Origins(
        kernel=trace.launch.kernel,
        entries=tuple(sorted((entry for entry in entries if any(entry.numbers)), key=attrgetter("pc", "place"))),
        sources={pc: source for pc, source in trace.sources.items() if pc in present},
        arrays=place_arrays(trace.launch),
        place_bytes=PLACE_BYTES,
        sector_bytes=gpu.l1.sector_bytes,
    )


def place_arrays(launch: Launch) -> tuple[ArrayInfo, ...]:
    """Return the arrays of a launch that have bytes, in the order of their addresses."""
    return tuple(sorted((array for array in launch.arrays if array.bytes > 0), key=attrgetter("base")))
