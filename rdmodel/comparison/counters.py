"""Put the counters of a prediction beside those that Nsight Compute measured, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rdmodel import presets
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.presentation import Presented
from rdmodel.comparison.nsight import L1_RATE_METRICS, L2_RATE_METRICS, NCU_COMMAND, Measurement
from rdmodel.errors import TraceError
from rdmodel.gpu.config import GPU
from rdmodel.model.predict import predict
from rdmodel.results.metrics import L1_METRICS, L1_RATE_METRIC, L2_METRICS, L2_RATE_METRIC, check_countable
from rdmodel.results.prediction import Prediction
from rdmodel.trace import Trace

if TYPE_CHECKING:
    from rdmodel.common.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CounterComparison(Presented):
    """Counters of one launch: those that a report of Nsight Compute has, and those of a `prediction` of all blocks."""

    prediction: Prediction
    measurement: Measurement

    @property
    def kernel(self) -> str:
        """Name of the kernel in the trace."""
        return self.prediction.kernel

    @property
    def measured(self) -> dict[str, float]:
        """Return the measured counters of one launch that have a predicted one, by name; rates are in percent."""
        launches = len(self.measurement.launches)
        metrics = measured_metrics(self.measurement)
        # Merged launches have the sums of their counters, but the means of their rates.
        return {
            name: metrics[name] / launches if name.endswith(".sum") else metrics[name]
            for name in self.prediction.metrics()
            if name in metrics
        }

    @property
    def predicted(self) -> dict[str, float]:
        """Return the predicted counters that have a measured one, by name."""
        metrics = self.prediction.metrics()
        return {name: metrics[name] for name in self.measured}

    def errors(self) -> dict[str, float | None]:
        """Return predicted minus measured: in percent of the measured counter (None if it is 0), or in points."""
        predicted = self.predicted
        return {name: _error(name, predicted[name], value) for name, value in self.measured.items()}

    def __str__(self) -> str:
        """Return the comparison in one line: the hit rates, or else the number of counters."""
        names = [name for name in self.measured if name.endswith(".pct")]
        rates = ", ".join(
            f"{name} {self.measured[name]:.2f} %, predicted {self.predicted[name]:.2f} %" for name in names
        )
        return f"{self.kernel} on {self.prediction.gpu}: {rates or f'{len(self.measured)} counters'}"

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain numbers, strings and dicts, ready for JSON."""
        predicted, errors = self.predicted, self.errors()
        return {
            "kernel": self.kernel,
            "measured": self.measurement.to_dict(),
            "counters": {
                name: {"measured": value, "predicted": predicted[name], "error": errors[name]}
                for name, value in self.measured.items()
            },
            "prediction": self.prediction.to_dict(),
        }

    def to_row(self) -> dict[str, Any]:
        """Return the comparison as one flat row: for CSV and data frames."""
        row: dict[str, Any] = {
            "kernel": self.kernel,
            "measured_kernel": self.measurement.kernel,
            "launches": len(self.measurement.launches),
            "gpu": self.prediction.gpu,
        }
        predicted, errors = self.predicted, self.errors()
        for name, value in self.measured.items():
            row |= {name: value, f"{name}_predicted": predicted[name], f"{name}_error": errors[name]}
        return row

    def to_rows(self) -> list[dict[str, Any]]:
        """Return `to_row` as the only row."""
        return [self.to_row()]

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return one row for every counter."""
        predicted, errors = self.predicted, self.errors()
        return [
            {"counter": name, "measured": value, "predicted": predicted[name], "error": errors[name]}
            for name, value in self.measured.items()
        ]


def compare_counters(
    trace: Trace, measurement: Measurement, gpu: str | GPU, *, progress: Progress | None = None, **options: Any
) -> CounterComparison:
    """Predict the counters of a whole launch, and put them beside measured ones.

    Parameters
    ----------
    trace : Trace
        The kernel launch.
    measurement : Measurement
        Counters from a report of Nsight Compute: one of `rdmodel.read_ncu`, or several launches selected and merged by
        `rdmodel.comparison.measured.select_measurement`.
    gpu : str or GPU
        Name of a preset, path of a ``.toml`` file, or a `GPU`, whose L1 has sectors of 32 bytes.
    progress : callable, optional
        As in `predict`.
    **options
        Options of `predict`. By default, all SMs and all blocks are modelled, the L2 if the report has counters of it
        or of the DRAM, and reuse distances are not measured.

    Returns
    -------
    CounterComparison
        Measured and predicted counters.

    Raises
    ------
    TraceError
        If the measurement has no counter that the model has; the message has the command that collects them.
    ConfigError
        If the L1 has no sectors of 32 bytes.
    ConfigError, LaunchError, TraceError
        As `predict`.
    """
    gpu = presets.gpu(gpu)
    check_countable(gpu.l1.sector_bytes, options.get("stores"))
    check_measured(measurement)
    l2 = not set(L2_METRICS).isdisjoint(measured_metrics(measurement))
    whole = {"model_sms": "all", "threads": None, "histogram": False, "l2": l2}
    prediction = predict(trace, gpu, progress=progress, **{**whole, **options})
    return CounterComparison(prediction=prediction, measurement=measurement)


def check_measured(measurement: Measurement) -> None:
    """Raise `TraceError` if a report has no metric that a prediction may have."""
    if not {*L1_METRICS, *L2_METRICS} & set(measured_metrics(measurement)):
        raise TraceError(
            f"{measurement.kernel}: the Nsight Compute report has no counter that the model has; "
            f"collect them with: {NCU_COMMAND}"
        )


def measured_metrics(measurement: Measurement) -> dict[str, float]:
    """Return the metrics of a report by name; the hit rates of the default pages have the names of metrics, too."""
    metrics = dict(measurement.metrics)
    for name, label in ((L1_RATE_METRIC, L1_RATE_METRICS[-1]), (L2_RATE_METRIC, L2_RATE_METRICS[-1])):
        if label in metrics:
            metrics.setdefault(name, metrics[label])
    return metrics


def _error(name: str, predicted: float, measured: float) -> float | None:
    if name.endswith(".pct"):
        return predicted - measured
    return 100 * (predicted - measured) / measured if measured else None
