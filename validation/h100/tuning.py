"""``python -m validation.h100.tuning``: rank points of tuning spaces that were timed on an H200, and write the page.

`tuning_plan.py` writes the launches, and `launcher.py` times them. The H200 is an H100 with more and faster memory.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rdmodel import presets
from validation.common import records
from validation.common.pages import renew_or_check
from validation.h100.cases import FOLDER
from validation.tuning.measures import Quality, quality, random_choice
from validation.tuning.predict import Predicted, Task, read_config
from validation.tuning.predict import predict as predict_point
from validation.tuning.records import read as read_predicted
from validation.tuning.report import assembly_table, ratio_table
from validation.tuning.spaces import SPACES, calls_ldg

GPU = "h200"
TIMES, PREDICTED, PAGE = FOLDER / "tuning.csv", FOLDER / "tuning_predicted.csv", FOLDER / "RESULTS-tuning.md"
NVCC = "-nvcc"
ASSEMBLY = FOLDER / "tuning_assembly.csv"
"""Predictions of points that nvcc compiled and that call `__ldg`, with assembly for it (`validation.tuning`)."""

ASSEMBLY_TITLE = "## Predicted over measured times of nvcc's code (`use_shmem=0 read_only=1`)"

NEAR_MOST = 0.47
"""Loads from constant memory per cycle that are close to the most that was seen."""


@dataclass(frozen=True, slots=True)
class Time:
    """A timed point: the space (with `NVCC` if nvcc compiled it), median milliseconds, or why it was not launched."""

    space: str
    config: str
    milliseconds: float
    failure: str

    @property
    def key(self) -> tuple[str, str]:
        """The space and the configuration."""
        return self.space, self.config


def read_times() -> list[Time]:
    """Return the recorded times."""
    return records.from_csv(Time, TIMES.read_text())


def read_launcher(path: Path) -> list[Time]:
    """Return the times that the launcher printed."""
    found = []
    for line in path.read_text().splitlines():
        launch = json.loads(line)
        space, config = launch["case"].split("|")
        times = launch.get("ms", [])
        found.append(Time(space, config, round(median(times), 6) if times else 0.0, launch.get("failure", "")))
    return found


def qualities(rows: Sequence[Predicted], times: dict[str, float]) -> dict[str, Quality]:
    """Return the quality of the predicted times and of two choices without them, over the points that were launched."""
    known = [row for row in rows if row.config in times and not row.failure]
    found = [times[row.config] for row in known]
    return {
        "rdmodel time": quality([row.milliseconds for row in known], found),
        "random choice": random_choice(found),
        "most occupancy": quality([-row.warps for row in known], found),
    }


def space_table(rows: Sequence[Predicted], times: Sequence[Time]) -> str:
    """Return the quality of the rankings of a space, the times beside the measured ones, and the launches that fail."""
    launched = {row.config: row.milliseconds for row in times if not row.failure}
    known = [row for row in rows if row.config in launched and not row.failure]
    refused = {row.config for row in times if row.failure}
    foreseen = {row.config for row in rows if row.failure}
    lines = [f"## {rows[0].space}: {len(known)} points", ""]
    if refused or foreseen:
        lines += [
            f"{len(refused)} more points take too many registers for a launch; {len(refused & foreseen)} of them were "
            f"predicted to, and {len(foreseen - refused)} others.",
            "",
        ]
    lines += ["| ranking | regret@1 | regret@5 | tau |", "|---|---:|---:|---:|"]
    for name, each in qualities(rows, launched).items():
        lines.append(f"| {name} | {each.regret_1:.3f} | {each.regret_5:.3f} | {each.tau:.3f} |")
    return "\n".join([*lines, "", *ratio_table(known, launched)])


def compiler_table(times: Sequence[Time]) -> str:
    """Return how much longer the code of nvcc takes than that of NVRTC, by the options of the convolution."""
    launched = {(row.space, row.config): row.milliseconds for row in times if not row.failure}
    groups: dict[str, list[float]] = {}
    for (space, config), milliseconds in launched.items():
        other = launched.get((space.removesuffix(NVCC), config))
        if space.endswith(NVCC) and other is not None:
            kept = [word for word in config.split() if word.startswith(("read_only=", "use_shmem="))]
            groups.setdefault(" ".join([space.removesuffix(NVCC), *kept]), []).append(milliseconds / other)
    lines = ["| points | number | least | median | largest |", "|---|---:|---:|---:|---:|"]
    for name, ratios in sorted(groups.items()):
        lines.append(f"| {name} | {len(ratios)} | {min(ratios):.2f} | {median(ratios):.2f} | {max(ratios):.2f} |")
    return "\n".join(lines) + "\n"


def constant_table(rows: Sequence[Predicted], times: Sequence[Time]) -> str:
    """Return how many loads from constant memory an SM executes per cycle, in the points that have some."""
    launched = {row.key: row.milliseconds for row in times if not row.failure}
    rate = presets.rates_of(presets.gpu(GPU))[0]["constant_loads"]
    terms = {row.key: json.loads(row.terms).get("constant loads", 0.0) for row in rows if row.key in launched}
    found = [rate * term / launched[key] for key, term in terms.items() if term]
    lines = [f"| points | most | more than {NEAR_MOST:g} |", "|---:|---:|---:|"]
    return "\n".join([*lines, f"| {len(found)} | {max(found):.2f} | {sum(each > NEAR_MOST for each in found)} |", ""])


def page() -> str:
    """Return the tables of the page."""
    times, parts = read_times(), []
    predicted = read_predicted(PREDICTED)
    for space in dict.fromkeys(row.space for row in predicted):
        rows = [row for row in predicted if row.space == space]
        parts.append(space_table(rows, [row for row in times if row.space == space]))
    parts += ["## Loads from constant memory per cycle and SM", "", constant_table(predicted, times)]
    parts += ["## Times of nvcc's code over those of NVRTC's", "", compiler_table(times)]
    compiled = {row.config: row.milliseconds for row in times if row.space == f"convolution{NVCC}" and not row.failure}
    own = [row for row in predicted if row.space == "convolution"]
    return "\n".join([*parts, ASSEMBLY_TITLE, "", *assembly_table(read_predicted(ASSEMBLY), own, compiled)])


def tasks(options: argparse.Namespace) -> list[Task]:
    """Return the points to predict: those of the spaces, or those that nvcc compiled and that call `__ldg`."""
    sources, times = str(options.sources), read_times()
    if not options.assembly:
        return [Task(row.space, row.config, sources, GPU) for row in times if row.space in options.spaces]
    compiled = [row for row in times if row.space == f"convolution{NVCC}" and calls_ldg(read_config(row.config))]
    return [Task(row.space.removesuffix(NVCC), row.config, sources, GPU, assembly=True) for row in compiled]


def main() -> int:
    """Run the command; return 1 if the page differs from its records."""
    parser = argparse.ArgumentParser(prog="python -m validation.h100.tuning", description=__doc__)
    parser.add_argument("--times", type=Path, metavar="FILE", help="what the launcher has printed; renews the times")
    parser.add_argument("--sources", type=Path, metavar="DIR", help="predict again, with the hub's folder 'kernels'")
    parser.add_argument("--spaces", nargs="+", choices=SPACES, default=list(SPACES), help="predict only these again")
    parser.add_argument("--assembly", action="store_true", help="predict nvcc's code of points that call __ldg")
    parser.add_argument("--jobs", type=records.positive, default=2, help="number of processes (default: 2)")
    parser.add_argument("--check", action="store_true", help="fail if the page differs from its records")
    options = parser.parse_args()
    if options.times is not None:
        TIMES.write_text(records.to_csv(Time, read_launcher(options.times)))
    if options.sources is not None:
        path = ASSEMBLY if options.assembly else PREDICTED
        found = records.run_all(predict_point, tasks(options), options.jobs)
        rows = {row.key: row for row in [*read_predicted(path), *found]}
        path.write_text(records.to_csv(Predicted, list(rows.values())))
    return renew_or_check(PAGE, page(), options.check)


if __name__ == "__main__":
    sys.exit(main())
