"""``python -m validation.hardware.other_gpus``: predict rows of a Tesla K40c.

Its preset has one parameter that was chosen on some of these rows, those of strided loads: `l1.tags_per_step`.

The kernels are those of ``k40c.cu``, compiled and emulated. The GPU is the preset ``k40c-16k``, on SM 0 with statically
dealt blocks. ``other_gpus.csv`` also has rows that are not predicted: those of a GPU without a preset (RTX 3050 Ti,
whose sectors the model lacks) and of a kernel whose description does not determine its accesses (subSeqMax).
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from dataclasses import dataclass

from rdmodel.trace import ArrayInfo, Launch, Trace
from tracegen.arrays import BASE
from validation.hardware.compiled import compiler, emulate
from validation.hardware.rows import FOLDER
from validation.hardware.study import DEFINITIONS, Settings, miss_rate

ROWS = FOLDER / "other_gpus.csv"
RECORD = FOLDER / "k40c.csv"
RESULTS = FOLDER / "RESULTS-k40c.md"
SOURCE = FOLDER / "k40c.cu"
GPU = "k40c-16k"

LEFT_OUT = ("subSeqMax",)
"""Kernels that are not predicted."""

MAX_TRANSACTIONS_PER_SM = 17_000_000
"""Rows with more transactions on one of the 15 SMs are not predicted. The others take two minutes together."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A launch on another GPU: size, shape, measured miss rate in percent, and counted transactions."""

    kernel: str
    n: int
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    miss_rate: float
    transactions: int


def read_rows() -> list[Measured]:
    """Return the rows of the K40c that are predicted, in the order of the file."""
    with ROWS.open(newline="") as file:
        own = [r for r in csv.DictReader(file) if r["gpu"] == GPU and r["kernel"] not in LEFT_OUT]
    rows = [
        Measured(
            kernel=r["kernel"],
            n=int(r["sizes"].removeprefix("N=")),
            block=_shape(r["block"]),
            grid=_shape(r["grid"]),
            miss_rate=float(r["miss_rate"]),
            transactions=int(r["hits"]) + int(r["misses"]),
        )
        for r in own
    ]
    return [row for row in rows if row.transactions <= 15 * MAX_TRANSACTIONS_PER_SM]


def _shape(text: str) -> tuple[int, int, int]:
    x, y, z = (*map(int, text.split("x")), 1, 1)[:3]
    return x, y, z


def trace(row: Measured) -> Trace:
    """Return the trace of a row from compiled code; raise `ConfigError` if there is no compiler."""
    elements = row.n**2 if row.kernel.startswith("matMul") else row.n
    arrays = tuple(ArrayInfo(name, BASE + at * 4 * elements, 4 * elements) for at, name in enumerate("abc"))
    launch = Launch(kernel=row.kernel, grid=row.grid, block=row.block, arrays=arrays)
    return emulate(SOURCE, row.kernel, launch, {}, {"n": row.n})


def predict(row: Measured, settings: Settings | None = None) -> list[float]:
    """Return the predicted miss rate in percent under each definition, by default on SM 0."""
    made = trace(row)
    return [round(miss_rate([made], GPU, definition, settings or Settings()), 4) for definition in DEFINITIONS]


def to_csv(rows: Sequence[Measured], predicted: Sequence[Sequence[float]]) -> str:
    """Return measured and predicted rates as CSV."""
    lines = [",".join(("kernel", "n", "measured", *DEFINITIONS))]
    lines += [",".join(map(str, (r.kernel, r.n, r.miss_rate, *p))) for r, p in zip(rows, predicted, strict=True)]
    return "\n".join(lines) + "\n"


def to_markdown(rows: Sequence[Measured], predicted: Sequence[Sequence[float]]) -> str:
    """Return a table in Markdown: rates in percent, errors in points in brackets, mean errors after each kernel."""
    lines = [f"| kernel | n | measured | {' | '.join(DEFINITIONS)} |", "|---|" + "---:|" * (2 + len(DEFINITIONS))]
    for kernel in dict.fromkeys(row.kernel for row in rows):
        own = [(row, rates) for row, rates in zip(rows, predicted, strict=True) if row.kernel == kernel]
        for row, rates in own:
            cells = [f"{rate:.2f} ({rate - row.miss_rate:+.2f})" for rate in rates]
            lines.append(f"| {kernel} | {row.n} | {row.miss_rate:.2f} | {' | '.join(cells)} |")
        errors = [sum(abs(p[at] - r.miss_rate) for r, p in own) / len(own) for at in range(len(DEFINITIONS))]
        lines.append(f"| mean error, {kernel} | | | {' | '.join(f'{error:.2f}' for error in errors)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m validation.hardware.other_gpus", description=__doc__)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--record", action="store_true", help="renew the committed record")
    output.add_argument("--sms", choices=("1", "all"), default="1", help="SM 0 (default), or all 15 with one seed")
    parser.add_argument("--kernels", nargs="+", metavar="KERNEL", help="only the rows of these kernels")
    options = parser.parse_args()
    if options.record and options.kernels:
        parser.error("--record: renews all rows, not those of --kernels")
    rows = [row for row in read_rows() if not options.kernels or row.kernel in options.kernels]
    settings = Settings(sms="all", seeds=1) if options.sms == "all" else Settings()
    predicted = [predict(row, settings) for row in rows]
    table = to_markdown(rows, predicted)
    if not options.record:
        print(table, end="")
        return
    RECORD.write_text(to_csv(rows, predicted))
    RESULTS.write_text(
        "# Tesla K40c: measured and predicted L1 miss rates\n\n"
        "Written by `python -m validation.hardware.other_gpus --record`. Rates are in percent, errors in percentage\n"
        f"points in brackets. GPU `{GPU}`, SM 0 of 15, blocks dealt statically; hardware: mean of 3 seeds from 0,\n"
        "paper: seed 0. `l1.tags_per_step` was chosen on the rows of `matMul_gpu_sharedmem_uncoalesced`, and no\n"
        f"parameter on the others. Compiler: {compiler()}.\n\n{table}"
    )


if __name__ == "__main__":
    main()
