"""Read the counts of Accel-Sim, and simulate the same traces on the preset of its machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import rdmodel as rd
import tracegen
from rdmodel.gpu.overrides import override
from rdmodel.trace import Trace
from validation.common import records

FOLDER = Path(__file__).parent
COUNTED = FOLDER / "counted.csv"
CSV = FOLDER / "simulated.csv"
RESULTS = FOLDER / "RESULTS.md"

GPU = "accelsim-fermi"

KERNELS: Mapping[str, Mapping[str, Any]] = {
    "atax.1": {"NX": 4096, "NY": 32},
    "mvt.1": {"N": 256},
    "syrk": {"N": 64, "M": 64},
    "syr2k": {"N": 64, "M": 64},
    "gemm": {"NI": 64, "NJ": 64, "NK": 64},
    "2dconv": {"NI": 256, "NJ": 256},
    "bicg.2": {"NX": 256, "NY": 256},
    "corr.reduce": {"M": 128, "N": 128},
    "fdtd2d.1": {"NX": 128, "NY": 128},
    "covar.reduce": {"M": 128, "N": 128},
    "mvt.2": {"N": 64},
    "gesummv": {"N": 64},
}
"""The compared kernels with sizes that Accel-Sim simulates within minutes."""

CACHES = {16: {"l1.size": 16384, "l1.ways": 4}, 48: {"l1.size": 49152, "l1.ways": 6}}
"""The fields of both L1s, by kilobytes."""

SCHEDULERS = ("lrr", "gto")

MACHINES: Mapping[str, Mapping[str, Any]] = {
    "preset": {},
    "fair turns": {"core.first_scheduler": "fair"},
    "queue of 5": {"core.ldst_queue": 5},
    "queue of 16": {"core.ldst_queue": 16},
}
"""Fields of the compared machines: the preset, the first turn of other presets, and other load/store queues (8)."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The L1 transactions of loads by result, and the cycles, of a kernel on one machine."""

    machine: str
    kernel: str
    kilobytes: int
    sched: str
    hits: int
    pending: int
    misses: int
    cycles: int

    @property
    def lookups(self) -> int:
        """Return the transactions."""
        return self.hits + self.pending + self.misses

    @property
    def miss_rate(self) -> float:
        """Return the misses in percent of the transactions."""
        return 100 * self.misses / self.lookups

    @property
    def pending_rate(self) -> float:
        """Return the hits on pending lines in percent of the transactions."""
        return 100 * self.pending / self.lookups


Run = tuple[str, str, int, str]
"""A machine, a kernel, the kilobytes of the L1 and a scheduler."""

RUNS: Sequence[Run] = tuple(product(MACHINES, KERNELS, CACHES, SCHEDULERS))


def trace(kernel: str) -> Trace:
    """Return the trace that both simulators read."""
    return tracegen.kernel(kernel, **KERNELS[kernel])


def simulate(run: Run) -> Counts:
    """Return the counts of a run in the simulator of this project."""
    machine, kernel, kilobytes, sched = run
    gpu = override(rd.presets.gpu(GPU), {**CACHES[kilobytes], **MACHINES[machine]})
    result = rd.simulate(trace(kernel), gpu, sched=sched)
    counts = (result.hits, result.pending_hits, result.misses.total, result.cycles)
    return Counts(machine, kernel, kilobytes, sched, *map(int, counts))


def page(counted: Sequence[Counts], simulated: Sequence[Counts]) -> str:
    """Return the record: the mean errors of each machine, and the rates of every run."""
    place = {(each.machine, each.kernel, each.kilobytes, each.sched): each for each in simulated}
    lines = [
        "# Beside Accel-Sim\n",
        f"Written by `python -m validation.accelsim --record`, on `{GPU}`, with the counts of Accel-Sim in",
        "`validation/accelsim/counted.csv`. Errors are absolute differences of L1 miss rates in points; the ratio of",
        f"cycles is a geometric mean over all {len(counted)} runs.\n",
        "| machine | mean | median | largest | `lrr`, mean | `gto`, mean | cycles to Accel-Sim's |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for machine in MACHINES:
        pairs = [(place[machine, c.kernel, c.kilobytes, c.sched], c) for c in counted]
        error = np.array([abs(ours.miss_rate - theirs.miss_rate) for ours, theirs in pairs])
        means = [error[[c.sched == sched for _, c in pairs]].mean() for sched in SCHEDULERS]
        ratio = np.exp(np.mean([np.log(ours.cycles / theirs.cycles) for ours, theirs in pairs]))
        numbers = (error.mean(), np.median(error), error.max(), *means, ratio)
        lines.append(f"| {machine} | {' | '.join(f'{number:.2f}' for number in numbers)} |")
    lines += [
        "\nMiss rates in percent, and rates of pending hits behind a comma:\n",
        f"| kernel | KB | scheduler | Accel-Sim | {' | '.join(MACHINES)} |",
        f"|---|---:|---|{'---:|' * (1 + len(MACHINES))}",
    ]
    for c in counted:
        columns = [c, *(place[machine, c.kernel, c.kilobytes, c.sched] for machine in MACHINES)]
        rates = " | ".join(f"{each.miss_rate:.2f}, {each.pending_rate:.2f}" for each in columns)
        lines.append(f"| {c.kernel} | {c.kilobytes} | `{c.sched}` | {rates} |")
    return "\n".join(lines) + "\n"


def read(path: Path) -> list[Counts]:
    """Return the counts of a committed file."""
    return records.from_csv(Counts, path.read_text())


def write(simulated: Sequence[Counts]) -> None:
    """Renew the committed record of the simulator."""
    CSV.write_text(records.to_csv(Counts, simulated))
    RESULTS.write_text(page(read(COUNTED), simulated))
