"""Judge claims by several variants of every run, so that noise decides nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from validation.common.claims import DOES_NOT, Claim

NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
"""A number in the text of a claim."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A `claim` as the runs without changes show it, the number of variants in which it holds, and of all variants.

    `measured` has its numbers, with their ranges over the variants.
    """

    claim: Claim
    holding: int
    variants: int
    measured: str

    @property
    def word(self) -> str:
        """Whether the claim holds in all variants, in none, or in some: then noise decides."""
        return "holds" if self.holding == self.variants else "undecided" if self.holding else DOES_NOT

    @property
    def sentence(self) -> str:
        """The word and, if it is undecided, the number of variants in which the claim holds."""
        if self.word != "undecided":
            return self.word
        return f"{self.word}: holds in {self.holding} of {self.variants} variants"


def judge(variants: Sequence[Mapping[str, Claim]]) -> dict[str, Verdict]:
    """Return the verdict of every claim by name; the first variant is the one without changes."""
    return {
        name: Verdict(
            claim,
            sum(claims[name].holds for claims in variants),
            len(variants),
            with_ranges([claims[name].measured for claims in variants]),
        )
        for name, claim in variants[0].items()
    }


def with_ranges(texts: Sequence[str]) -> str:
    """Return the first text with the range of each number that differs, such as "2.0 (1.7 to 2.1)".

    Texts whose words differ have no ranges: they list other kernels.
    """
    if len({NUMBER.sub("#", text) for text in texts}) > 1:
        return texts[0]
    columns = iter(zip(*(NUMBER.findall(text) for text in texts), strict=True))

    def ranged(match: re.Match[str]) -> str:
        column = sorted(next(columns), key=lambda number: float(number.replace(",", "")))
        return match[0] if column[0] == column[-1] else f"{match[0]} ({column[0]} to {column[-1]})"

    return NUMBER.sub(ranged, texts[0])
