"""Compare hit rates measured by Nsight Compute with those of the model and the simulator, by line and by sector."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, get_args

from rdmodel.common.kernel_names import base_name
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.presentation import Presented
from rdmodel.comparison.compare import compare
from rdmodel.comparison.nsight import NCU_COMMAND, Measurement, Rate, merge_launches
from rdmodel.comparison.values import Comparison, Unit
from rdmodel.errors import ConfigError, TraceError
from rdmodel.gpu.config import GPU
from rdmodel.results.metrics import SECTOR_METRIC
from rdmodel.trace import Launch, Trace

HIT_RATE_UNITS: tuple[Unit, ...] = get_args(Unit)
"""Units in which hit rates are counted."""
MAX_NAMED_KERNELS = 6
"""Kernels, or launches, of a report that an error message names."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MeasuredComparison(Presented):
    """Measured hit rates of one kernel, and those of the simulator and the model; rates 0 to 1, errors in points.

    Nsight Compute counts sectors of 32 bytes, so that measured rates compare with the rates by sector. Rates by line
    are what rdmodel counts everywhere else.
    """

    comparison: Comparison
    measurement: Measurement

    @property
    def kernel(self) -> str:
        """Name of the kernel in the trace."""
        return self.comparison.kernel

    @property
    def l1(self) -> Rate:
        """Measured hit rate of the L1: that of loads, or of all operations if loads were not counted separately."""
        return measured_l1(self.measurement)

    @property
    def loads_only(self) -> bool:
        """Whether the measured rate of the L1 is that of loads alone, as the predicted ones are."""
        return self.measurement.l1_loads is not None

    def rates(self, unit: Unit = "sector") -> dict[str, float]:
        """Return the hit rates of the L1: that of the simulator ("simulated"), and that of each definition."""
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
        """Measured sectors of the loads per launch; equal to those of the trace if it is of the same run."""
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
            "hit_rates": {unit: self.rates(unit) for unit in HIT_RATE_UNITS},
            "errors": {unit: self.errors(unit) for unit in HIT_RATE_UNITS},
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
        for unit in HIT_RATE_UNITS:
            errors = self.errors(unit)
            for name, rate in self.rates(unit).items():
                row |= {f"{name}_by_{unit}": 100 * rate, f"{name}_by_{unit}_error": errors[name]}
        return row | {f"l2_{name}": 100 * rate for name, rate in (self.l2 or {}).items()}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return `to_row` as the only row."""
        return [self.to_row()]

    @property
    def _sectors(self) -> int:
        assert self.comparison.sectors is not None
        return self.comparison.sectors.sectors


def compare_measured(
    trace: Trace, measurement: Measurement, gpu: str | GPU | None = None, **options: Any
) -> MeasuredComparison:
    """Run the model and the simulator on a trace, and compare their hit rates with those that Nsight Compute measured.

    Parameters
    ----------
    trace : Trace
        The kernel launch.
    measurement : Measurement
        Hit rates from a report of Nsight Compute: one of `rdmodel.read_ncu`, or several launches selected and merged by
        `rdmodel.comparison.measured.select_measurement`.
    gpu : str or GPU, optional
        Name of a preset, path of a ``.toml`` file, or a `GPU`; by default that of `compare`.
    **options
        Options of `compare`; `sectors` is always on.

    Returns
    -------
    MeasuredComparison
        Measured, simulated and predicted hit rates.

    Raises
    ------
    TraceError
        If the measurement has no hit rate of the L1 (the message has the command that collects it), or if the kernel
        has no loads.
    ConfigError, LaunchError, TraceError
        As `compare`.
    """
    measured_l1(measurement)
    comparison = compare(trace, gpu, **{**options, "sectors": True})
    if not comparison.has_loads:
        raise TraceError(
            f"{trace.launch.kernel}: holds no loads, whose hit rate could be compared with the measured one"
        )
    return MeasuredComparison(comparison=comparison, measurement=measurement)


def measured_l1(measurement: Measurement) -> Rate:
    """Return the measured hit rate of the L1, that of loads if there is one; raise `TraceError` if there is none."""
    rate = measurement.l1_loads or measurement.l1
    if rate is None:
        needed = f"{SECTOR_METRIC}ld.sum, {SECTOR_METRIC}ld_lookup_hit.sum"
        raise TraceError(
            f"{measurement.kernel}: the Nsight Compute report lacks {needed} (or has 0); "
            f"collect them with: {NCU_COMMAND}"
        )
    return rate


def select_measurement(
    report: Sequence[Measurement],
    launch: Launch,
    *,
    pattern: str | None = None,
    ids: Sequence[str] = (),
    alone: bool = False,
) -> Measurement:
    """Select the launches of a report of Nsight Compute that belong to `launch`, and merge them.

    Parameters
    ----------
    report : sequence of Measurement
        The launches in the report, from `rdmodel.read_ncu`.
    launch : Launch
        The launch of the trace.
    pattern : str, optional
        Shell pattern (``*gemm*``) for the kernel's name, alone or as in the report. By default the kernel must have the
        name of `launch`.
    ids : sequence of str
        IDs of the launches to select. By default they must have as many blocks and threads as `launch`, where the
        report says how many they have.
    alone : bool
        Whether the only kernel of a report is selected whatever its name.

    Returns
    -------
    Measurement
        The selected launches, merged.

    Raises
    ------
    ConfigError
        If no launch is left, or launches of several kernels are.
    """
    matching = [measurement for measurement in report if _is_named(measurement, launch, pattern)]
    if not matching and pattern is None and alone and len({measurement.kernel for measurement in report}) == 1:
        matching = list(report)
    subject = f"ncu_kernel={pattern!r}" if pattern is not None else launch.kernel
    names = _kernel_names(matching or report)
    advice = "choose one kernel with --ncu-kernel PATTERN"
    if not matching:
        raise ConfigError(f"{subject}: is not in the Nsight Compute report, which holds {names}; {advice}")
    if len({measurement.kernel for measurement in matching}) > 1:
        raise ConfigError(f"{subject}: matches several kernels of the Nsight Compute report: {names}; {advice}")
    first = matching[0]
    if ids:
        chosen = [measurement for measurement in matching if measurement.launches[0] in ids]
    else:
        chosen = [measurement for measurement in matching if _has_same_size(measurement, launch)]
    if not chosen and ids:
        raise ConfigError(
            f"ncu_launch={','.join(ids)}: is not a launch of {first.name} in the Nsight Compute report, "
            f"which has {_launch_ids(matching)}"
        )
    if not chosen:
        raise ConfigError(
            f"{launch.kernel}: the trace has grid {launch.grid} and block {launch.block}, the Nsight Compute report "
            f"has grid {first.grid} and block {first.block}; --ncu-launch ID chooses a launch of any size"
        )
    return merge_launches(chosen)


def _is_named(measurement: Measurement, launch: Launch, pattern: str | None) -> bool:
    if pattern is not None:
        return fnmatchcase(measurement.name, pattern) or fnmatchcase(measurement.kernel, pattern)
    return launch.kernel in (measurement.kernel, measurement.name) or base_name(launch.kernel) == measurement.name


def _has_same_size(measurement: Measurement, launch: Launch) -> bool:
    # Some trace formats keep the number of blocks and threads, but not their shape.
    sizes = ((measurement.grid, launch.blocks), (measurement.block, launch.block_threads))
    return all(shape is None or shape[0] * shape[1] * shape[2] == size for shape, size in sizes)


def _kernel_names(measurements: Sequence[Measurement]) -> str:
    names = list(dict.fromkeys(measurement.kernel for measurement in measurements))
    return "; ".join(names[:MAX_NAMED_KERNELS]) + ("; ..." if len(names) > MAX_NAMED_KERNELS else "")


def _launch_ids(measurements: Sequence[Measurement]) -> str:
    ids = [launch for measurement in measurements for launch in measurement.launches]
    return ", ".join(ids[:MAX_NAMED_KERNELS]) + (", ..." if len(ids) > MAX_NAMED_KERNELS else "")
