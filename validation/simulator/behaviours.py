"""Tabulate the papers' behaviours in the simulator, and write the committed page about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from validation.common.claims import Claim, verdict_table
from validation.common.measurement import FAILURE_TYPES
from validation.simulator import jia, khairy
from validation.simulator.claims import Counters, contention
from validation.simulator.khairy import MACHINE
from validation.simulator.measure import Measurement, group
from validation.simulator.scenarios import FOLDER, settings, suite

RESULTS = FOLDER / "BEHAVIOURS.md"

CLAIMS = {**jia.CLAIMS, **khairy.CLAIMS}
"""Every claim by its name."""


def why() -> dict[str, str]:
    """Return the reasons for claims that do not hold, by the names of the claims."""
    reasons: dict[str, str] = settings()["behaviours"]["why"]
    return reasons


def claims(measurements: Sequence[Measurement]) -> dict[str, Claim]:
    """Return every claim by its name."""
    counters = Counters(measurements)
    return {name: make(counters) for name, make in CLAIMS.items()}


def to_markdown(found: Mapping[str, Claim]) -> str:
    """Return the claims as a table; those that do not hold are explained below it."""
    lines, notes = verdict_table(found, why())
    return "\n".join([*lines, "", "Claims that do not hold, and why:\n", *(f"{note}\n" for note in notes)])


def failures(measurements: Sequence[Measurement]) -> str:
    """Return the reservation failures and the contention of every kernel on the machine of Khairy et al."""
    counters = Counters(measurements)
    heads = ["kernel", "contention", "capacity", "associativity", "MPKI"]
    lines = [_line([*heads, *(f"`{name}`" for name in FAILURE_TYPES)]), "|---|---|" + "---:|" * 7]
    padded = [*group("intra_warp"), *group("cross_warp")]
    rows = [(kernel, counters.get(MACHINE, kernel)) for kernel in suite()]
    rows += [(f"{kernel}, padded", counters.get(MACHINE, kernel, "padded")) for kernel in padded]
    for name, one in rows:
        causes = [f"{one.share(count):.1f}" for count in (one.capacity, one.associativity)]
        rates = [f"{rate:.1f}" for rate in one.failure_rates.values()]
        lines.append(_line([name, contention(one), *causes, f"{one.mpki:.1f}", *rates]))
    return "\n".join(lines) + "\n"


def classes(measurements: Sequence[Measurement]) -> str:
    """Return evictions by the owner of the evicted line, and speeds, on the machines of Jia et al."""
    counters = Counters(measurements)
    heads = ["machine", "kernel", "miss rate", "MPKI", "intra-warp", "cross-warp, same block", "cross-block", "speed"]
    lines = [_line(heads), "|---|---|" + "---:|" * 6]
    for base in ("c2050-base-s", "c2050-base-l"):
        for kernel in (*group("intra_warp"), *group("cross_warp")):
            first = counters.get(base, kernel)
            for machine in (base, f"{base}-full", f"{base}-vast"):
                one = counters.get(machine, kernel)
                by = [f"{n:,}" for n in (one.intra_warp, one.cross_warp_intra_block, one.cross_block)]
                numbers = [f"{one.share(one.misses):.1f}", f"{one.mpki:.1f}", *by, f"{first.cycles / one.cycles:.2f}"]
                lines.append(_line([machine, kernel, *numbers]))
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


HEAD = """\
# Behaviours that papers describe, in the simulator

Written by `python -m validation.simulator --behaviours --record`, with `behaviours.csv`, which has the counters of all
runs. Kernels, sizes and machines are in `scenarios.toml` (one folder up). The papers ran whole applications with their
arithmetic. These runs are single kernels of them, with smaller sizes and without arithmetic. Compare therefore which
number is larger, not by how much.
"""

FAILURES_HEAD = """\
## Reservation failures on {machine}

Failures per 1000 cycles of an SM. A kernel is contended if at least {bound:g} % of its loads are capacity or
associativity misses. It is contended by conflicts if more of those are associativity misses, and thrashing if more are
capacity misses (both columns in percent of the loads). In padded kernels a row is an odd number of lines long.
"""

CLASSES_HEAD = """\
## Evictions with 4 or 6 ways, fully associative, and with 1024 times the capacity as well

Evictions by the warp that had brought the line; speed is relative to the first row of the kernel. Without conflicts,
the lines that all warps want at a time are still more than 128, and in part more than 384. Where they do not fit, loads
no longer wait for ways and other lines are evicted than before, but as many loads miss.
"""


def results(measurements: Sequence[Measurement]) -> str:
    """Return the whole page in Markdown."""
    return "\n".join(
        [
            HEAD,
            to_markdown(claims(measurements)),
            FAILURES_HEAD.format(machine=MACHINE, bound=settings()["behaviours"]["contended"]),
            failures(measurements),
            CLASSES_HEAD,
            classes(measurements),
        ]
    )
