"""Define the memory request prioritization buffer."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from rdmodel.common.checks import check_choice, check_flag, check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.policies.base import Kind, Policy, Settings
from rdmodel.policies.bypass_on_stall import Stalls

Signature = Literal["warp", "block", "warp-in-block"]
Drain = Literal["fixed", "round-robin", "longest", "greedy-fixed", "greedy-round-robin", "greedy-longest"]
GREEDY = "greedy-"
"""Prefix of the orders that stay with one queue until it is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MRPB(Policy):
    """The memory request prioritization buffer: queues in front of the L1 (Jia, Shaw and Martonosi, section 3).

    Loads wait in one FIFO queue per `signature`, of `entries` transactions each (None or ``inf``: unlimited), for at
    least `latency` cycles. They leave it in the order of `drain`. With `flush`, a queue is drained first while it is
    full and another transaction wants to enter, and before a store of its signature. `bypass` names the stalls at which
    a load bypasses the L1, as in `BypassOnStall`; None: it waits.
    """

    signature: Signature = "warp"
    drain: Drain = "fixed"
    flush: bool = True
    entries: int | None = 8
    latency: int = 5
    bypass: Stalls | None = "associativity"
    name: ClassVar[str] = "mrpb"
    kind: ClassVar[Kind] = "reordering"

    def __post_init__(self) -> None:
        """Check the options; store infinitely many entries as None."""
        check_choice("signature", self.signature, Signature)
        check_choice("drain", self.drain, Drain)
        check_flag("flush", self.flush)
        if self.entries == math.inf:
            object.__setattr__(self, "entries", None)
        if self.entries is not None:
            check_int("entries", self.entries, 1)
        check_int("latency", self.latency, 0)
        if self.bypass is not None:
            check_choice("bypass", self.bypass, Stalls)

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {
            "buffered": True,
            "signature": self.signature,
            "drain": self.drain.removeprefix(GREEDY),
            "greedy": self.drain.startswith(GREEDY),
            "flush": self.flush,
            "entries": -1 if self.entries is None else self.entries,
            "latency": self.latency,
            "bypass": "none" if self.bypass is None else self.bypass,
        }
