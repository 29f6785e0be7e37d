"""Model the crossbar: a serialised port per SM, per slice and per direction, and a fixed latency between them."""

from __future__ import annotations

from rdmodel.gpu.memory import CrossbarConfig
from rdmodel.reference.machine.clocks import Domain


class Ports:
    """Ports of one direction: the crossbar cycle from which each `source` and each `target` port is free."""

    def __init__(self, sources: int, targets: int) -> None:
        self.source = [0] * sources
        self.target = [0] * targets


class Crossbar:
    """The crossbar: `requests` travel from SMs to slices, `responses` from slices to SMs."""

    def __init__(self, config: CrossbarConfig, sm_mhz: int, sms: int, slices: int) -> None:
        self.requests = Ports(sms, slices)
        self.responses = Ports(slices, sms)
        self._config = config
        self._domain = Domain(config.clock, sm_mhz)

    def may_request(self, sm: int, now: int) -> bool:
        """Return whether the request port of an SM is free before SM cycle `now` is over."""
        return self.requests.source[sm] < self._domain.first_cycle(now + 1)

    def carry(self, ports: Ports, source: int, target: int, size: int, now: int) -> int:
        """Send `size` bytes in SM cycle `now`; return the SM cycle in which they have arrived, at least `now` + 1."""
        flits = -(-size // self._config.width)
        leaves = max(ports.source[source], self._domain.first_cycle(now))
        ports.source[source] = leaves + flits
        reaches = max(leaves + self._config.latency, ports.target[target])
        ports.target[target] = reaches + flits
        return max(self._domain.sm_cycle(reaches + flits), now + 1)
