"""Run samples and exact runs of kernels: rates, intervals, and how often intervals hold the exact rate."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from time import process_time
from typing import Any, TypeVar

import tracegen
from rdmodel import GPU, Prediction, Trace, predict, presets
from rdmodel.common.intervals import Estimate
from rdmodel.model.options import Options
from rdmodel.model.round_robin import kernel_histogram
from rdmodel.model.sample_sms import Stratum, choose_sms, estimate_from_sms, make_strata
from rdmodel.policies import Linear
from rdmodel.reuse.sampled import SampledHistogram
from tracegen.kernel_library.suites import POLYBENCH

FOLDER = Path(__file__).parent
MEASURED = FOLDER / "results.csv"

MACHINE = "gtx470-16k"
SMS = 4
SHARE = 0.1
RATES = (0.1, 0.01)
SIZES = {"16 KB": 128, "64 KB": 512, "256 KB": 2048, "1 MB": 8192}

CHOICES = 200
"""Number of samples of SMs that are compared with one exact run."""

BLOCK_SEEDS = 8
LINE_SEEDS = 12

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kernel sampled in one way: the sample of seed 0, its exact value, and the number of samples that hold theirs.

    `time` is the processor time of the sampled run divided by that of the exact one.
    """

    kernel: str
    way: str
    exact: float
    value: float
    standard_error: float
    low: float
    high: float
    held: int
    samples: int
    sampled: str
    time: float

    @property
    def holds(self) -> bool:
        """Whether the interval of seed 0 holds the exact value."""
        return self.exact in self.estimate

    @property
    def estimate(self) -> Estimate:
        """The estimate of seed 0."""
        return Estimate(
            value=self.value,
            standard_error=self.standard_error,
            low=self.low,
            high=self.high,
            sampled=self.sampled,
        )

    @property
    def whole(self) -> bool:
        """Whether the sample was the whole launch."""
        return self.standard_error == 0.0 and self.value == self.exact


def measure(kernel: str) -> Iterator[Row]:
    """Yield the rows of one kernel of the suite."""
    sizes: Mapping[str, Any] = POLYBENCH[kernel]
    trace = tracegen.kernel(kernel, **sizes)
    yield _sms(kernel, trace)
    yield blocks(kernel, "blocks", trace)
    yield from _lines(kernel, trace)


def _timed(run: Callable[[], R]) -> tuple[R, float]:
    started = process_time()
    result = run()
    return result, process_time() - started


def _row(kernel: str, way: str, exact: float, one: Estimate, held: Iterable[bool], time: float) -> Row:
    answers = list(held)
    return Row(
        kernel=kernel,
        way=way,
        exact=exact,
        value=one.value,
        standard_error=one.standard_error,
        low=one.low,
        high=one.high,
        held=sum(answers),
        samples=len(answers),
        sampled=one.sampled,
        time=time,
    )


def _predict(trace: Trace, gpu: str = MACHINE, **options: Any) -> Prediction:
    return predict(trace, gpu, threads=None, histogram=False, n_jobs=1, **options)


def _sms(kernel: str, trace: Trace) -> Row:
    """Compare a sample of SMs with all SMs; the counts of an SM do not depend on the sample."""
    sms = presets.gpu(MACHINE).sms
    exact, long = _timed(lambda: _predict(trace, model_sms=sms))
    found, short = _timed(lambda: _predict(trace, sample_sms=SMS))
    counts = {sm.sm: sm for sm in exact.per_sm}
    groups = make_strata({sm: one.blocks for sm, one in counts.items()})

    def of(seed: int) -> Estimate:
        chosen = choose_sms(groups, SMS, seed)
        parts = [
            Stratum([counts[sm] for sm in some], len(group), sum(counts[sm].blocks for sm in group))
            for some, group in zip(chosen, groups, strict=True)
        ]
        return estimate_from_sms(parts)["miss_rate"]

    assert of(0) == found.estimates["miss_rate"]
    held = (exact.miss_rate in of(seed) for seed in range(CHOICES))
    return _row(kernel, "sms", exact.miss_rate, found.estimates["miss_rate"], held, short / long)


