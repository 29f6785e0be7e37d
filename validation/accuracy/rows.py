"""Read the numbers of all records that compare predictions with counters of GPUs, in one form."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rdmodel import presets
from validation.common import records
from validation.counters import report as counters_report
from validation.counters.cases import CASES
from validation.counters.cases import GPU as COUNTED_GPU
from validation.counters.study import by_words, source_of
from validation.h100 import study as h100_study
from validation.h100.cases import GPU as H100
from validation.hardware import other_gpus, study
from validation.hardware.rows import FOLDER as HARDWARE
from validation.modern import report as modern_report
from validation.modern.cases import FOLDER as MODERN
from validation.modern.study import Score

L1_MISS_RATE = "L1 miss rate"
"""The metric whose error is expected of new kernels; measured and predicted in percent."""

LOAD_HIT_RATE = "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct"
"""Name in Nsight Compute of 100 % less the miss rate of the L1."""

HIT_RATES = {
    LOAD_HIT_RATE: L1_MISS_RATE,
    "l1tex__t_sector_hit_rate.pct": "L1 hit rate with stores",
    "lts__t_sector_hit_rate.pct": "L2 hit rate",
}
"""Metrics of rates by their names in Nsight Compute."""

COUNTERS = {
    "l1tex__t_requests_": "L1 requests",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st_lookup_miss": "L1 stores missed",
    "l1tex__t_sectors_": "L1 sectors",
    "lts__t_sectors_srcunit_tex_op_read": "L2 reads",
    "lts__t_sectors_srcunit_tex_op_write": "L2 writes",
    "dram__sectors_read": "DRAM reads",
    "dram__sectors_write": "DRAM writes",
}
"""Metrics of counters by the beginnings of their names in Nsight Compute; the first that fits is taken."""

L2_CURVE = "runs"
"""The curve of `validation.modern` whose miss ratio is that of the L2; the others are those of the L1."""

METRICS = (
    *(L1_MISS_RATE, "L1 hit rate with stores", "L1 requests", "L1 sectors"),
    *("L1 loads hit", "L1 loads missed", "L1 stores hit", "L1 stores missed"),
    *("L2 miss rate", "L2 hit rate", "L2 reads", "L2 writes", "DRAM reads", "DRAM writes"),
)
"""All metrics, in the order of the table."""

REPOSITORIES = {"mushihao/cuda": "nv_study"}
"""Suites of `validation.modern` by their repositories, where the name of the repository does not tell."""

SUITES = {
    "rodinia": "Rodinia 3.1",
    "parboil": "Parboil",
    "cuda-samples": "CUDA samples",
    "cutlass": "CUTLASS 1.3",
}
"""Suites of `validation.counters` by the folders of their sources."""

OWN_SUITE = "tracegen.cuda"
"""Suite of the kernels that are part of this project."""

FITTED: dict[tuple[str, str, tuple[str, ...] | None], str] = {
    (study.GPU, L1_MISS_RATE, None): "latency",
    (other_gpus.GPU, L1_MISS_RATE, ("matMul_gpu_sharedmem_uncoalesced",)): "l1.tags_per_step",
    ("rtx2080ti", "DRAM writes", ("potential",)): "l2.dirty_ways",
    (COUNTED_GPU, "DRAM writes", ("fastWalshTransform", "mergeSort", "quasirandomGenerator", "sgemm", "srad",
                                  "cudaTensorCoreGemm")): "l2.dirty_ways",
    **{(gpu, L1_MISS_RATE, ("chase",)): "l1.tag_sets" for gpu in ("v100", "a100-80g", "a40", "l40")},
}  # fmt: skip
"""Parameters of presets that were chosen on rows, by GPU, metric and kernels (None: all)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured number and its prediction: rates in percent, counters in sectors or requests.

    `gpu` is the preset, `device` the measured GPU; a kernel may have several rows. `fitted` names the parameter that
    was chosen on the row, "" if none was.
    """

    gpu: str
    device: str
    suite: str
    kernel: str
    metric: str
    definition: str
    measured: float
    predicted: float

    @property
    def is_rate(self) -> bool:
        """Whether the error is in points; else it is in percent of the measured number."""
        return "rate" in self.metric

    @property
    def error(self) -> float | None:
        """Absolute error, in points or percent; None for a measured counter of 0."""
        difference = abs(self.predicted - self.measured)
        return difference if self.is_rate else 100 * difference / self.measured if self.measured else None

    @property
    def architecture(self) -> str:
        """Architecture of the GPU."""
        return presets.gpu(self.gpu).architecture

    @property
    def fitted(self) -> str:
        """The parameter that was chosen on the row, "" if none was."""
        for (gpu, metric, kernels), parameter in FITTED.items():
            chosen_on = (self.gpu, self.metric) == (gpu, metric) and (kernels is None or self.kernel in kernels)
            # The latencies of `paper` were not fitted.
            if chosen_on and not (parameter == "latency" and self.definition == "paper"):
                return parameter
        return ""


def read_rows() -> list[Row]:
    """Return the rows of all records, from the oldest architecture to the newest, and from the L1 to the DRAM."""

    def place(row: Row) -> tuple[int, str, str, int]:
        return presets.ARCHITECTURES.index(row.architecture), row.device, row.suite, METRICS.index(row.metric)

    return sorted([*_gtx570_rows(), *_k40c_rows(), *_modern_rows(), *_counter_rows(), *_h100_rows()], key=place)


def _gtx570_rows() -> Iterator[Row]:
    for row in _lines(HARDWARE / "predicted.csv"):
        if row["sms"] == "1":
            yield Row(
                gpu=study.GPU,
                device="GeForce GTX 570",
                suite="PolyBench/GPU",
                kernel=row["kernel"],
                metric=L1_MISS_RATE,
                definition=row["definition"],
                measured=float(row["measured"]),
                predicted=float(row["predicted"]),
            )


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _k40c_rows() -> Iterator[Row]:
    for row in _lines(other_gpus.RECORD):
        for definition in study.DEFINITIONS:
            yield Row(
                gpu=other_gpus.GPU,
                device="Tesla K40c",
                suite="gpuperfpredict",
                kernel=row["kernel"],
                metric=L1_MISS_RATE,
                definition=definition,
                measured=float(row["measured"]),
                predicted=float(row[definition]),
            )


def _modern_rows() -> Iterator[Row]:
    """Return the rows of all GPUs but the GV100, whose kernels are those of `validation.counters`."""
    sources: dict[tuple[str, str], tuple[str, str]] = {}
    for name in ("curves.csv", "counters.csv"):
        for line in _lines(MODERN / name):
            repository = line["source"].partition("@")[0].split()[0]
            suite = REPOSITORIES.get(repository) or repository.partition("/")[2]
            sources[line.get("curve") or line["case"], line["gpu"]] = line["device"], suite
    for score in records.from_csv(Score, modern_report.PREDICTED.read_text()):
        if score.gpu == COUNTED_GPU:
            continue
        kernel = score.name.partition(" ")[0]
        device, suite = sources.get((score.name, score.gpu)) or sources[kernel, score.gpu]
        yield Row(
            gpu=score.gpu,
            device=device.replace(", GP102", ""),
            suite=suite,
            kernel=kernel,
            metric=_metric_of(score),
            definition="hardware",
            measured=100 - score.measured if score.metric == LOAD_HIT_RATE else score.measured,
            predicted=100 - score.predicted if score.metric == LOAD_HIT_RATE else score.predicted,
        )


def _metric_of(score: Score) -> str:
    if score.metric == "miss ratio":
        return "L2 miss rate" if score.name.startswith(L2_CURVE) else L1_MISS_RATE
    return HIT_RATES.get(score.metric) or next(
        words for start, words in COUNTERS.items() if score.metric.startswith(start)
    )


Found = dict[str, dict[str, tuple[float, float]]]
"""Measured and predicted counters, by case and by the words of `validation.counters`."""


def _counter_rows() -> Iterator[Row]:
    """Return the counters that `predict` has, and the miss rates that follow from those of loads."""
    by_case: Found = defaultdict(dict)
    for row in counters_report.read_rows():
        if row.engine == "predict":
            by_case[row.case][row.counter] = row.measured, row.predicted
    yield from _with_rates(by_case, COUNTED_GPU, "Quadro GV100")


def _h100_rows() -> Iterator[Row]:
    """Return the counters of the GPU that this project measured."""
    by_case: Found = defaultdict(dict)
    measured = {case: by_words(metrics) for case, metrics in h100_study.read_measured().items()}
    for row in h100_study.read_predicted():
        by_case[row.case][row.counter] = measured[row.case][row.counter], row.value
    yield from _with_rates(by_case, H100, "H100 SXM")


def _with_rates(by_case: Found, gpu: str, device: str) -> Iterator[Row]:
    for case, found in by_case.items():
        suite = SUITES[source_of(CASES[case]).partition("/")[0]] if case in CASES else OWN_SUITE
        missed, hit = found["L1 loads missed"], found["L1 loads hit"]
        if all(missed):
            measured, predicted = (100 * m / (m + h) for m, h in zip(missed, hit, strict=True))
            found[L1_MISS_RATE] = measured, predicted
        for metric, (measured, predicted) in found.items():
            yield Row(
                gpu=gpu,
                device=device,
                suite=suite,
                kernel=case,
                metric=metric,
                definition="hardware",
                measured=measured,
                predicted=predicted,
            )
