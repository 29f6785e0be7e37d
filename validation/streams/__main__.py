"""``python -m validation.streams``: compare copies by blocks of many sizes with measured times.

``--record`` predicts again; the kernel is compiled with NVRTC.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import rdmodel as rd
import tracegen.cuda
from rdmodel import presets
from rdmodel.gpu.device_properties import compute_capability
from validation.common import records
from validation.common.pages import renew_or_check
from validation.tuning.measures import quantile_cells

FOLDER = Path(__file__).parent
PUBLISHED, PREDICTED, RESULTS = FOLDER / "published.csv", FOLDER / "predicted.csv", FOLDER / "RESULTS.md"

ELEMENT_BYTES = 16
"""Bytes that are read and written for each element, a number of double precision."""

SOURCE = """
extern "C" __global__ void scale(double *__restrict__ to, const double *__restrict__ from, int elements) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < elements) to[i] = 0.25 * from[i];
}
"""

BIND_STARTS = 64
"""Threads of a block up to which large grids may be bound by the starts of their blocks."""


@dataclass(frozen=True, slots=True)
class Published:
    """The measured speed of a copy in GB/s: the elements, and the threads of a block."""

    gpu: str
    elements: int
    threads: int
    gigabytes: int

    @property
    def microseconds(self) -> float:
        """Time from one launch to the next one."""
        return self.elements * ELEMENT_BYTES / self.gigabytes / 1000


@dataclass(frozen=True, slots=True)
class Predicted:
    """The predicted time of a copy in microseconds, and the term that binds it."""

    gpu: str
    elements: int
    threads: int
    microseconds: float
    bound: str


def published() -> list[Published]:
    """Return the published speeds."""
    return records.from_csv(Published, PUBLISHED.read_text())


def predicted() -> list[Predicted]:
    """Return the recorded predictions, in the order of the published speeds."""
    return records.from_csv(Predicted, PREDICTED.read_text())


def predict(row: Published) -> Predicted:
    """Return the predicted time of a copy."""
    major, minor = compute_capability(presets.gpu(row.gpu))
    trace = tracegen.cuda.trace(
        SOURCE,
        "scale",
        row.elements // row.threads + 1,
        row.threads,
        dict.fromkeys(("to", "from"), f"double[{row.elements}]:zeros") | {"elements": row.elements},
        architecture=f"sm_{major}{minor}",
    )
    found = rd.time(trace, row.gpu)
    return Predicted(row.gpu, row.elements, row.threads, round(1000 * found.milliseconds, 2), found.bound)


def kind(row: Published, smallest: int) -> str:
    """Return the row of the summary that a copy belongs to."""
    if row.elements == smallest:
        return "64 KB, in the L2"
    return f"large, {'up to' if row.threads <= BIND_STARTS else 'more than'} {BIND_STARTS} threads"


def page() -> str:
    """Return the tables of the page."""
    pairs = list(zip(published(), predicted(), strict=True))
    smallest = min(row.elements for row, _ in pairs)
    groups: dict[tuple[str, str], list[float]] = {}
    for row, found in pairs:
        groups.setdefault((kind(row, smallest), row.gpu), []).append(found.microseconds / row.microseconds)
    summary = ["| copies | GPU | rows | 10 % | 50 % | 90 % |", "|---|---|---:|---:|---:|---:|"]
    summary += [
        f"| {name} | {gpu} | {len(ratios)} | {quantile_cells(ratios)} |"
        for (name, gpu), ratios in sorted(groups.items(), key=lambda group: group[0])
    ]
    lines = [
        "| GPU | MB | threads | measured us | predicted us | ratio | bound by |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    lines += [_line(row, found) for row, found in pairs]
    return "\n".join([*summary, "", *lines]) + "\n"


def _line(row: Published, found: Predicted) -> str:
    ratio = found.microseconds / row.microseconds
    size = row.elements * ELEMENT_BYTES / 1e6
    cells: Sequence[str] = (
        row.gpu,
        f"{size:,.2f}" if size < 1 else f"{size:,.0f}",
        str(row.threads),
        f"{row.microseconds:,.2f}",
        f"{found.microseconds:,.2f}",
        f"{ratio:.2f}",
        found.bound,
    )
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Run the command; return 1 if the page differs from its records."""
    parser = argparse.ArgumentParser(prog="python -m validation.streams", description=__doc__)
    parser.add_argument("--record", action="store_true", help="predict again, and renew the record")
    parser.add_argument("--jobs", type=records.positive, default=2, metavar="N", help="processes (default: 2)")
    parser.add_argument("--check", action="store_true", help="fail if the page differs from its records")
    options = parser.parse_args()
    if options.record:
        PREDICTED.write_text(records.to_csv(Predicted, records.run_all(predict, published(), options.jobs)))
    return renew_or_check(RESULTS, page(), options.check)


if __name__ == "__main__":
    sys.exit(main())
