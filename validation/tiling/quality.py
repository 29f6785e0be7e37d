"""Measure the quality of rankings of tiles: predicted beside simulated values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from statistics import median

from scipy.stats import kendalltau

from validation.tiling.measure import Row
from validation.tiling.predict import Case, Exact, Quick, cases

NEAR_FACTOR = 1.05
"""A tile is as good as the best one if its time, or its bytes, are at most this factor of the best one's."""

FIRST_PLACES = 4
"""Number of tiles that a tuner would run: the best tile should be among the first of this number."""

OBJECTIVES = {"DRAM bytes": ("dram_bytes", "dram_bytes"), "cycles": ("cycles", "cycles")}
"""Objectives by name: the field of a row, and the objective of `rank_tiles`."""

EFFORTS = ("exact", "quick")


@dataclass(frozen=True)
class Ranked:
    """Tiles of one case in predicted order, with their `predicted` and `simulated` values."""

    tiles: Sequence[str]
    predicted: Sequence[float]
    simulated: Sequence[float]

    @cached_property
    def above(self) -> float:
        """Simulated value of the tile in the first place, divided by the lowest simulated value."""
        return self.simulated[0] / min(self.simulated)

    @property
    def near(self) -> bool:
        """Whether the tile in the first place is as good as the best one."""
        return self.above <= NEAR_FACTOR

    @property
    def among_first(self) -> bool:
        """Whether the best tile, or one with an equal value, is among the first places."""
        return min(self.simulated) in self.simulated[:FIRST_PLACES]

    @property
    def tau(self) -> float:
        """Kendall's tau-b of predicted and simulated values; NaN if all values are equal."""
        return float(kendalltau(self.predicted, self.simulated).statistic)

    @property
    def ratios(self) -> list[float]:
        """Predicted divided by simulated values, in ascending order."""
        return sorted(one / other for one, other in zip(self.predicted, self.simulated, strict=True))


class Quality:
    """All recorded rankings beside the simulated tiles."""

    def __init__(self, simulated: Sequence[Row], exact: Sequence[Exact], quick: Sequence[Quick]) -> None:
        self._simulated = {row.key: row for row in simulated}
        self._exact = {row.key: row for row in exact}
        self._quick = quick
        self.cases = [case for case in cases() if any(row.key[:2] == case for row in exact)]

    def ranked(self, case: Case, by: str, effort: str) -> Ranked:
        """Return one ranking; `by` is a key of `OBJECTIVES`."""
        field, objective = OBJECTIVES[by]
        if effort == "exact":
            return self._ranked(case, field, self.exact_values(case, field))
        order = {key[2]: at for at, key in enumerate(key for key in self._exact if key[:2] == case)}
        rows = [row for row in self._quick if (*case, objective) == row.key[:3]]
        rows.sort(key=lambda row: (row.rank, order[row.tile]))
        return self._ranked(case, field, {row.tile: row.value for row in rows}, in_order=True)

    def without_dram(self, case: Case) -> Ranked:
        """Return the exact ranking by cycles as if misses that go to DRAM took no longer than others."""
        return self._ranked(case, "cycles", self.exact_values(case, "near_cycles"))

    def exact_values(self, case: Case, field: str) -> dict[str, float]:
        """Return a count of the model for each tile, from complete runs."""
        return {key[2]: getattr(row, field) for key, row in self._exact.items() if key[:2] == case}

    def misses(self, case: Case) -> Ranked:
        """Return the ranking by L1 misses, from complete runs."""
        return self._ranked(case, "l1_misses", self.exact_values(case, "l1_misses"))

    def tau_of_quick_and_exact(self, case: Case, by: str) -> float:
        """Return Kendall's tau-b of quick and exact values."""
        exact = self.exact_values(case, OBJECTIVES[by][0])
        quick = self.ranked(case, by, "quick")
        return float(kendalltau(quick.predicted, [exact[tile] for tile in quick.tiles]).statistic)

    def _ranked(self, case: Case, field: str, values: Mapping[str, float], *, in_order: bool = False) -> Ranked:
        tiles = list(values) if in_order else sorted(values, key=lambda tile: values[tile])
        found = [getattr(self._simulated[*case, tile], field) for tile in tiles]
        return Ranked(tiles, [values[tile] for tile in tiles], found)

    def near(self, by: str, effort: str) -> int:
        """Return the number of cases in which the tile in the first place is as good as the best one."""
        return sum(self.ranked(case, by, effort).near for case in self.cases)


