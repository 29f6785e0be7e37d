"""Write the shares of kernels by suite, and the failures by class, and renew the committed record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from validation.breadth.study import EXECUTABLE, LEFT_OUT, STOPS, Outcome
from validation.common import records
from validation.common.pages import renew_tables

FOLDER = Path(__file__).parent
OUTCOMES = FOLDER / "outcomes.csv"
RESULTS = FOLDER / "RESULTS.md"

"""Line before the first table."""

MOST_DETAILS = 8
"""Number of names that the table of failures lists for a class."""


def share_table(outcomes: Sequence[Outcome]) -> str:
    """Return the numbers of kernels by suite: those that compile, and those without an instruction that stops."""
    lines = [
        "| suite | files | kernels | compile | share | hold no instruction that stops | share of those that compile |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    suites = list(dict.fromkeys(outcome.suite for outcome in outcomes))
    for suite in [*suites, "all"] if len(suites) > 1 else suites:
        rows = [o for o in outcomes if suite in (o.suite, "all") and o.outcome != LEFT_OUT]
        files = len({(o.suite, o.file) for o in rows})
        compiled = [o for o in rows if compiles(o)]
        clean = sum(o.outcome == EXECUTABLE for o in compiled)
        lines.append(
            f"| {suite} | {files} | {len(rows)} | {len(compiled)} | {_percent(len(compiled), len(rows))} "
            f"| {clean} | {_percent(clean, len(compiled))} |"
        )
    return "\n".join(lines) + "\n"


def failure_table(outcomes: Sequence[Outcome]) -> str:
    """Return the kernels by class of failure, with the most frequent names of each class."""
    failed = [o for o in outcomes if o.outcome != EXECUTABLE]
    lines = ["| class | kernels | most frequent |", "|---|---:|---|"]
    for name, count in Counter(o.outcome for o in failed).most_common():
        details = Counter(d for o in failed if o.outcome == name for d in _details(o))
        examples = ", ".join(f"`{detail}` {times}" for detail, times in details.most_common(MOST_DETAILS))
        lines.append(f"| {name} | {count} | {examples} |")
    return "\n".join(lines) + "\n"


def compiles(outcome: Outcome) -> bool:
    """Return whether the kernel compiles."""
    return outcome.outcome in (EXECUTABLE, STOPS, "not parsed")


def pages(outcomes: Sequence[Outcome]) -> str:
    """Return both tables."""
    return share_table(outcomes) + "\n" + failure_table(outcomes)


def write(outcomes: Sequence[Outcome]) -> None:
    """Renew the record; the text before the first table stays."""
    OUTCOMES.write_text(records.to_csv(Outcome, outcomes))
    renew_tables(RESULTS, pages(outcomes))


def _details(outcome: Outcome) -> list[str]:
    if outcome.outcome == STOPS:
        return outcome.detail.split()
    return [outcome.detail] if outcome.detail else []


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"
