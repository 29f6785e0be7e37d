"""Classify how kernels reuse lines without policies, as the papers' explanations do, and record the counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

from rdmodel.locality_analysis.classify import locality
from rdmodel.locality_analysis.values import AccessCounts, Locality, ReuseDistances
from rdmodel.policies.combinations import combination
from validation.common import records
from validation.policies.measure import FOLDER, Case, cases, make_gpu, make_launches, run_options

PATTERNS = FOLDER / "patterns.csv"

FEW_ACCESSES = 2
"""Maximum number of accesses of a line that counts as having few."""

NEAR_LINES = 128
"""Number of lines in 16 KB. An access at a shorter reuse distance hits in a fully associative L1 of this size."""

DIGITS = 6
"""Decimal places of recorded numbers that are not counts."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Locality of a kernel on a machine, by `rdmodel.locality`; `policies` names the index function of the L1.

    `streaming` to `inter_intra_warp` count the lines of each type in an infinite L1; `dominant` of them have the
    dominant type of their load. `few_lines` of the lines, and `few_stays` of the `stays` of lines in the simulated L1,
    have at most `FEW_ACCESSES` accesses. `inter_near` of the `inter_uses` of inter-warp lines, and `intra_near` of the
    `intra_uses` of intra-warp lines, have a reuse distance of less than `NEAR_LINES`. `concentration` is the mean over
    the loads, weighted by their transactions.
    """

    machine: str
    group: str
    kernel: str
    policies: str
    accesses: int
    streaming: int
    inter_warp: int
    intra_warp: int
    inter_intra_warp: int
    dominant: int
    few_lines: int
    stays: int
    few_stays: int
    inter_uses: int
    inter_near: int
    intra_uses: int
    intra_near: int
    balance: float
    concentration: float

    @property
    def lines(self) -> int:
        """Lines of all types."""
        return self.streaming + self.inter_warp + self.intra_warp + self.inter_intra_warp

    @property
    def similarity(self) -> float:
        """Access pattern similarity (Koo et al., equation 1)."""
        return self.dominant / self.lines


MEANS = ("balance", "concentration")
COUNTS = tuple(field.name for field in fields(Pattern) if field.type == "int")
"""Fields of a pattern that are means, and those that are counts."""


def classify(case: Case) -> list[Pattern]:
    """Classify the lines of a case with each index function of ``scenarios.toml``."""
    launches = make_launches(case)
    gpus = ((name, make_gpu(case, combination(name))) for name in cases("look")[case])
    return [
        _sum([_pattern(case, name, locality(one, gpu, **run_options(case))) for one in launches]) for name, gpu in gpus
    ]


def _sum(patterns: Sequence[Pattern]) -> Pattern:
    """Return the pattern of several launches: their counts together, and means weighted by their accesses."""
    accesses = sum(one.accesses for one in patterns)
    counts = {name: sum(getattr(one, name) for one in patterns) for name in COUNTS}
    means = {name: sum(getattr(one, name) * one.accesses for one in patterns) / accesses for name in MEANS}
    return replace(patterns[0], **counts, **{name: round(mean, DIGITS) for name, mean in means.items()})


def _pattern(case: Case, name: str, found: Locality) -> Pattern:
    inter, intra = (found.reuse_distances[kind] for kind in ("inter_warp", "intra_warp"))
    weighted = sum(load.accesses * load.concentration for load in found.loads) / found.accesses
    return Pattern(
        machine=case.machine,
        group=case.group,
        kernel=case.kernel,
        policies=name,
        accesses=found.accesses,
        **found.lines.to_dict(),
        dominant=sum(max(load.lines.to_dict().values()) for load in found.loads),
        few_lines=_few(found.accesses_per_line),
        stays=int(found.accesses_per_stay.lines.sum()),
        few_stays=_few(found.accesses_per_stay),
        inter_uses=inter.total,
        inter_near=_near(inter),
        intra_uses=intra.total,
        intra_near=_near(intra),
        balance=found.balance,
        concentration=weighted,
    )


def _few(counts: AccessCounts) -> int:
    return int(counts.lines[counts.counts <= FEW_ACCESSES].sum())


def _near(distances: ReuseDistances) -> int:
    return sum(distances.buckets[: NEAR_LINES.bit_length()])


def classify_all(jobs: int) -> list[Pattern]:
    """Return all patterns in order, from several processes."""
    return [one for found in records.run_all(classify, list(cases("look")), jobs) for one in found]


def to_csv(patterns: Iterable[Pattern]) -> str:
    """Return the patterns as CSV."""
    return records.to_csv(Pattern, patterns)


def from_csv(text: str) -> list[Pattern]:
    """Return the patterns that `to_csv` wrote."""
    return records.from_csv(Pattern, text)
