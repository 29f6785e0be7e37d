"""``python -m validation.gemm``: compare kernels of leimao/CUDA-GEMM-Optimization with published speeds.

``--sources DIR`` predicts again: DIR is a checkout of the repository at 747e49b. The kernels are compiled with NVRTC,
and need an assembler (docs/work.md, "Registers").
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import rdmodel as rd
from validation.common import records
from validation.common.pages import renew_or_check
from validation.gemm.kernels import EXTENT, TYPES, launch
from validation.tuning.measures import quality, quantile_cells

FOLDER = Path(__file__).parent
PUBLISHED, PREDICTED, RESULTS = FOLDER / "published.csv", FOLDER / "predicted.csv", FOLDER / "RESULTS.md"

GPU = "rtx3090"
OPERATIONS = 2 * EXTENT**3


@dataclass(frozen=True, slots=True)
class Published:
    """The measured speed of a kernel in TFLOPS, and the one that was predicted before it had been looked at."""

    precision: str
    kernel: str
    tflops: float
    first: float


@dataclass(frozen=True, slots=True)
class Predicted:
    """The predicted speed of a kernel in TFLOPS, the term that binds it, and its registers."""

    precision: str
    kernel: str
    tflops: float
    bound: str
    registers: int


@dataclass(frozen=True, slots=True)
class Task:
    """A kernel to predict, with the folder of the sources."""

    precision: str
    kernel: str
    sources: str


def published() -> list[Published]:
    """Return the published speeds."""
    return records.from_csv(Published, PUBLISHED.read_text())


def predicted() -> list[Predicted]:
    """Return the recorded predictions, in the order of the published speeds."""
    return records.from_csv(Predicted, PREDICTED.read_text())


def predict(task: Task) -> Predicted:
    """Return the predicted speed of a kernel."""
    found = rd.time(launch(Path(task.sources), task.precision, task.kernel), GPU)
    assert found.registers is not None
    tflops = round(OPERATIONS / found.milliseconds / 1e9, 3)
    return Predicted(task.precision, task.kernel, tflops, found.bound, found.registers.registers)


def page() -> str:
    """Return the tables of the page."""
    pairs = list(zip(published(), predicted(), strict=True))
    summary = ["| predictions | numbers | kernels | tau | 10 % | 50 % | 90 % |", "|---|---|---:|---:|---:|---:|---:|"]
    for title in ("first", "now"):
        for precision in TYPES:
            own = [(row, found) for row, found in pairs if row.precision == precision]
            speeds = [row.first if title == "first" else found.tflops for row, found in own]
            measured = [row.tflops for row, _ in own]
            tau = quality([-speed for speed in speeds], [-speed for speed in measured]).tau
            ratios = quantile_cells([speed / known for speed, known in zip(speeds, measured, strict=True)])
            summary.append(f"| {title} | {precision} | {len(own)} | {tau:.2f} | {ratios} |")
    lines = ["| numbers | kernel | measured | first | ratio | predicted | ratio | bound by |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|---|")
    lines += [
        f"| {row.precision} | {row.kernel} | {row.tflops:.2f} | {row.first:.2f} | {row.first / row.tflops:.2f} "
        f"| {found.tflops:.2f} | {found.tflops / row.tflops:.2f} | {found.bound} |"
        for row, found in pairs
    ]
    return "\n".join([*summary, "", *lines]) + "\n"


def main() -> int:
    """Run the command; return 1 if the page differs from its records."""
    parser = argparse.ArgumentParser(prog="python -m validation.gemm", description=__doc__)
    parser.add_argument("--sources", type=Path, metavar="DIR", help="predict again, with the repository in this folder")
    parser.add_argument("--jobs", type=records.positive, default=2, metavar="N", help="processes (default: 2)")
    parser.add_argument("--check", action="store_true", help="fail if the page differs from its records")
    options = parser.parse_args()
    if options.sources:
        tasks = [Task(row.precision, row.kernel, str(options.sources)) for row in published()]
        PREDICTED.write_text(records.to_csv(Predicted, records.run_all(predict, tasks, options.jobs)))
    return renew_or_check(RESULTS, page(), options.check)


if __name__ == "__main__":
    sys.exit(main())
