"""Format predicted counters beside measured ones as text."""

from __future__ import annotations

from collections.abc import Sequence

from rdmodel.cli.text_tables import (
    format_blocks,
    format_carveout,
    format_kernel,
    format_metric,
    format_number_table,
    format_points,
    format_sms,
)
from rdmodel.comparison.counters import CounterComparison


def format_counter_comparisons(results: Sequence[CounterComparison]) -> str:
    """Return comparisons one below the other: the counters of each by name."""
    return "\n\n".join(map(_format_comparison, results)) + (
        "\n\nerrors: predicted minus measured, in percent of a counter, and in points of a rate;\n"
        "sectors in flight are hits"
    )


def _format_comparison(result: CounterComparison) -> str:
    prediction, launches = result.prediction, result.measurement.launches
    blocks = format_blocks(sum(sm.blocks for sm in prediction.per_sm), prediction.config)
    launch = f"launch {launches[0]}" if len(launches) == 1 else f"{len(launches)} launches, per launch"
    rows = [["  counter", "measured", "predicted", "error"]]
    predicted, errors = result.predicted, result.errors()
    for name, value in result.measured.items():
        cells = [format_metric(name, number) for number in (value, predicted[name])]
        rows.append([f"  {name}", *cells, _format_error(name, errors[name])])
    return (
        f"{format_kernel(result.kernel, prediction.config)} on {prediction.gpu}, measured and predicted\n"
        f"{format_sms(prediction.sms_modelled)}: {blocks}, seed {prediction.seed}{format_carveout(prediction.config)}\n"
        f"measured: {result.measurement.kernel}, {launch}\n\n{format_number_table(rows)}"
    )


def _format_error(name: str, error: float | None) -> str:
    if error is None:
        return "-"
    return format_points(error) if name.endswith(".pct") else f"{format_points(error)} %"
