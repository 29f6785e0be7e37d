"""``python -m validation.sgemm``: compare kernels of siboehm/SGEMM_CUDA with the speeds that its author published.

``--sources DIR`` predicts again: DIR has a checkout for each GPU, in a folder of its name, at the commit that
`published.csv` names. The kernels are compiled with NVRTC, and need an assembler (docs/work.md, "Registers").
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import rdmodel as rd
from validation.common import records
from validation.common.pages import renew_or_check
from validation.sgemm.kernels import EXTENT, KERNELS, launch
from validation.tuning.measures import quality, quantile_cells

FOLDER = Path(__file__).parent
PUBLISHED, PREDICTED, RESULTS = FOLDER / "published.csv", FOLDER / "predicted.csv", FOLDER / "RESULTS.md"

OPERATIONS = 2 * EXTENT**3


@dataclass(frozen=True, slots=True)
class Published:
    """The measured speed of a kernel on a GPU in GFLOPS, and the commit whose README has it."""

    gpu: str
    kernel: int
    name: str
    gflops: float
    commit: str


@dataclass(frozen=True, slots=True)
class Predicted:
    """The predicted speed of a kernel on a GPU in GFLOPS, the term that binds it, and what its operands wait for."""

    gpu: str
    kernel: int
    gflops: float
    bound: str
    registers: int
    operand_stalls: float


@dataclass(frozen=True, slots=True)
class Task:
    """A kernel to predict on a GPU, with the folder of the sources."""

    gpu: str
    kernel: int
    sources: str


def published() -> list[Published]:
    """Return the published speeds."""
    return records.from_csv(Published, PUBLISHED.read_text())


def predicted() -> list[Predicted]:
    """Return the recorded predictions, in the order of the published speeds."""
    return records.from_csv(Predicted, PREDICTED.read_text())


def predict(task: Task) -> Predicted:
    """Return the predicted speed of a kernel."""
    found = rd.time(launch(Path(task.sources), task.gpu, task.kernel), task.gpu)
    assert found.registers is not None
    gflops = OPERATIONS / found.milliseconds / 1e6
    use = found.registers
    return Predicted(task.gpu, task.kernel, round(gflops, 1), found.bound, use.registers, round(use.operand_stalls, 3))


def page() -> str:
    """Return the tables of the page."""
    pairs = list(zip(published(), predicted(), strict=True))
    summary = ["| GPU | kernels | tau | 10 % | 50 % | 90 % |", "|---|---:|---:|---:|---:|---:|"]
    rows = ["| GPU | kernel | measured | predicted | ratio | bound by |", "|---|---|---:|---:|---:|---|"]
    for gpu in KERNELS:
        own = [(measured, found) for measured, found in pairs if measured.gpu == gpu]
        ratios = [found.gflops / measured.gflops for measured, found in own]
        ranking = quality([1 / found.gflops for _, found in own], [1 / measured.gflops for measured, _ in own])
        summary.append(f"| {gpu} | {len(own)} | {ranking.tau:.2f} | {quantile_cells(ratios)} |")
        rows += [
            f"| {gpu} | {measured.kernel}: {measured.name} | {measured.gflops:,.0f} | {found.gflops:,.0f} "
            f"| {ratio:.2f} | {found.bound} |"
            for (measured, found), ratio in zip(own, ratios, strict=True)
        ]
    return "\n".join([*summary, "", *rows]) + "\n"


def main() -> int:
    """Run the command; return 1 if the page differs from its records."""
    parser = argparse.ArgumentParser(prog="python -m validation.sgemm", description=__doc__)
    parser.add_argument("--sources", type=Path, metavar="DIR", help="predict again, with the checkouts in this folder")
    parser.add_argument("--jobs", type=records.positive, default=2, metavar="N", help="processes (default: 2)")
    parser.add_argument("--check", action="store_true", help="fail if the page differs from its records")
    options = parser.parse_args()
    if options.sources:
        tasks = [Task(row.gpu, row.kernel, str(options.sources)) for row in published()]
        PREDICTED.write_text(records.to_csv(Predicted, records.run_all(predict, tasks, options.jobs)))
    return renew_or_check(RESULTS, page(), options.check)


if __name__ == "__main__":
    sys.exit(main())
