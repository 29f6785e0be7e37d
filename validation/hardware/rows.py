"""Read the measured rows of ``gtx570.csv``."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent

TOOLS = ("model_gpu_cache", "gpgpu_sim", "nugteren_code")
"""Other tools with recorded predictions: a later re-implementation, a simulator, and the paper's code, run again."""


@dataclass(frozen=True, slots=True)
class Row:
    """A measured launch. Rates in percent; `others` has the known predictions of other tools by name."""

    kernel: str
    sizes: Mapping[str, int]
    block: tuple[int, ...]
    grid: tuple[int, ...]
    measured: float
    others: Mapping[str, float]


def read_rows() -> list[Row]:
    """Return all rows of the GTX 570, in the order of the file."""
    with (FOLDER / "gtx570.csv").open(newline="") as file:
        return [_row(fields) for fields in csv.DictReader(file)]


def _row(fields: Mapping[str, str]) -> Row:
    sizes = (size.split("=") for size in fields["sizes"].split())
    return Row(
        kernel=fields["kernel"],
        sizes={name: int(value) for name, value in sizes},
        block=tuple(map(int, fields["block"].split("x"))),
        grid=tuple(map(int, fields["grid"].split("x"))),
        measured=float(fields["miss_rate"]),
        others={tool: float(fields[tool]) for tool in TOOLS if fields[tool]},
    )
