"""Define `KernelReport`: the results of all runs of one kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.comparison.values import Comparison
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import Occupancy
from rdmodel.locality_analysis.values import Locality
from rdmodel.model.options import Definition
from rdmodel.results.describe import describe_l1
from rdmodel.results.origin_kinds import ORIGINS
from rdmodel.results.origins import Origins
from rdmodel.results.prediction import Prediction
from rdmodel.reuse.histogram import Histogram, MissRatioCurve, by_powers
from rdmodel.timing.values import TimeEstimate
from rdmodel.trace.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelReport:
    """The results of all runs of one kernel.

    `source` is the name or the file of the kernel. `predictions` holds one prediction per definition, in the order
    of the call, and `what_ifs` predictions of the first definition for changed GPUs by name. The `histogram` of
    `reuse` holds the reuse distances of warps that take turns, which do not depend on a cache. `origins` has the
    counters of the first definition by source line, array and instruction. `comparison` and
    `locality` describe one simulation; they are None without it. `occupancy` is that of the GPU of the report.
    `timed` estimates the time of the launch; it is None if the rates of the GPU are unknown, or if the trace lacks
    blocks. `commands` holds the command lines that reproduce each part of the report, by the name of its field.
    """

    source: str
    summary: Summary
    predictions: Mapping[Definition, Prediction]
    reuse: Prediction = field(repr=False)
    what_ifs: Mapping[str, Prediction] = field(default_factory=dict, repr=False)
    comparison: Comparison | None = field(default=None, repr=False)
    locality: Locality | None = field(default=None, repr=False)
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    occupancy: Occupancy | None = None
    origins: Origins | None = field(default=None, repr=False)
    timed: TimeEstimate | None = field(default=None, repr=False)

    @property
    def kernel(self) -> str:
        """Name of the kernel."""
        return self.summary.kernel

    @property
    def prediction(self) -> Prediction:
        """Prediction of the first definition."""
        return next(iter(self.predictions.values()))

    @property
    def has_loads(self) -> bool:
        """Whether the modelled blocks have loads; without any, there are no rates and no reuse."""
        return bool(self.prediction.transactions)

    def launched_on(self, gpu: GPU) -> GPU:
        """Return `gpu` with the L1 that the launch leaves beside its shared memory."""
        carveout = describe_l1(self.prediction.config["gpu"])["carveout"]
        return gpu if carveout is None else gpu.replace(l1=gpu.l1.with_carveout(carveout))

    @property
    def histogram(self) -> Histogram:
        """Reuse distances of warps that take turns."""
        assert self.reuse.histogram is not None
        return self.reuse.histogram

    def curve(self, *sizes: int) -> MissRatioCurve:
        """Return the miss ratios of fully associative LRU caches: powers of two, and further `sizes` in lines."""
        powers = self.histogram.miss_ratio_curve().sizes.tolist()
        return self.histogram.miss_ratio_curve(sorted({*powers, *sizes}))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings and dicts, ready for JSON."""
        histogram = self.histogram
        return {
            "kernel": self.kernel,
            "source": self.source,
            "summary": self.summary.to_dict(),
            "predictions": {name: run.to_dict() for name, run in self.predictions.items()},
            "reuse": {
                "transactions": histogram.total,
                "first_touches": histogram.infinite,
                "distances": [{"least": low, "most": high, "count": n} for low, high, n in by_powers(histogram)],
                "curve": self.curve().to_dict() if self.histogram.total else None,
                "config": dict(self.reuse.config),
            },
            "what_ifs": {name: run.to_dict() for name, run in self.what_ifs.items()},
            "by": None if self.origins is None else {kind: self.origins.by(kind).to_dict() for kind in ORIGINS},
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "locality": None if self.locality is None else self.locality.to_dict(),
            "time": None if self.timed is None else self.timed.to_dict(),
            "occupancy": None if self.occupancy is None else self.occupancy.to_dict(),
            "commands": {name: list(lines) for name, lines in self.commands.items()},
        }
