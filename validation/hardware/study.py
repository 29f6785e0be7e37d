"""Predictions for the measured rows, and how far off they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import rdmodel as rd
from validation.hardware.launches import Pad, launches
from validation.hardware.rows import Row

GPU = "gtx570-16k"
DEFINITIONS = ("hardware", "paper")

Sms = Literal[1, "all"]
"""SM 0 with its statically dealt blocks, or all SMs (`hardware`: under one dispatcher)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How every row is predicted. `seeds` are those of `hardware`; `paper` hardly moves and gets one."""

    sms: Sms = 1
    seeds: int = 3
    pad: Pad = 1
    passes: int | None = 8


@dataclass(frozen=True, slots=True)
class Score:
    """A row under one definition. Rates in percent, `error` in points; `tools`: whether other tools have it."""

    kernel: str
    definition: str
    sms: Sms
    seeds: int
    measured: float
    predicted: float
    tools: bool

    @property
    def error(self) -> float:
        """Points by which the prediction is too high."""
        return self.predicted - self.measured


def score(row: Row, definition: str, settings: Settings) -> Score:
    """Return the prediction for a row: the whole grid, misses and transactions summed over its launches."""
    seeds = settings.seeds if definition == "hardware" else 1
    predictions = [
        rd.predict(
            trace,
            GPU,
            definition=definition,
            model_sms=settings.sms,
            threads=None,
            seeds=seeds,
            histogram=False,
        )
        for trace in launches(row, settings.pad, settings.passes)
    ]
    misses = sum(prediction.misses.total for prediction in predictions)
    transactions = sum(prediction.transactions for prediction in predictions)
    predicted = 100 * misses / transactions
    return Score(row.kernel, definition, settings.sms, seeds, row.measured, round(predicted, 4), bool(row.others))


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
