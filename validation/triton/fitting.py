"""Time launches whose tiles may be too large for an SM."""

from __future__ import annotations

import rdmodel as rd


def time_if_it_fits(trace: rd.Trace, gpu: str) -> rd.TimeEstimate | None:
    """Return the time of a launch; None if no block of it fits on an SM."""
    try:
        return rd.time(trace, gpu)
    except rd.LaunchError:
        return None
