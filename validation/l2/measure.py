"""Run the model and the simulator with their L2s, and read the hit rates that a GPU counted."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tracegen
from rdmodel import presets
from rdmodel.comparison.compare import compare, latency_for
from rdmodel.gpu.config import GPU, LatencyConfig
from rdmodel.model.predict import predict
from rdmodel.results.prediction import L2Prediction, Prediction
from rdmodel.trace import Trace
from tracegen.kernel_library.suites import SUITES
from validation.hardware.launches import launches
from validation.hardware.rows import read_rows
from validation.simulator.causes import fit_half_normal

FOLDER = Path(__file__).parent
GPUS = ("gtx470-16k", "gtx480-khairy")
MEASURED_GPU = "gtx570-16k"
SUITE: Mapping[str, Mapping[str, Any]] = SUITES["polybench"]
QUICK = ("2dconv", "3dconv", "atax.2", "corr.reduce", "fdtd2d.2")
"""Kernels that the tests run again."""

SM_COUNTS = (1, 2, 4, 7)
"""Numbers of SMs that are modelled in place of all."""

DIGITS = 4
"""Decimal places of recorded rates and factors."""


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel on all SMs of one GPU: lines read and written in the simulation and in the model.

    Fields with `latency_` are those of the model with latencies like those that the kernel meets in the simulation,
    in place of the GPU's.
    """

    gpu: str
    kernel: str
    simulated_reads: int
    simulated_misses: int
    simulated_writes: int
    simulated_dram: int
    reads: int
    misses: int
    writes: int
    dram: int
    latency_reads: int
    latency_misses: int
    latency_dram: int

    @property
    def simulated_hits(self) -> float:
        """The simulated hit rate of reads, pending hits included, in percent; 0 without reads."""
        return hit_rate(self.simulated_reads, self.simulated_misses)

    @property
    def hits(self) -> float:
        """The predicted hit rate of reads in percent."""
        return hit_rate(self.reads, self.misses)

    @property
    def error(self) -> float:
        """Signed error of the predicted hit rate in percentage points."""
        return self.hits - self.simulated_hits

    @property
    def error_of_misses(self) -> float:
        """The error with as many reads as in the simulation: the error that comes from the misses of the L2 alone."""
        return hit_rate(self.simulated_reads, self.misses) - self.simulated_hits

    @property
    def error_with_latency(self) -> float:
        """The error with the latencies that the kernel meets in the simulation."""
        return hit_rate(self.latency_reads, self.latency_misses) - self.simulated_hits


@dataclass(frozen=True, slots=True)
class Few:
    """A few SMs in place of all: hit rates in percent, and DRAM traffic per block relative to that with all SMs.

    `whole`: these SMs have the L2 to themselves, as `predict` defines it; `share`: the sets of the L2 are reduced in
    proportion to the SMs.
    """

    kernel: str
    sms: int
    hits: float
    whole_hits: float
    share_hits: float
    whole_dram: float
    share_dram: float


