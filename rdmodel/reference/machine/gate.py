"""When a cache closes to streams: ``streaming-bypass``, for an L1 and for a slice of the L2."""

from __future__ import annotations

from rdmodel.policies import StreamingBypass


class Gate:
    """Open at first; closed after a period in which hardly any read found its tag."""

    def __init__(self, policy: StreamingBypass) -> None:
        self.is_open = True
        self._policy = policy
        self._looked = self._missed = 0

    def count_read(self, *, absent: bool) -> None:
        """Take note that a read was served; `absent` tells whether it did not find its tag."""
        self._looked += 1
        self._missed += absent

    def end_cycle(self, now: int) -> None:
        """At the end of a period, open or close."""
        if (now + 1) % self._policy.period:
            return
        if self._looked:
            self.is_open = self._missed / self._looked <= self._policy.threshold
        self._looked = self._missed = 0