def tables(quality: Quality, seconds: Mapping[tuple[str, str, str, str], float]) -> str:
    """Return the part of the page about rankings; `seconds` are processor times by the key of `Seconds`."""
    parts = [HEAD, _shares(quality), MISSED, _missed(quality)]
    for by in OBJECTIVES:
        parts += [f"### By {by}\n", _by(quality, by, seconds)]
    return "\n".join([*parts, RATIOS, _ratios(quality)])


def _shares(quality: Quality) -> str:
    lines = [
        f"| | by | within {NEAR_FACTOR - 1:.0%} | share | best among the first {FIRST_PLACES} "
        "| median tau | least tau |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for effort in EFFORTS:
        for by in OBJECTIVES:
            lines.append(_share(effort, by, [quality.ranked(case, by, effort) for case in quality.cases]))  # noqa: PERF401
    without = [quality.without_dram(case) for case in quality.cases]
    return "\n".join([*lines, _share("exact, L2 holds everything", "cycles", without)]) + "\n"


def _share(name: str, by: str, found: Sequence[Ranked]) -> str:
    near, first, count = sum(one.near for one in found), sum(one.among_first for one in found), len(found)
    taus = [one.tau for one in found if not isnan(one.tau)]
    return (
        f"| {name} | {by} | {near} of {count} | {near / count:.0%} | {first} of {count} "
        f"| {median(taus):.2f} | {min(taus):.2f} |"
    )


def _missed(quality: Quality) -> str:
    """Return a table of the rankings that miss the goal, with reasons."""
    known = why_missed()
    lines = ["| GPU | kernel | by | predicted | above the best | why |", "|---|---|---|---|---:|---|"]
    for effort, by, case in missed(quality):
        one = quality.ranked(case, by, effort)
        why = known.get((effort, by, *case), "not known")
        lines.append(f"| {case[0]} | {case[1]} | {by}, {effort} | {one.tiles[0]} | {one.above - 1:.1%} | {why} |")
    return "\n".join(lines) + "\n"


def missed(quality: Quality) -> list[tuple[str, str, Case]]:
    """Return effort, objective and case of every ranking whose first tile is not as good as the best one."""
    return [
        (effort, by, case)
        for by in OBJECTIVES
        for effort in EFFORTS
        for case in quality.cases
        if not quality.ranked(case, by, effort).near
    ]


def _by(quality: Quality, by: str, seconds: Mapping[tuple[str, str, str, str], float]) -> str:
    lines = [
        "| GPU | kernel | exact: predicted | above | rank of the best | tau | quick: predicted | above "
        "| rank of the best | tau | tau, exact | seconds |",
        "|---|---|---|---:|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    for case in quality.cases:
        cells = []
        for effort in EFFORTS:
            one = quality.ranked(case, by, effort)
            place = one.simulated.index(min(one.simulated)) + 1
            cells += [one.tiles[0], f"{one.above - 1:.1%}", str(place), _two(one.tau)]
        spent = seconds.get((*case, OBJECTIVES[by][1], "quick"))
        cells += [_two(quality.tau_of_quick_and_exact(case, by)), "" if spent is None else f"{spent:.1f}"]
        lines.append(f"| {' | '.join([*case, *cells])} |")
    return "\n".join(lines) + "\n"


def _ratios(quality: Quality) -> str:
    lines = ["| GPU | kernel | DRAM bytes | cycles | L1 misses |", "|---|---|---:|---:|---:|"]
    for case in quality.cases:
        found = [quality.ranked(case, by, "exact").ratios for by in OBJECTIVES] + [quality.misses(case).ratios]
        cells = [f"{median(one):.2f} ({one[0]:.2f} to {one[-1]:.2f})" for one in found]
        lines.append(f"| {' | '.join([*case, *cells])} |")
    return "\n".join(lines) + "\n"


def _two(value: float) -> str:
    return "-" if isnan(value) else f"{value:.2f}"


def why_missed() -> Mapping[tuple[str, str, str, str], str]:
    """Return the reasons for missed goals, by effort, objective, GPU and kernel."""
    return {
        (effort, by, gpu, kernel): why for (efforts, by, gpu, kernel), why in WHY.items() for effort in efforts.split()
    }


CLOSE = (
    "in the model, six tiles with 16 columns are within 3 % of each other; in the simulator the slowest of them takes "
    "19 % longer than the fastest, with misses that the model predicts within 13 %. No other term of the roofline is "
    "near: the waiting of the warps differs, in the model's time of an SM"
)
BURSTS = (
    "tiles with TI of 4 and 8 take up to 3.5 times as long as predicted. With TI=8 TJ=32 all 32 MSHRs of an SM are in "
    "use for half of the time, and a miss takes 604 cycles on average, not 132 as on an idle machine: requests come in "
    "bursts. With 256 MSHRs, or a crossbar eight times as wide, it takes 22 % less in the simulator; faster slices and "
    "more MSHRs of the L2 (its limit on merging is never reached) save little. A roofline assumes even traffic"
)

WHY: Mapping[tuple[str, str, str, str], str] = {
    ("exact quick", "cycles", "gtx470-16k", "syrk.tiled"): CLOSE,
    ("quick", "cycles", "gtx480-khairy", "syrk.tiled"): (
        "the tile in the first place is estimated 19 % below its complete run, which lies within the interval. The "
        "best tile was run completely in the first round, 7 % above the simulator, and was dropped, as eleven others "
        "seemed better"
    ),
    ("quick", "cycles", "gtx480-khairy", "syr2k.tiled"): (
        "the two tiles in the first places are estimated within 0.2 % of each other, 27 and 24 % below their complete "
        "runs, which are 4 and 12 % beyond their intervals"
    ),
    ("exact quick", "cycles", "gtx480-khairy", "2mm.tiled.1"): (
        "the model's time of an SM is 5 and 7 % above the simulator's for the two best tiles, and 9 % below it for the "
        "third one, which the model ranks first"
    ),
    ("exact quick", "cycles", "gtx480-khairy", "transpose.tiled"): BURSTS,
}
"""Reasons for missed goals, by efforts (one or two), objective, GPU and kernel."""

HEAD = f"""\
## Rankings

`rank_tiles` ranks the same tiles: `exact`, from complete runs of the model, and `quick`, by successive halving for the
best tile. `above` is the relative amount by which the tile in the first place exceeds the best tile in the simulator;
the goal is at most {NEAR_FACTOR - 1:.0%} in 90 % of the cases. `rank of the best` is the place of the simulator's best
tile in the ranking. `tau` is Kendall's tau-b of predicted and simulated values of all tiles, and `tau, exact` that of
quick and exact values; - if all values are equal. In a quick ranking, the values of tiles that were dropped early are
from less work than those of the others. `seconds` are processor time for all tiles together. Rows are in
`predicted.csv` and `quick.csv`, and `seconds.csv` has the processor time of each ranking.

The last line of the first table is the ranking by cycles without the longer wait for lines from DRAM in the roofline's
first term.
"""

MISSED = f"Rankings whose first tile is more than {NEAR_FACTOR - 1:.0%} above the best:\n"

RATIOS = """\
### Ratios of predicted to simulated values

Median, least and largest ratio over the tiles of each case, from complete runs.
"""
