"""`compare_measured`: measured hit rates next to those of the model and of the simulator, by line and by sector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, get_args

from rdmodel.common.kernel_names import base_name
from rdmodel.comparison.compare import compare
from rdmodel.comparison.nsight import COMMAND, SECTORS, Measurement, Rate, together
from rdmodel.comparison.values import Comparison, Unit
from rdmodel.errors import ConfigError, TraceError
from rdmodel.gpu.config import GPU
from rdmodel.results.describe import frame
from rdmodel.trace import Launch, Trace

if TYPE_CHECKING:
    import pandas as pd

UNITS: tuple[Unit, ...] = get_args(Unit)
SHOWN = 6
"""Kernels of a report that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredComparison:
    """One kernel: its measured hit rates, and what the simulator and the model say; rates 0 to 1, errors in points.

    Profilers count sectors of 32 bytes: what was measured is to be held against the rates by sector. Those by line are
    what this package counts everywhere else.
    """

    comparison: Comparison
    measurement: Measurement

    @property
    def kernel(self) -> str:
        """The kernel's name in the trace."""
        return self.comparison.kernel

    @property
    def l1(self) -> Rate:
        """The measured hit rate of the L1: that of the loads, or of all operations where loads are not told apart."""
        return measured_l1(self.measurement)

    @property
    def loads_only(self) -> bool:
        """Tell whether the measured rate of the L1 is one of loads alone, as the predicted ones are."""
        return self.measurement.l1_loads is not None

    def rates(self, unit: Unit = "sector") -> dict[str, float]:
        """Return the hit rates of the L1: "simulated", and each definition of the model."""
        return self.comparison.hit_rates(unit)

    def errors(self, unit: Unit = "sector") -> dict[str, float]:
        """Return predicted minus measured hit rates, in points."""
        return {name: 100 * (rate - self.l1.hit_rate) for name, rate in self.rates(unit).items()}

    @property
    def l2(self) -> dict[str, float] | None:
        """The "measured" and the "simulated" hit rate of the L2; None unless both are known."""
        measured, simulated = self.measurement.l2, self.comparison.simulation.l2
        if measured is None or simulated is None or not simulated.reads:
            return None
        return {"measured": measured.hit_rate, "simulated": 1 - simulated.miss_rate}

    @property
    def sectors_of_a_launch(self) -> float | None:
        """Measured sectors of the loads, per launch: as many as the trace has, if it is of the same run."""
        rate = self.measurement.l1_loads
        if rate is None or rate.sectors is None:
            return None
        return rate.sectors / len(self.measurement.launches)

    def __str__(self) -> str:
        """Return the comparison in one line."""
        errors = self.errors()
        rates = ", ".join(f"{name} {100 * rate:.2f} ({errors[name]:+.2f})" for name, rate in self.rates().items())
        return f"{self.kernel} on {self.comparison.simulation.gpu}: hit rate {100 * self.l1.hit_rate:.2f} %, {rates}"

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain numbers, strings and dicts, ready for JSON."""
        return {
            "kernel": self.kernel,
            "measured": self.measurement.to_dict(),
            "hit_rates": {unit: self.rates(unit) for unit in UNITS},
            "errors": {unit: self.errors(unit) for unit in UNITS},
            "l2": self.l2,
            "sectors": {"measured": self.sectors_of_a_launch, "simulated": self._sectors},
            "comparison": self.comparison.to_dict(),
        }

    def to_row(self) -> dict[str, Any]:
        """Return the comparison as one flat row, rates in percent and errors in points: for CSV and data frames."""
        row: dict[str, Any] = {
            "kernel": self.kernel,
            "measured_kernel": self.measurement.kernel,
            "launches": len(self.measurement.launches),
            "gpu": self.comparison.simulation.gpu,
            "measured": 100 * self.l1.hit_rate,
            "measured_loads_only": self.loads_only,
            "measured_sectors": self.sectors_of_a_launch,
            "simulated_sectors": self._sectors,
        }
        for unit in UNITS:
            errors = self.errors(unit)
            for name, rate in self.rates(unit).items():
                row |= {f"{name}_by_{unit}": 100 * rate, f"{name}_by_{unit}_error": errors[name]}
        return row | {f"l2_{name}": 100 * rate for name, rate in (self.l2 or {}).items()}

    def to_frame(self) -> pd.DataFrame:
        """Return the comparison as a data frame of one row; needs pandas (extra ``frame``)."""
        return frame([self.to_row()])

    @property
    def _sectors(self) -> int:
        assert self.comparison.sectors is not None
        return self.comparison.sectors.sectors


def compare_measured(
    trace: Trace, measurement: Measurement, gpu: str | GPU = "gtx470-16k", **options: Any
) -> MeasuredComparison:
    """Run the model and the simulator on a trace, and hold their hit rates against measured ones.

    `measurement` comes from `rdmodel.read_ncu` (and `rdmodel.comparison.measured.pick`); `options` are those of
    `compare`. Raises `TraceError` for a measurement without a hit rate of the L1, with the command that collects it,
    and what `compare` raises.
    """
    measured_l1(measurement)
    return MeasuredComparison(comparison=compare(trace, gpu, **{**options, "sectors": True}), measurement=measurement)


def measured_l1(measurement: Measurement) -> Rate:
    """Return the measured hit rate of the L1, that of loads if it is there; raise `TraceError` if there is none."""
    rate = measurement.l1_loads or measurement.l1
    if rate is None:
        needed = f"{SECTORS}ld.sum, {SECTORS}ld_lookup_hit.sum"
        raise TraceError(f"{measurement.kernel}: the report lacks {needed} (or has 0); collect them with: {COMMAND}")
    return rate


def pick(
    report: Sequence[Measurement],
    launch: Launch,
    *,
    pattern: str | None = None,
    ids: Sequence[str] = (),
    alone: bool = False,
) -> Measurement:
    """Return what a report holds of a launch, several launches of its kernel together.

    They are those whose kernel matches `pattern` (as in a shell: ``*gemm*``), by its name alone or by all that the
    report says; without a pattern, those of the launch's name. `alone` allows for the only kernel of the report
    whatever its name. Of these are taken the launches with the given `ids`, else those that have as many blocks and
    threads as `launch`, where the report says it. Raises `ConfigError` if none is left, or several kernels are.
    """
    named = [one for one in report if _is_named(one, launch, pattern)]
    if not named and pattern is None and alone and len({one.kernel for one in report}) == 1:
        named = list(report)
    wanted = f"ncu_kernel={pattern!r}" if pattern is not None else launch.kernel
    if not named:
        raise ConfigError(f"{wanted}: the report holds {_names(report)}; a pattern (--ncu-kernel) picks one")
    if len({one.kernel for one in named}) > 1:
        raise ConfigError(f"{wanted}: matches {_names(named)}; a pattern (--ncu-kernel) picks one")
    chosen = [one for one in named if one.launches[0] in ids] if ids else [one for one in named if _fits(one, launch)]
    if not chosen and ids:
        raise ConfigError(f"ncu_launch={','.join(ids)}: the report has {named[0].name} with other IDs: {_ids(named)}")
    if not chosen:
        raise ConfigError(
            f"{launch.kernel}: the trace has grid {launch.grid} and block {launch.block}, the report grid "
            f"{named[0].grid} and block {named[0].block}; an ID (--ncu-launch) takes a launch as it is"
        )
    return together(chosen)


def _is_named(one: Measurement, launch: Launch, pattern: str | None) -> bool:
    if pattern is not None:
        return fnmatchcase(one.name, pattern) or fnmatchcase(one.kernel, pattern)
    return launch.kernel in (one.kernel, one.name) or base_name(launch.kernel) == one.name


def _fits(one: Measurement, launch: Launch) -> bool:
    # Some trace formats keep the numbers of blocks and threads and not their shape.
    blocks = one.grid is None or one.grid[0] * one.grid[1] * one.grid[2] == launch.blocks
    return blocks and (one.block is None or one.block[0] * one.block[1] * one.block[2] == launch.block_threads)


def _names(measurements: Sequence[Measurement]) -> str:
    names = list(dict.fromkeys(one.kernel for one in measurements))
    return "; ".join(names[:SHOWN]) + ("; ..." if len(names) > SHOWN else "")


def _ids(measurements: Sequence[Measurement]) -> str:
    ids = [launch for one in measurements for launch in one.launches]
    return ", ".join(ids[:SHOWN]) + (", ..." if len(ids) > SHOWN else "")
