"""Tabulate the papers' claims, with reasons for those that do not hold, and write the committed pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from validation.common.claims import DOES_NOT, Claim, verdict_table
from validation.policies import (
    jia,
    khairy,
    khairy_counters,
    khairy_others,
    koo,
    koo_compared,
    koo_patterns,
    related,
    wang,
)
from validation.policies.claims import Counters
from validation.policies.measure import FOLDER, Case, Measurement, settings
from validation.policies.patterns import Pattern
from validation.policies.verdicts import Verdict, judge, with_ranges

RESULTS = FOLDER / "RESULTS.md"
"""The page with the verdicts of all claims. Each paper has a page beside it with the measured numbers."""


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper, the file name of its page, the functions of its claims by name, and those of further tables."""

    title: str
    page: str
    claims: Mapping[str, Callable[[Counters], Claim]]
    tables: Sequence[Callable[[Counters], str]] = ()


PAPERS = (
    Paper(
        khairy.KHAIRY,
        "RESULTS-khairy.md",
        {**khairy.CLAIMS, **khairy_others.CLAIMS},
        (khairy_others.sweep, khairy_others.second_opinion, khairy_counters.printed, khairy_counters.waiting),
    ),
    Paper(wang.WANG, "RESULTS-wang.md", wang.CLAIMS),
    Paper(jia.JIA, "RESULTS-jia.md", jia.CLAIMS, (jia.queue_sweep, jia.row_lengths)),
    Paper(
        koo_patterns.KOO, "RESULTS-koo.md", {**koo_patterns.CLAIMS, **koo.CLAIMS, **koo_compared.CLAIMS}, (koo.large,)
    ),
    Paper(related.RELATED, "RESULTS-related.md", related.CLAIMS),
)

CLAIMS = {name: make for paper in PAPERS for name, make in paper.claims.items()}
"""The function of each claim by the name of the claim."""

HEAD = """\
# The papers' claims about cache-management policies, in the simulator

Written by `python -m validation.policies --record`. `results.csv` has the counters of all runs, and `patterns.csv` how
kernels reuse their lines. Machines, kernels and policies are in `scenarios.toml`. The papers ran whole applications
with their arithmetic. These runs are single kernels of them, but for BFS, which is a whole search, with smaller sizes
for some and with memory instructions only.
Compare therefore which number is larger, not by how much.

Caches near their limits are chaotic: a latency that is one cycle longer can change the cycles of a run. Every run is
therefore made in five variants: as it is, and with latencies of the L1 and the L2 that differ by up to 5 cycles and
arrays that lie up to 16 KB further apart (`variants.csv`). A statement *holds* or *does not* if all variants agree;
otherwise it is *undecided*.

The *condition* of a statement is *theirs* if the paper says all that is checked. It is *ours* if a number or a case of
our own decides: a number after "here", another size or memory than the paper has, or a policy of which the paper gives
no parameters (ABYP).

The page of each paper has the place of each statement in the paper, the measured numbers with their ranges over the
variants, and the reason for each statement that does not hold.
"""

OURS = (
    "here",
    "endless bandwidth",
    "rows of 128",
    "vectors of",
    "without the bypassing",
    "ABYP",
    "reads fits in a line",
)
"""Words of statements whose conditions are ours, at least in part."""

PAPER_HEAD = """\
# {title}: claims about cache-management policies, in the simulator

Written by `python -m validation.policies --record`; [all verdicts](RESULTS.md). "Times as fast" compares the cycles of
a run with those of the same kernel on the same machine without policies (`none` in `results.csv`). Numbers and
conditions behind "here" are ours, and so are the numbers of `abyp`, of which no paper has any.
"""


def why() -> Mapping[str, str]:
    """Return the reasons for claims that do not hold, by the names of the claims."""
    reasons: Mapping[str, str] = settings()["why"]
    return reasons


def claims(measurements: Iterable[Measurement], patterns: Iterable[Pattern]) -> dict[str, Claim]:
    """Return every claim by its name."""
    counters = Counters(measurements, patterns)
    return {name: make(counters) for name, make in CLAIMS.items()}