@dataclass(frozen=True, slots=True)
class OneSet:
    """Hit rates of reads in percent, simulated and predicted, with an L2 of one set: no index function matters."""

    gpu: str
    kernel: str
    simulated_hits: float
    hits: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The hit rate of reads from L1s in percent: the mean of the measured runs, and the prediction with all SMs.

    `one_set` is the prediction with an L2 that is a single set.
    """

    kernel: str
    runs: int
    measured: float
    predicted: float
    one_set: float


def hit_rate(reads: float, misses: float) -> float:
    """Return the hit rate in percent; 0 without reads."""
    return 100 * (1 - misses / reads) if reads else 0.0


def compare_l2s(task: tuple[str, str]) -> Row:
    """Run the simulator, and the model with two latencies, for (GPU, kernel)."""
    gpu, kernel = presets.gpu(task[0]), task[1]
    trace = tracegen.kernel(kernel, **SUITE[kernel])
    found = compare(trace, gpu, definitions=["hardware"], l2=True)
    simulated, dram = found.simulation.l2, found.simulation.dram
    assert simulated is not None and dram is not None
    lat_min, sigma = fit_half_normal(found.simulation.miss_latencies)
    met = LatencyConfig(lat_min=lat_min, sigma=sigma, hit_latency=gpu.core.hit_latency)
    own = compare(trace, gpu, definitions=["hardware"], l2=True, latency=met)
    usual, fitted = _l2(found.prediction("hardware")), _l2(own.prediction("hardware"))
    return Row(
        gpu=task[0],
        kernel=kernel,
        simulated_reads=simulated.reads,
        simulated_misses=simulated.misses,
        simulated_writes=simulated.writes,
        simulated_dram=dram.bytes,
        reads=int(usual.reads),
        misses=int(usual.misses),
        writes=int(usual.writes),
        dram=int(usual.dram_bytes),
        latency_reads=int(fitted.reads),
        latency_misses=int(fitted.misses),
        latency_dram=int(fitted.dram_bytes),
    )


def with_one_set(gpu: GPU) -> GPU:
    """Return the GPU with an L2 of as many lines in a single set, and with unchanged latencies."""
    lines = gpu.l2.slices * gpu.l2.size // gpu.l1.line
    l2 = dataclasses.replace(gpu.l2, slices=1, size=lines * gpu.l1.line, ways=lines)
    return gpu.replace(l2=l2, calibrated=gpu.calibrated)


def compare_one_set(task: tuple[str, str]) -> OneSet:
    """Run the simulator and the model, both with an L2 of one set, for (GPU, kernel)."""
    trace = tracegen.kernel(task[1], **SUITE[task[1]])
    found = compare(trace, with_one_set(presets.gpu(task[0])), definitions=["hardware"], l2=True)
    simulated = found.simulation.l2
    assert simulated is not None
    return OneSet(
        *task, round(hit_rate(simulated.reads, simulated.misses), DIGITS), _hits(found.prediction("hardware"))
    )


def _l2(prediction: Prediction) -> L2Prediction:
    assert prediction.l2 is not None
    return prediction.l2


def compare_few_sms(kernel: str) -> list[Few]:
    """Model a few SMs of the first GPU, with the whole L2 and with their share of it, if more SMs have blocks."""
    gpu = presets.gpu(GPUS[0])
    trace = tracegen.kernel(kernel, **SUITE[kernel])
    busy = min(gpu.sms, trace.launch.blocks)
    everything = _modelled(trace, gpu, "all")
    rows = []
    for sms in SM_COUNTS:
        if sms < busy:
            whole, share = _modelled(trace, gpu, sms), _modelled(trace, _with_share(gpu, sms / busy), sms)
            rows.append(
                Few(
                    kernel=kernel,
                    sms=sms,
                    hits=_hits(everything),
                    whole_hits=_hits(whole),
                    share_hits=_hits(share),
                    whole_dram=round(_dram_per_block(whole) / _dram_per_block(everything), DIGITS),
                    share_dram=round(_dram_per_block(share) / _dram_per_block(everything), DIGITS),
                )
            )
    return rows


def _modelled(trace: Trace, gpu: GPU, sms: int | str) -> Prediction:
    latency = latency_for(gpu)
    options: dict[str, Any] = {"lat_min": latency.lat_min, "sigma": latency.sigma, "hit_latency": latency.hit_latency}
    return predict(trace, gpu, model_sms=sms, threads=None, histogram=False, l2=True, **options)


def _with_share(gpu: GPU, share: float) -> GPU:
    sets = max(1, round(gpu.l2.sets(gpu.l1.line) * share))
    l2 = dataclasses.replace(gpu.l2, size=sets * gpu.l2.ways * gpu.l1.line)
    return gpu.replace(l2=l2, calibrated=gpu.calibrated)  # the latencies are those of the whole machine


def _hits(prediction: Prediction) -> float:
    return round(hit_rate(_l2(prediction).reads, _l2(prediction).misses), DIGITS)


def _dram_per_block(prediction: Prediction) -> float:
    return _l2(prediction).dram_bytes / sum(sm.blocks for sm in prediction.per_sm)


def predict_measured(kernel: str) -> Measured:
    """Predict a measured kernel: the launches of the L1 validation, each with an empty L2."""
    runs = hit_rates()[kernel]
    row = next(row for row in read_rows() if row.kernel == kernel)
    gpu = presets.gpu(MEASURED_GPU)
    predicted, alone = (
        [
            _l2(predict(trace, machine, model_sms="all", threads=None, histogram=False, l2=True))
            for trace in launches(row)
        ]
        for machine in (gpu, with_one_set(gpu))
    )
    mean = round(sum(runs) / len(runs), DIGITS)
    return Measured(kernel, len(runs), mean, _hits_of_all(predicted), _hits_of_all(alone))


def _hits_of_all(launches: Sequence[L2Prediction]) -> float:
    return round(hit_rate(sum(one.reads for one in launches), sum(one.misses for one in launches)), DIGITS)


def hit_rates() -> dict[str, list[float]]:
    """Return the measured hit rates in percent of ``gtx570.csv`` by kernel: one or two runs of each."""
    with (FOLDER / "gtx570.csv").open(newline="") as file:
        return {
            line["kernel"]: [float(line[run]) for run in ("hit_rate_run1", "hit_rate_run2") if line[run]]
            for line in csv.DictReader(file)
        }
