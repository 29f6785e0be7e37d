"""Represent the counters of the late part of a run (`rdmodel.model.divided_runs`)."""

from __future__ import annotations

from dataclasses import field

from rdmodel.common.late_dataclass import dataclass

EARLY, LATE = 0, 1
"""Pcs of the instructions of both parts."""


@dataclass(frozen=True, slots=True)
class LateCounts:
    """Counters of the late part of a run.

    `tallied` has those of the L1 by name, `l2` those of the L2; "dirtied" sectors became dirty.
    """

    tallied: dict[str, float]
    l2: dict[str, int] = field(default_factory=dict)