def blocks(kernel: str, way: str, trace: Trace, gpu: str = MACHINE, seeds: int = BLOCK_SEEDS) -> Row:
    """Compare stretches of the grid with the whole grid, on one SM; each seed has a separate exact run."""
    exact, long = _timed(lambda: _predict(trace, gpu, sms=1))
    found, short = _timed(lambda: _predict(trace, gpu, sms=1, sample_blocks=SHARE))
    one = found.estimates["miss_rate"]
    held = [exact.miss_rate in one]
    if one.standard_error > 0:
        for seed in range(1, seeds):
            truth = _predict(trace, gpu, sms=1, seed=seed).miss_rate
            held.append(truth in _predict(trace, gpu, sms=1, seed=seed, sample_blocks=SHARE).estimates["miss_rate"])
    return _row(kernel, way, exact.miss_rate, one, held, short / long)


def _lines(kernel: str, trace: Trace) -> Iterator[Row]:
    """Compare miss ratios of a sample of the lines with those of all lines, with the grid on one SM, warps in turn."""
    gpu = _without_limits(presets.gpu(MACHINE))
    turns: Mapping[str, Any] = {"lat_min": 0, "sigma": 0.0, "hit_latency": 0, "divergence": False}
    whole, long = _timed(
        lambda: predict(trace, gpu, definition="paper", threads=None, sms=1, n_jobs=1, **turns).histogram
    )
    assert whole is not None
    exact = whole.miss_ratio_curve(list(SIZES.values()))
    options = Options(definition="paper", threads=None, sms=1).resolve(gpu)
    for rate in RATES:

        def sample(seed: int, rate: float = rate) -> SampledHistogram:
            return kernel_histogram(trace, gpu, options, rate, seed)

        found, short = _timed(lambda: sample(0))
        curves = [found.miss_ratio_curve(exact.sizes)]
        curves += [sample(seed).miss_ratio_curve(exact.sizes) for seed in range(1, LINE_SEEDS)]
        for name, size in SIZES.items():
            held = [exact.at(size) in curve.estimate(size) for curve in curves]
            yield _row(kernel, f"lines {rate:g}, {name}", exact.at(size), curves[0].estimate(size), held, short / long)


def _without_limits(gpu: GPU) -> GPU:
    """Return a GPU whose L1 never stalls a warp, so that the warps take turns."""
    l1 = dataclasses.replace(gpu.l1, ways=gpu.l1.lines, index=Linear(), mshrs=None, mshr_per_warp=None, mshr_merge=None)
    return gpu.replace(l1=l1)


# ---- the record

DIGITS = 6
"""Significant digits of recorded numbers."""


def to_csv(rows: Iterable[Row]) -> str:
    """Return the rows as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([f.name for f in fields(Row)])
    for row in rows:
        writer.writerow([_text(getattr(row, f.name)) for f in fields(Row)])
    return out.getvalue()


def _text(value: Any) -> str:
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)


def from_csv(text: str) -> list[Row]:
    """Return the rows that `to_csv` wrote."""
    types = {f.name: {"str": str, "int": int, "float": float}[str(f.type)] for f in fields(Row)}
    return [
        Row(**{name: types[name](cell) for name, cell in line.items()}) for line in csv.DictReader(io.StringIO(text))
    ]


def differences(rows: Iterable[Row], recorded: Iterable[Row]) -> list[str]:
    """Return a line for each of `rows` that differs from its recorded row in more than time."""
    before = {(row.kernel, row.way): row for row in recorded}
    lines = []
    for row in from_csv(to_csv(rows)):
        old = before.get((row.kernel, row.way))
        if old is None or dataclasses.replace(old, time=row.time) != row:
            lines.append(f"{row.kernel}, {row.way}: {row.estimate} is not as recorded ({old and old.estimate})")
    return lines
