"""Close a cache to streams: the decision of ``streaming-bypass``, for an L1 and for a slice of the L2."""

from __future__ import annotations

from rdmodel.policies import StreamingBypass


class Gate:
    """Open at first; closed after each period in which the share of reads without a tag exceeded the threshold."""

    def __init__(self, policy: StreamingBypass) -> None:
        self.is_open = True
        self._policy = policy
        self._looked = self._missed = 0

    def count_read(self, *, absent: bool) -> None:
        """Count a served read; `absent` says whether it found no tag."""
        self._looked += 1
        self._missed += absent

    def end_cycle(self, now: int) -> None:
        """Open or close at the end of a period."""
        if (now + 1) % self._policy.period:
            return
        if self._looked:
            self.is_open = self._missed / self._looked <= self._policy.threshold
        self._looked = self._missed = 0
