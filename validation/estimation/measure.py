"""Estimate kernels and predict them exactly, and store both counts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from time import process_time

from rdmodel import Prediction, estimate, predict
from validation.common.estimated import EstimatedRow
from validation.estimation.kernels import trace_of

FOLDER = Path(__file__).parent
MEASURED = FOLDER / "results.csv"

GPUS = ("gtx470-16k", "gtx480-khairy", "v100", "a100-80g")
WORKS = (50_000, 150_000, 600_000)
"""Values of `work`, in transactions."""
DEFAULT_WORK = WORKS[1]
"""The only value for GPUs with sectors, whose waves take more work."""
SECTORED = GPUS[2:]
COUNTS = (
    "transactions",
    "misses",
    "steps",
    "l2_misses",
    "l2_miss_rate",
    "l2_bytes",
    "dram_read_sectors",
    "dram_bytes",
)
QUICK = ("atax.2", "gemm", "transpose 32x8", "stencil2d 32x4x4")
"""Kernels that the tests run again."""

DIGITS = 8
"""Significant digits of recorded counts."""


@dataclass(frozen=True, slots=True)
class Row(EstimatedRow):
    """A count of a kernel, exact and estimated. `way`: "l2" or "l1"; `time`: processor time in milliseconds."""

    gpu: str
    kernel: str
    way: str
    work: int
    count: str
    exact: float
    value: float
    low: float
    high: float
    time: float

    @property
    def whole(self) -> bool:
        """Whether the estimate ran everything, and so is exact."""
        return self.low == self.high


def works_of(gpu: str) -> tuple[int, ...]:
    """Return the values of `work` for a GPU."""
    return (DEFAULT_WORK,) if gpu in SECTORED else WORKS


def measure_kernel(task: tuple[str, str]) -> list[Row]:
    """Return the rows of (GPU, kernel): one exact run, and estimates with each `work`, with and without the L2."""
    gpu, kernel = task
    exact = _counts(predict(trace_of(kernel), gpu, model_sms="all", threads=None, histogram=False, l2=True))
    rows = []
    for work in works_of(gpu):
        for way in ("l2", "l1"):
            trace = trace_of(kernel)
            started = process_time()
            found = estimate(trace, gpu, l2=way == "l2", work=work)
            time = 1000 * (process_time() - started)
            for count in COUNTS:
                if count in found.estimates:
                    one = found.estimates[count]
                    true, value, low, high = map(_rounded, (exact[count], one.value, one.low, one.high))
                    rows.append(Row(gpu, kernel, way, work, count, true, value, low, high, round(time, 1)))
    return rows


def _rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


def _counts(found: Prediction) -> dict[str, float]:
    assert found.l2 is not None
    return {
        "transactions": found.transactions,
        "misses": found.misses.total,
        "steps": found.steps,
        "l2_misses": found.l2.misses,
        "l2_miss_rate": found.l2.miss_rate if found.l2.reads else 0.0,
        "l2_bytes": found.l2.bytes,
        "dram_read_sectors": found.l2.dram_read_sectors,
        "dram_bytes": found.l2.dram_bytes,
    }


def differences(now: list[Row], recorded: list[Row]) -> list[str]:
    """Return a line for every row that differs from the recorded one in more than time; runs are deterministic."""
    names = [field.name for field in fields(Row) if field.name != "time"]

    def plain(row: Row) -> tuple[object, ...]:
        return tuple(getattr(row, name) for name in names)

    before = {plain(row) for row in recorded}
    return [f"{row.kernel} on {row.gpu}: not as recorded: {row}" for row in now if plain(row) not in before]
