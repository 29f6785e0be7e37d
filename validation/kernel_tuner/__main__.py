"""``python -m validation.kernel_tuner``: compare times that runs of Kernel Tuner have measured with predicted ones.

``--sources DIR`` predicts again: DIR is the folder ``kernels`` of AutoTuningAssociation/benchmark_hub. The kernels are
compiled with NVRTC, and need an assembler (docs/work.md, "Registers").
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from validation.common import records
from validation.common.pages import renew_or_check
from validation.kernel_tuner.spaces import SPACES, steps_of
from validation.tuning.measures import quality, quantile_cells
from validation.tuning.predict import Predicted, Task, predict_in, read_config

FOLDER = Path(__file__).parent
MEASURED, PREDICTED, RESULTS = FOLDER / "measured.csv", FOLDER / "predicted.csv", FOLDER / "RESULTS.md"


@dataclass(frozen=True, slots=True)
class Measured:
    """The measured time of a point, and the one that was predicted before any had been looked at."""

    space: str
    config: str
    milliseconds: float
    first: float


def measured() -> list[Measured]:
    """Return the measured times."""
    return records.from_csv(Measured, MEASURED.read_text())


def predicted() -> list[Predicted]:
    """Return the recorded predictions, in the order of the measured times."""
    return records.from_csv(Predicted, PREDICTED.read_text())


def predict(task: Task) -> Predicted:
    """Return the prediction for a point."""
    return predict_in(SPACES[task.space], task)


def page() -> str:
    """Return the tables of the page."""
    pairs = list(zip(measured(), predicted(), strict=True))
    lines = ["| space | predictions | points | regret@1 | regret@5 | tau | 10 % | 50 % | 90 % |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for space in SPACES:
        own = [(row, found) for row, found in pairs if row.space == space]
        first = [(row, row.first) for row, _ in own]
        lines.append(_line(space, "first", first))
        lines.append(_line(space, "now", [(row, found.milliseconds) for row, found in own if not found.failure]))
    lines += ["", "| space | bound by | points | 10 % | 50 % | 90 % |", "|---|---|---:|---:|---:|---:|"]
    for space in SPACES:
        own = [(row, found) for row, found in pairs if row.space == space and not found.failure]
        for bound in sorted({found.bound for _, found in own}):
            ratios = [found.milliseconds / row.milliseconds for row, found in own if found.bound == bound]
            lines.append(f"| {space} | {bound} | {len(ratios)} | {quantile_cells(ratios)} |")
    return "\n".join(lines) + "\n"


def _line(space: str, title: str, found: Sequence[tuple[Measured, float]]) -> str:
    """Return a line with the quality of predictions; a tile of ``hotspot`` counts by its time for each step."""
    steps = [steps_of(read_config(row.config)) for row, _ in found]
    scores = [milliseconds / step for (_, milliseconds), step in zip(found, steps, strict=True)]
    times = [row.milliseconds / step for (row, _), step in zip(found, steps, strict=True)]
    each = quality(scores, times)
    ratios = quantile_cells([score / time for score, time in zip(scores, times, strict=True)])
    return (
        f"| {space} | {title} | {len(found)} | {each.regret_1:.3f} | {each.regret_5:.3f} | {each.tau:.3f} | {ratios} |"
    )


def main() -> int:
    """Run the command; return 1 if the page differs from its records."""
    parser = argparse.ArgumentParser(prog="python -m validation.kernel_tuner", description=__doc__)
    parser.add_argument("--sources", type=Path, metavar="DIR", help="predict again, with the hub's folder 'kernels'")
    parser.add_argument("--spaces", nargs="+", choices=SPACES, default=list(SPACES), help="predict only these again")
    parser.add_argument("--jobs", type=records.positive, default=2, metavar="N", help="processes (default: 2)")
    parser.add_argument("--check", action="store_true", help="fail if the page differs from its records")
    options = parser.parse_args()
    if options.sources:
        known = {row.key: row for row in (predicted() if PREDICTED.exists() else ())}
        tasks = [Task(row.space, row.config, str(options.sources)) for row in measured() if row.space in options.spaces]
        known |= {row.key: row for row in records.run_all(predict, tasks, options.jobs)}
        rows = [known[row.space, row.config] for row in measured() if (row.space, row.config) in known]
        PREDICTED.write_text(records.to_csv(Predicted, rows))
    return renew_or_check(RESULTS, page(), options.check)


if __name__ == "__main__":
    sys.exit(main())
