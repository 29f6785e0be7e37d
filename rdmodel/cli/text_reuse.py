"""Format reuse distances and miss-ratio curves as text."""

from __future__ import annotations

from rdmodel.cli.text_tables import format_bar, format_table
from rdmodel.common.intervals import Estimate
from rdmodel.common.text import count, percent, range_text, size_text
from rdmodel.results.prediction import Prediction
from rdmodel.reuse.histogram import Histogram, MissRatioCurve, by_powers
from rdmodel.reuse.sampled import SampledCurve, SampledHistogram


def format_reuse(result: Prediction, curve: MissRatioCurve, line: int, order: str) -> str:
    """Return a reuse-distance histogram by powers of two, and a miss-ratio curve."""
    assert result.histogram is not None
    rows = [("  distance", "transactions", "share", "")]
    for name, n in _distance_rows(result.histogram):
        rows.append((f"  {name}", count(n), percent(n, result.transactions), format_bar(n / result.transactions)))
    points = [("  cache", "lines", "miss ratio", "")]
    points += [(f"  {size_text(n * line)}", f"{n:,}", percent(ratio, 1), format_bar(ratio)) for n, ratio in curve]
    return (
        f"{result.kernel}: {count(result.transactions)} transactions in the order {order}, {line}-byte lines\n\n"
        + format_table(rows, right=(1, 2))
        + "\n\n"
        + format_table(points, right=(0, 1, 2))
        + "\n\nmiss ratio of one fully associative LRU cache, first touches included"
    )


def format_sampled_reuse(kernel: str, histogram: SampledHistogram, curve: SampledCurve, line: int, order: str) -> str:
    """Return a miss-ratio curve that was estimated from a sample of the lines, with the error of each point."""
    rows = [("  cache", "lines", "miss ratio", "error", "95 % interval", "")]
    rows += [
        (
            f"  {size_text(int(size) * line)}",
            f"{size:,}",
            percent(estimate.value, 1),
            percent(estimate.standard_error, 1),
            f"{100 * estimate.low:.2f} to {100 * estimate.high:.2f} %",
            format_bar(estimate.value),
        )
        for size, estimate in zip(curve.sizes, curve.estimates(), strict=True)
    ]
    return (
        f"{kernel}: {count(histogram.total)} transactions in the order {order}, {line}-byte lines\n"
        f"a sample: {histogram.sampled}, with {count(histogram.followed)} of the transactions\n\n"
        + format_table(rows, right=(0, 1, 2, 3, 4))
        + "\n\nestimated miss ratio of one fully associative LRU cache, first touches included;\n"
        f"the sample cannot tell caches of fewer than {-(-2 // histogram.rate):,.0f} lines from each other"
    )


def error_fields(estimate: Estimate) -> dict[str, float]:
    """Return the standard error and the interval of an estimate as plain numbers."""
    return {"standard_error": estimate.standard_error, "low": estimate.low, "high": estimate.high}


def _distance_rows(histogram: Histogram) -> list[tuple[str, int]]:
    rows = [(range_text(low, high), n) for low, high, n in by_powers(histogram)]
    return [*rows, ("first touch", histogram.infinite)]
