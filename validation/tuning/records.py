"""Read and write the records: measured times, and predictions with their terms."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from validation.common.records import from_csv, to_csv
from validation.tuning.predict import Predicted

FOLDER = Path(__file__).parent
MEASURED, PREDICTED, PAGE = FOLDER / "measured.csv", FOLDER / "predicted.csv", FOLDER / "RESULTS.md"
PREDICTED_ASSEMBLY = FOLDER / "predicted_assembly.csv"
"""Points of the convolution without shared memory, with assembly in place of `__ldg`."""

PREDICTED_OLDER = FOLDER / "predicted_cuda12.csv"
"""Points of the spaces that were measured in CUDA, with an assembler of CUDA 12."""


def measured() -> dict[str, dict[str, float]]:
    """Return the measured milliseconds by space and configuration."""
    found: dict[str, dict[str, float]] = {}
    with MEASURED.open(newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["kernel"], {})[row["config"]] = float(row["time_ms"])
    return found


def read(path: Path = PREDICTED) -> list[Predicted]:
    """Return the recorded predictions."""
    return from_csv(Predicted, path.read_text()) if path.exists() else []


def write(rows: Iterable[Predicted], path: Path = PREDICTED) -> None:
    """Write predictions, sorted by space and configuration."""
    path.write_text(to_csv(Predicted, sorted(rows, key=lambda row: row.key)))


def by_space(rows: Sequence[Predicted]) -> dict[str, list[Predicted]]:
    """Return predictions by space."""
    found: dict[str, list[Predicted]] = {}
    for row in rows:
        found.setdefault(row.space, []).append(row)
    return found
