"""Represent the estimated time of a launch, its parts, and the resource that binds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.presentation import Presented
from rdmodel.timing.traffic import LaunchTraffic
from rdmodel.trace import RegisterUse, Work

LATENCY = "latency"
"""Name of the term that is no resource: the time of warps that are alone."""

LAUNCH = "launch"
"""Name of the time that a launch takes beside that of its blocks."""

SHOWN_SHARE = 0.05
"""Smallest share of the time that a term needs to be named in one line."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TimeEstimate(Presented):
    """The estimated time of a launch: how long it takes, and why.

    Parameters
    ----------
    kernel, gpu
        Name of the kernel and of the GPU.
    cycles
        Time in cycles of the SMs, with the launch itself.
    clock
        Clock of the SMs in MHz, which falls under matrix products (`rdmodel.timing.clock`).
    terms
        For each resource, the cycles that the launch would take if it were bound by this resource alone; and under
        "latency", the cycles that it would take if warps waited for nothing but their own instructions, whose loads
        take as long as the DRAM is used. "launch" is what the launch takes beside its blocks.
    resident_blocks, resident_warps, max_warps
        Blocks and warps that are on an SM at a time, and the number of warps that an SM can have.
    limiter
        What limits them (`rdmodel.gpu.occupancy`).
    waves
        Times that all SMs are filled with resident blocks; `tail_share` of the cycles are spent after the last full
        one.
    work
        Work of the blocks that were sampled.
    traffic
        LaunchTraffic of the whole grid behind the SMs.
    launch
        Number of the launch in the recording of a program; None for other traces.
    registers
        Registers of a thread, and how they are known; None if nothing is known.
    """

    kernel: str
    gpu: str
    cycles: float
    clock: int
    terms: Mapping[str, float]
    resident_blocks: int
    resident_warps: int
    max_warps: int
    limiter: str
    waves: int
    tail_share: float
    work: Work = field(repr=False)
    traffic: LaunchTraffic = field(repr=False)
    launch: int | None = None
    registers: RegisterUse | None = None

    @property
    def milliseconds(self) -> float:
        """Time in milliseconds."""
        return self.cycles / self.clock / 1000

    @property
    def bound(self) -> str:
        """Name of the largest term."""
        return max(self.terms, key=lambda name: self.terms[name])

    @property
    def shares(self) -> dict[str, float]:
        """Each term as a share of the time, the largest first."""
        ordered = sorted(self.terms.items(), key=lambda term: -term[1])
        return {name: cycles / self.cycles if self.cycles else 0.0 for name, cycles in ordered}

    @property
    def explanation(self) -> str:
        """One line: ``bound by: DRAM 92 %, fp32 44 %; occupancy 12 of 64 warps (registers)``."""
        named = [f"{name} {100 * share:.0f} %" for name, share in self.shares.items() if share >= SHOWN_SHARE]
        occupancy = f"occupancy {self.resident_warps} of {self.max_warps} warps ({self.limiter})"
        return f"bound by: {', '.join(named)}; {occupancy}"

    def __str__(self) -> str:
        """Return the time and its explanation in one line."""
        return f"{self.kernel} on {self.gpu}: {self.milliseconds:.4g} ms, {self.explanation}"

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain numbers, texts and dicts, ready for JSON."""
        return {
            "kernel": self.kernel,
            **({} if self.launch is None else {"launch": self.launch}),
            "gpu": self.gpu,
            "milliseconds": self.milliseconds,
            "cycles": self.cycles,
            "clock": self.clock,
            "bound": self.bound,
            "shares": self.shares,
            "terms": dict(self.terms),
            "occupancy": {
                "blocks": self.resident_blocks,
                "warps": self.resident_warps,
                "max_warps": self.max_warps,
                "limiter": self.limiter,
            },
            **({} if self.registers is None else {"registers": self.registers.to_dict()}),
            "waves": self.waves,
            "tail_share": self.tail_share,
            "work": self.work.to_dict(),
            "traffic": self.traffic.to_dict(),
        }

    def to_row(self) -> dict[str, Any]:
        """Return the estimate as one flat row, for CSV."""
        launch = () if self.launch is None else ("launch",)
        names = (
            "kernel",
            *launch,
            "gpu",
            "milliseconds",
            "cycles",
            "bound",
            "resident_blocks",
            "resident_warps",
            "limiter",
        )
        row: dict[str, Any] = {name: getattr(self, name) for name in names}
        return row | {f"{name} cycles": cycles for name, cycles in self.terms.items()}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return `to_row` as the only row."""
        return [self.to_row()]

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the terms, the largest first: their cycles, and their share of the time in percent."""
        return [
            {"term": name, "cycles": self.terms[name], "share (%)": round(100 * share, 2)}
            for name, share in self.shares.items()
        ]
