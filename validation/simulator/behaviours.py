"""The papers' behaviours as tables, and the committed record of them."""

from __future__ import annotations

from collections.abc import Sequence

from validation.simulator import jia, khairy
from validation.simulator.claims import Claim, Counters, contention
from validation.simulator.khairy import MACHINE
from validation.simulator.measure import Measurement, group
from validation.simulator.scenarios import FOLDER, settings, suite

RESULTS = FOLDER / "BEHAVIOURS.md"

CLAIMS = {**jia.CLAIMS, **khairy.CLAIMS}
"""Every claim by its name."""


def why() -> dict[str, str]:
    """Return why claims do not hold, by their names."""
    reasons: dict[str, str] = settings()["behaviours"]["why"]
    return reasons


def claims(measurements: Sequence[Measurement]) -> dict[str, Claim]:
    """Return every claim by its name."""
    counters = Counters(measurements)
    return {name: make(counters) for name, make in CLAIMS.items()}


def to_markdown(found: dict[str, Claim]) -> str:
    """Return the claims as a table; those that do not hold are explained below it."""
    lines = ["| paper | it says | measured | holds |", "|---|---|---|---|"]
    notes: list[str] = []
    for name, claim in found.items():
        answer = "yes"
        if not claim.holds:
            notes.append(f"{len(notes) + 1}. **{name}**: {why()[name]}\n")
            answer = f"no ({len(notes)})"
        lines.append(f"| {claim.where} | {claim.says} | {claim.measured} | {answer} |")
    return "\n".join([*lines, "", "What does not hold, and why:\n", *notes])


def fails(measurements: Sequence[Measurement]) -> str:
    """Return the reservation failures of every kernel on the machine of Khairy et al., and what contends."""
    counters = Counters(measurements)
    heads = ["kernel", "contention", "capacity", "associativity", "MPKI"]
    types = ["line_alloc", "mshr_entry", "mshr_merge", "miss_queue"]
    lines = [_line([*heads, *(f"`{name}`" for name in types)]), "|---|---|" + "---:|" * 7]
    padded = [*group("intra_warp"), *group("cross_warp")]
    rows = [(kernel, counters.get(MACHINE, kernel)) for kernel in suite()]
    rows += [(f"{kernel}, padded", counters.get(MACHINE, kernel, "padded")) for kernel in padded]
    for name, one in rows:
        causes = [f"{one.share(count):.1f}" for count in (one.capacity, one.associativity)]
        rates = [f"{rate:.1f}" for rate in one.fails.values()]
        lines.append(_line([name, contention(one), *causes, f"{one.mpki:.1f}", *rates]))
    return "\n".join(lines) + "\n"


def classes(measurements: Sequence[Measurement]) -> str:
    """Return who evicts whose lines on the machines of Jia et al., and how fast kernels are."""
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


def results(measurements: Sequence[Measurement]) -> str:
    """Return the whole record to read, in Markdown."""
    bound = settings()["behaviours"]["contended"]
    return "\n".join(
        [
            "# What the papers describe, on the simulator\n",
            "Written by `python -m validation.behaviours --record`, with `behaviours.csv`, which has the counters of\n"
            "all runs. Kernels, sizes and machines are in `scenarios.toml` (one folder up). The papers ran whole\n"
            "applications with their arithmetic; here it is kernels of them, cut in size, without arithmetic. So\n"
            "compare what is larger, not how large.\n",
            to_markdown(claims(measurements)),
            f"## Reservation failures on {MACHINE}\n",
            f"Per 1000 cycles of an SM. A kernel is contended if at least {bound:g} % of its loads miss and not for\n"
            "the first time: by conflicts if more of those are misses for want of associativity, thrashing if more\n"
            "are for want of capacity (both in percent of the loads). Padded: rows of an odd number of lines.\n",
            fails(measurements),
            "## Who evicts whom, with 4 or 6 ways, fully associative, and 1024 times as large as well\n",
            "Evictions by who had brought the line; speed is relative to the first row of the kernel. Without\n"
            "conflicts the lines that all warps want at a time are still more than 128, in part more than 384. Where\n"
            "they do not fit, loads no longer wait for ways and others are evicted than before, but as many miss.\n",
            classes(measurements),
        ]
    )
