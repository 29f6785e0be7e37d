"""Predict the measured rows, and compute the errors of the predictions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import rdmodel as rd
from rdmodel.trace import Trace
from validation.hardware import compiled
from validation.hardware import launches as python
from validation.hardware.launches import Pad
from validation.hardware.rows import Row

GPU = "gtx570-16k"
DEFINITIONS = ("hardware", "paper")

Sms = Literal[1, "all"]
"""SM 0 with its statically dealt blocks, or all SMs (`hardware`: under one dispatcher)."""

Source = Literal["python", "cuda"]
"""Source of the traces: the kernels in Python, or the compiled CUDA sources."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of all predictions. `hardware` gets `seeds` seeds; `paper`, which hardly varies, gets one."""

    source: Source = "python"
    sms: Sms = 1
    seeds: int = 3
    pad: Pad = 1
    passes: int | None = 8


@dataclass(frozen=True, slots=True)
class Score:
    """A row under one definition. Rates in percent, `error` in points; `tools`: other tools report the row."""

    kernel: str
    definition: str
    sms: Sms
    seeds: int
    measured: float
    predicted: float
    tools: bool

    @property
    def error(self) -> float:
        """Signed error of the prediction in percentage points."""
        return self.predicted - self.measured


def score(row: Row, definition: str, settings: Settings) -> Score:
    """Predict a row: the whole grid, with misses and transactions summed over its launches."""
    launches = compiled.launches if settings.source == "cuda" else python.launches
    predicted = miss_rate(launches(row, settings.pad, settings.passes), GPU, definition, settings)
    seeds = _seeds(definition, settings)
    return Score(row.kernel, definition, settings.sms, seeds, row.measured, round(predicted, 4), bool(row.others))


def miss_rate(traces: Iterable[Trace], gpu: str, definition: str, settings: Settings) -> float:
    """Return the predicted miss rate in percent, with misses and transactions of whole grids summed over the traces."""
    predictions = [
        rd.predict(
            trace,
            gpu,
            definition=definition,
            model_sms=settings.sms,
            threads=None,
            seeds=_seeds(definition, settings),
            histogram=False,
        )
        for trace in traces
    ]
    misses = sum(prediction.misses.total for prediction in predictions)
    return 100 * misses / sum(prediction.transactions for prediction in predictions)


def _seeds(definition: str, settings: Settings) -> int:
    return settings.seeds if definition == "hardware" else 1


def mean_error(scores: Iterable[Score], definition: str) -> tuple[float | None, float | None]:
    """Return the mean absolute error in points over all rows, and over those that other tools report."""
    own = [score for score in scores if score.definition == definition]
    return _mean(abs(s.error) for s in own), _mean(abs(s.error) for s in own if s.tools)


def tool_error(rows: Sequence[Row], tool: str) -> float | None:
    """Return the mean absolute error in points of another tool over the rows that it reports."""
    return _mean(abs(row.others[tool] - row.measured) for row in rows if tool in row.others)


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return fmean(found) if found else None
