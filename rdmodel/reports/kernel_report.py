"""What a report holds, as frozen values: everything that was run of each kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rdmodel.comparison.values import Comparison
from rdmodel.locality_analysis.values import Locality
from rdmodel.model.options import Definition
from rdmodel.results.prediction import Prediction
from rdmodel.reuse.histogram import Histogram, MissRatioCurve, by_powers
from rdmodel.trace.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelReport:
    """One kernel.

    `source` is what it was called by whoever asked, a name or a file. `predictions` are by definition, the first asked
    for first; `what_ifs` are predictions of that one for changed machines, by what was changed. `reuse` is the run
    whose `histogram` has the reuse distances of warps that take turns, whatever the cache. `comparison` and `locality`
    are of one simulation, None without. `commands` has for the parts of the report, by their names here, the command
    lines that give the same numbers.
    """

    source: str
    summary: Summary
    predictions: Mapping[Definition, Prediction]
    reuse: Prediction = field(repr=False)
    what_ifs: Mapping[str, Prediction] = field(default_factory=dict, repr=False)
    comparison: Comparison | None = field(default=None, repr=False)
    locality: Locality | None = field(default=None, repr=False)
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.summary.kernel

    @property
    def prediction(self) -> Prediction:
        """The prediction of the definition that was asked for first."""
        return next(iter(self.predictions.values()))

    @property
    def histogram(self) -> Histogram:
        """The reuse distances of warps that take turns."""
        assert self.reuse.histogram is not None
        return self.reuse.histogram

    def curve(self, *sizes: int) -> MissRatioCurve:
        """Return the miss ratios of fully associative LRU caches: of powers of two, and of further `sizes` in lines."""
        usual = self.histogram.miss_ratio_curve().sizes.tolist()
        return self.histogram.miss_ratio_curve(sorted({*usual, *sizes}))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings and dicts, ready for JSON."""
        found = self.histogram
        return {
            "kernel": self.kernel,
            "source": self.source,
            "summary": self.summary.to_dict(),
            "predictions": {name: one.to_dict() for name, one in self.predictions.items()},
            "reuse": {
                "transactions": found.total,
                "first_touches": found.infinite,
                "distances": [{"least": low, "most": high, "count": n} for low, high, n in by_powers(found)],
                "curve": self.curve().to_dict(),
                "config": dict(self.reuse.config),
            },
            "what_ifs": {name: one.to_dict() for name, one in self.what_ifs.items()},
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "locality": None if self.locality is None else self.locality.to_dict(),
            "commands": {name: list(lines) for name, lines in self.commands.items()},
        }
