"""State the claims of papers, and print their verdicts as tables with a reason for each claim that does not hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MAX_SHARE_LEFT = 0.1
"""Largest share of a quantity that may be left if a claim says that the quantity is gone."""

DOES_NOT = "does not"
"""The verdict on a claim that holds in no variant of the runs."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of a paper: its place in the paper, its words, the measured numbers, and whether it holds."""

    where: str
    says: str
    measured: str
    holds: bool


def values(kernels: Iterable[str], numbers: Iterable[float], form: str = ".2f") -> str:
    """Return the numbers of kernels in words, such as "gemm 1.02, syrk 0.98"."""
    return ", ".join(f"{kernel} {number:{form}}" for kernel, number in zip(kernels, numbers, strict=True))


def verdict_table(
    claims: Mapping[str, Claim], reasons: Mapping[str, str], answers: Mapping[str, str] | None = None
) -> tuple[list[str], list[str]]:
    """Return the claims as lines of a table, and a numbered reason for each claim that does not hold.

    `answers` are verdicts in words by claim; those that are `DOES_NOT` need a reason. None: whether the claims hold.
    """
    lines = [f"| paper | it says | measured | {'holds' if answers is None else 'verdict'} |", "|---|---|---|---|"]
    notes: list[str] = []
    for name, claim in claims.items():
        answer = ("yes" if claim.holds else "no") if answers is None else answers[name]
        if answer in ("no", DOES_NOT):
            notes.append(f"{len(notes) + 1}. **{name}**: {reasons[name]}")
            answer = f"{answer} ({len(notes)})"
        lines.append(f"| {claim.where} | {claim.says} | {claim.measured} | {answer} |")
    return lines, notes
