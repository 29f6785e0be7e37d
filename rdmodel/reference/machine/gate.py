"""Close a cache to streams: the decision of ``streaming-bypass``, for an L1 and for a slice of the L2."""

from __future__ import annotations

from rdmodel.policies import StreamingBypass


def thrashes(misses: int, instructions: int, mpki: float) -> bool:
    """Return whether a period had more than `mpki` misses per 1,000 thread instructions."""
    return instructions > 0 and 1000 * misses / instructions > mpki


class Gate:
    """Open at first; closed after each period in which the share of reads without a tag exceeded the threshold.

    The gate of an L1 stays open while the L1 thrashes: it knows the thread instructions of its SM.
    """

    def __init__(self, policy: StreamingBypass) -> None:
        self.is_open = True
        self._policy = policy
        self._looked = self._missed = 0
        self._instructions = 0  # at the beginning of the period

    def count_read(self, *, absent: bool) -> None:
        """Count a served read; `absent` says whether it found no tag."""
        self._looked += 1
        self._missed += absent

    def end_cycle(self, now: int, instructions: int = 0) -> None:
        """Open or close at the end of a period, after so many thread instructions of the SM; 0 for slices."""
        if (now + 1) % self._policy.period:
            return
        if self._looked:
            few = self._missed / self._looked <= self._policy.threshold
            mpki = self._policy.mpki
            executed = instructions - self._instructions
            self.is_open = few or (mpki is not None and thrashes(self._missed, executed, mpki))
        self._looked = self._missed = 0
        self._instructions = instructions
