"""Tabulate the papers' claims, with reasons for those that do not hold, and write the committed pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from validation.common.claims import Claim, verdict_table
from validation.policies import jia, khairy, khairy_others, koo, koo_compared, koo_patterns, wang
from validation.policies.claims import Counters
from validation.policies.measure import FOLDER, Case, Measurement, settings
from validation.policies.patterns import Pattern

RESULTS = FOLDER / "RESULTS.md"
"""The page with the verdicts of all claims. Each paper has a page beside it with the measured numbers."""


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper, the file name of its page, and the functions of its claims by name."""

    title: str
    page: str
    claims: Mapping[str, Callable[[Counters], Claim]]


PAPERS = (
    Paper(khairy.KHAIRY, "RESULTS-khairy.md", {**khairy.CLAIMS, **khairy_others.CLAIMS}),
    Paper(wang.WANG, "RESULTS-wang.md", wang.CLAIMS),
    Paper(jia.JIA, "RESULTS-jia.md", jia.CLAIMS),
    Paper(koo_patterns.KOO, "RESULTS-koo.md", {**koo_patterns.CLAIMS, **koo.CLAIMS, **koo_compared.CLAIMS}),
)

CLAIMS = {name: make for paper in PAPERS for name, make in paper.claims.items()}
"""The function of each claim by the name of the claim."""

HEAD = """\
# The papers' claims about cache-management policies, in the simulator

Written by `python -m validation.policies --record`. `results.csv` has the counters of all runs, and `patterns.csv` how
kernels reuse their lines. Machines, kernels and policies are in `scenarios.toml`. The papers ran whole applications
with their arithmetic. These runs are single kernels of them, with smaller sizes and with memory instructions only.
Compare therefore which number is larger, not by how much.

The page of each paper has the place of each statement in the paper, the measured numbers, and the reason for each
statement that does not hold.
"""

PAPER_HEAD = """\
# {title}: claims about cache-management policies, in the simulator

Written by `python -m validation.policies --record`; [all verdicts](RESULTS.md). "Times as fast" compares the cycles of
a run with those of the same kernel on the same machine without policies (`none` in `results.csv`).
"""


def why() -> Mapping[str, str]:
    """Return the reasons for claims that do not hold, by the names of the claims."""
    reasons: Mapping[str, str] = settings()["why"]
    return reasons


def claims(measurements: Iterable[Measurement], patterns: Iterable[Pattern]) -> dict[str, Claim]:
    """Return every claim by its name."""
    counters = Counters(measurements, patterns)
    return {name: make(counters) for name, make in CLAIMS.items()}


def to_markdown(found: Mapping[str, Claim]) -> str:
    """Return the claims as a table; those that do not hold are explained below it."""
    lines, notes = verdict_table(found, why())
    holding = sum(claim.holds for claim in found.values())
    reasons = ["Claims that do not hold, and why:\n", *notes, ""] if notes else []
    return "\n".join([*lines, "", f"{holding} of {len(found)} hold.\n", *reasons])


def verdicts(found: Mapping[str, Claim]) -> str:
    """Return the number of claims that hold for each paper, and the verdict of every claim by name."""
    lines = ["| paper | claims | hold |", "|---|---:|---:|"]
    for paper in PAPERS:
        holding = sum(found[name].holds for name in paper.claims)
        lines.append(f"| [{paper.title}]({paper.page}) | {len(paper.claims)} | {holding} |")
    lines.append(f"| all | {len(found)} | {sum(claim.holds for claim in found.values())} |")
    for paper in PAPERS:
        lines += [f"\n## {paper.title}\n", "| claim | statement | holds |", "|---|---|---|"]
        for name in paper.claims:
            lines.append(f"| {name} | {found[name].says} | {'yes' if found[name].holds else 'no'} |")
    return "\n".join(lines) + "\n"


def pages(measurements: Iterable[Measurement], patterns: Iterable[Pattern]) -> dict[Path, str]:
    """Return the text of every page by its file: the verdicts, and a page for each paper."""
    found = claims(measurements, patterns)
    texts = {RESULTS: f"{HEAD}\n{verdicts(found)}"}
    for paper in PAPERS:
        table = to_markdown({name: found[name] for name in paper.claims})
        texts[FOLDER / paper.page] = f"{PAPER_HEAD.format(title=paper.title)}\n{table}"
    return texts


def differences(measurements: Iterable[Measurement], recorded: Iterable[Measurement]) -> list[str]:
    """Return a line for every run whose counters differ from the recorded ones."""
    known = {(Case(one.machine, one.group, one.kernel), one.policies): one for one in recorded}
    lines = []
    for one in measurements:
        key = (Case(one.machine, one.group, one.kernel), one.policies)
        name = f"{one.kernel} on {one.machine} under {one.policies}"
        if key not in known:
            lines.append(f"{name}: not recorded")
        elif known[key] != one:
            was = known[key]
            lines.append(f"{name}: cycles {was.cycles} -> {one.cycles}, misses {was.misses} -> {one.misses}")
    return lines


def pattern_differences(patterns: Iterable[Pattern], recorded: Sequence[Pattern]) -> list[str]:
    """Return a line for every kernel whose reuse of lines differs from the recorded one."""
    return [
        f"{one.kernel} on {one.machine} with {one.policies}: lines are used differently"
        for one in patterns
        if one not in recorded
    ]