def judged(measurements: Iterable[Measurement], patterns: Sequence[Pattern]) -> dict[str, Verdict]:
    """Return the verdict of every claim by its name, over all variants of the measurements."""
    return judge([claims(one, patterns) for one in _variants(measurements)])


def _variants(measurements: Iterable[Measurement]) -> list[list[Measurement]]:
    """Return the measurements of each variant, in the order of their numbers."""
    found: dict[int, list[Measurement]] = {}
    for one in measurements:
        found.setdefault(one.variant, []).append(one)
    return [found[variant] for variant in sorted(found)]


def to_markdown(found: Mapping[str, Verdict]) -> str:
    """Return the claims as a table; those that do not hold are explained below it."""
    measured = {name: replace(verdict.claim, measured=verdict.measured) for name, verdict in found.items()}
    lines, notes = verdict_table(measured, why(), {name: verdict.sentence for name, verdict in found.items()})
    reasons = ["Claims that do not hold, and why:\n", *notes, ""] if notes else []
    counts = _counts(found.values())
    return "\n".join(
        [*lines, "", f"{counts[0]} of {len(found)} hold, {counts[1]} do not, {counts[2]} are undecided.\n", *reasons]
    )


def _counts(verdicts: Iterable[Verdict]) -> tuple[int, int, int]:
    """Return how many claims hold, do not, and are undecided."""
    words = Counter(verdict.word for verdict in verdicts)
    return words["holds"], words[DOES_NOT], words["undecided"]


def overview(found: Mapping[str, Verdict]) -> str:
    """Return the numbers of verdicts for each paper, and the verdict of every claim by name."""
    lines = ["| paper | claims | hold | do not | undecided |", "|---|---:|---:|---:|---:|"]
    for paper in PAPERS:
        numbers = " | ".join(map(str, _counts(found[name] for name in paper.claims)))
        lines.append(f"| [{paper.title}]({paper.page}) | {len(paper.claims)} | {numbers} |")
    lines.append(f"| all | {len(found)} | {' | '.join(map(str, _counts(found.values())))} |")
    for paper in PAPERS:
        lines += [f"\n## {paper.title}\n", "| claim | statement | condition | verdict |", "|---|---|---|---|"]
        for name in paper.claims:
            says = found[name].claim.says
            lines.append(f"| {name} | {says} | {condition(says)} | {found[name].word} |")
    return "\n".join(lines) + "\n"


def condition(says: str) -> str:
    """Return whose the condition of a statement is, in one word."""
    return "ours" if any(re.search(rf"\b{mark}\b", says) for mark in OURS) else "theirs"


def pages(measurements: Iterable[Measurement], patterns: Sequence[Pattern]) -> dict[Path, str]:
    """Return the text of every page by its file: the verdicts, and a page for each paper."""
    runs = list(measurements)
    found = judged(runs, patterns)
    texts = {RESULTS: f"{HEAD}\n{overview(found)}"}
    for paper in PAPERS:
        table = to_markdown({name: found[name] for name in paper.claims})
        texts[FOLDER / paper.page] = f"{PAPER_HEAD.format(title=paper.title)}\n{table}{_further(paper, runs)}"
    return texts


def _further(paper: Paper, measurements: Iterable[Measurement]) -> str:
    """Return the further tables of a paper, with ranges over the variants."""
    counters = [Counters(one, ()) for one in _variants(measurements)]
    return "".join(f"\n{with_ranges([table(one) for one in counters])}\n" for table in paper.tables)


def differences(measurements: Iterable[Measurement], recorded: Iterable[Measurement]) -> list[str]:
    """Return a line for every run whose counters differ from the recorded ones."""
    known = {(Case(one.machine, one.group, one.kernel), one.policies, one.variant): one for one in recorded}
    lines = []
    for one in measurements:
        key = (Case(one.machine, one.group, one.kernel), one.policies, one.variant)
        name = f"{one.kernel} on {one.machine} under {one.policies}"
        name += f", variant {one.variant}" if one.variant else ""
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
