"""The papers' statements as tables, with why some do not hold: the committed record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from validation.policies import jia, khairy, khairy_others, koo, koo_compared, koo_patterns, wang
from validation.policies.claims import Claim, Counters
from validation.policies.measure import FOLDER, NONE, Case, Measurement, settings
from validation.policies.patterns import Pattern

RESULTS = FOLDER / "RESULTS.md"

CLAIMS = {
    **khairy.CLAIMS,
    **khairy_others.CLAIMS,
    **wang.CLAIMS,
    **jia.CLAIMS,
    **koo_patterns.CLAIMS,
    **koo.CLAIMS,
    **koo_compared.CLAIMS,
}
"""Every claim by its name."""

HEAD = """\
# What the papers say of cache-management policies, on the simulator

Written by `python -m validation.policies --record`, with `results.csv`, which has the counters of all
runs, and `patterns.csv`, which says how kernels use their lines again. Machines, kernels and policies are in
`scenarios.toml`. The papers ran whole applications with their arithmetic; here it is kernels of them, cut in
size, with memory instructions only. So compare what is larger, not how large. Times as fast are relative to the
same machine without policies.
"""


def why() -> Mapping[str, str]:
    """Return why claims do not hold, by their names."""
    reasons: Mapping[str, str] = settings()["why"]
    return reasons


def claims(measurements: Iterable[Measurement], patterns: Iterable[Pattern]) -> dict[str, Claim]:
    """Return every claim by its name."""
    counters = Counters(measurements, patterns)
    return {name: make(counters) for name, make in CLAIMS.items()}


def to_markdown(found: Mapping[str, Claim]) -> str:
    """Return the claims as a table; those that do not hold are explained below it."""
    lines = ["| paper | it says | measured | holds |", "|---|---|---|---|"]
    notes: list[str] = []
    for name, claim in found.items():
        answer = "yes"
        if not claim.holds:
            notes.append(f"{len(notes) + 1}. **{name}**: {why()[name]}")
            answer = f"no ({len(notes)})"
        lines.append(f"| {claim.where} | {claim.says} | {claim.measured} | {answer} |")
    kept = sum(claim.holds for claim in found.values())
    return "\n".join([*lines, "", f"{kept} of {len(found)} hold. What does not, and why:\n", *notes, ""])


def runs(measurements: Iterable[Measurement]) -> str:
    """Return every run with its speed and counters."""
    lines = [
        "| machine | kernel | policies | times as fast | misses | capacity | conflict | bypassed | found |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    base: dict[Case, int] = {}
    for one in measurements:
        case = Case(one.machine, one.group, one.kernel)
        if one.policies == NONE:
            base[case] = one.cycles
        counts = (one.misses, one.capacity, one.associativity, one.bypassed)
        numbers = [f"{base[case] / one.cycles:.3f}", *(f"{count:,}" for count in counts)]
        found = "" if one.found < 0 else str(one.found)
        lines.append("| " + " | ".join([one.machine, one.kernel, f"`{one.policies}`", *numbers, found]) + " |")
    return "\n".join(lines) + "\n"


def results(measurements: Sequence[Measurement], patterns: Iterable[Pattern]) -> str:
    """Return the whole record to read, in Markdown."""
    return "\n".join(
        [
            HEAD,
            to_markdown(claims(measurements, patterns)),
            "## All runs\n",
            "Conflict: misses for want of associativity. Found: the limit of `swl:best`, `apcm-swl` or `dwt-cs`.\n",
            runs(measurements),
        ]
    )


def moved(measurements: Iterable[Measurement], recorded: Iterable[Measurement]) -> list[str]:
    """Return a line for every run that is not recorded as it is now."""
    known = {(one.machine, one.group, one.kernel, one.policies): one for one in recorded}
    lines = []
    for one in measurements:
        key = (one.machine, one.group, one.kernel, one.policies)
        name = f"{one.kernel} on {one.machine} under {one.policies}"
        if key not in known:
            lines.append(f"{name}: not recorded")
        elif known[key] != one:
            was = known[key]
            lines.append(f"{name}: cycles {was.cycles} -> {one.cycles}, misses {was.misses} -> {one.misses}")
    return lines


def changed(patterns: Iterable[Pattern], recorded: Sequence[Pattern]) -> list[str]:
    """Return a line for every kernel whose lines are not used again as is recorded."""
    return [
        f"{one.kernel} on {one.machine} with {one.policies}: lines are used differently"
        for one in patterns
        if one not in recorded
    ]
