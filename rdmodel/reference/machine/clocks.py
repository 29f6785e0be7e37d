"""Relate the cycles of a clock domain to SM cycles, in exact integers (docs/machine.md, Time)."""

from __future__ import annotations


class Domain:
    """A clock of `mhz` MHz beside the SMs' clock of `sm_mhz` MHz; cycle 0 of both begins at the same time."""

    def __init__(self, mhz: int, sm_mhz: int) -> None:
        self._mhz = mhz
        self._sm_mhz = sm_mhz

    def first_cycle(self, t: int) -> int:
        """Return the first cycle of the domain that begins at or after the beginning of SM cycle `t`."""
        return -(-t * self._mhz // self._sm_mhz)

    def sm_cycle(self, d: int) -> int:
        """Return the first SM cycle that begins at or after the beginning of the domain's cycle `d`."""
        return -(-d * self._sm_mhz // self._mhz)

    def cycles_of(self, t: int) -> range:
        """Return the cycles of the domain that begin during SM cycle `t`: none, one or several."""
        return range(self.first_cycle(t), self.first_cycle(t + 1))
