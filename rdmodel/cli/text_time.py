"""Format the estimated time of a launch as text."""

from __future__ import annotations

from rdmodel.cli.table_folding import fold_prose, terminal_width
from rdmodel.cli.text_tables import format_bar, format_table
from rdmodel.errors import escape_unprintable
from rdmodel.timing.values import SHOWN_SHARE, TimeEstimate


def format_time(result: TimeEstimate) -> str:
    """Return the time, what binds it, and a bar for each term."""
    cycles = f"{result.cycles:,.0f} cycles at {result.clock} MHz"
    launch = "" if result.launch is None else f" (launch {result.launch})"
    head = f"{result.kernel}{launch} on {result.gpu}: {result.milliseconds:,.4g} ms ({cycles})"
    rows = [
        (f"  {name}", f"{100 * share:.0f} %", f"{share * result.milliseconds:,.4g} ms", format_bar(min(1.0, share)))
        for name, share in result.shares.items()
        if share >= SHOWN_SHARE
    ]
    grid = f"grid: {result.waves:,} full waves, {100 * result.tail_share:.0f} % of the time behind them"
    notes = () if result.work.has_arithmetic else ("the trace does not tell arithmetic: only its accesses are timed",)
    table = format_table(rows, right=(1, 2)) if rows else "  nothing to do"
    return "\n".join(
        [escape_unprintable(head), fold_prose(result.explanation, terminal_width()), "", table, "", grid, *notes]
    )
