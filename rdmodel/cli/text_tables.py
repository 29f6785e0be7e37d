"""Format tables, and the parts of headings that several results share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Any

from rdmodel.cli.table_folding import fold_prose, fold_table, terminal_width
from rdmodel.common.text import count, percent
from rdmodel.errors import escape_unprintable
from rdmodel.gpu.occupancy import Occupancy
from rdmodel.results.describe import describe_memory
from rdmodel.results.prediction import Prediction
from rdmodel.results.simulation import Simulation

BAR_CHARACTERS = 24
"""Length of the longest bar in a table."""


def format_table(rows: Iterable[Sequence[str]], right: Iterable[int] = (), keys: int = 1) -> str:
    """Return rows, the first of which holds the heads, as aligned columns; those in `right` are flush right.

    A table that is wider than the terminal is folded. The first `keys` columns name a row.
    """
    cells = [[escape_unprintable(cell) for cell in row] for row in rows]
    return fold_table(cells, set(right), keys, terminal_width())


def format_number_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a table whose columns are flush right, except the first."""
    return format_table(rows, right=range(1, len(rows[0])))


def format_bar(share: float) -> str:
    """Return a bar for a share, 0 to 1."""
    return "#" * round(BAR_CHARACTERS * share)


def format_share(share: float) -> str:
    """Return a share, 0 to 1, in percent; a dash for NaN."""
    return percent(share, 1)


def format_points(error: float) -> str:
    """Return a difference in percentage points with its sign; none for one that rounds to 0, a dash for NaN."""
    if isnan(error):
        return "-"
    return f"{error:+.2f}" if abs(error) >= 0.005 else "0.00"


def format_metric(name: str, value: float) -> str:
    """Return the value of a metric of Nsight Compute: a rate in percent if its name ends in ``.pct``, or a number."""
    return f"{value:.2f} %" if name.endswith(".pct") else count(value)


def format_kernel(kernel: str, config: Mapping[str, Any]) -> str:
    """Return the kernel of a result, its sizes, and the number of its launch in a recording."""
    trace = config["trace"]
    launch = [f"(launch {trace['launch']})"] if "launch" in trace else []
    return escape_unprintable(" ".join([kernel, *(f"{k}={v}" for k, v in trace["params"].items()), *launch]))


def format_metrics(result: Prediction | Simulation, metrics: Mapping[str, float]) -> str:
    """Return the counters of a result by the names of Nsight Compute."""
    config, modelled = result.config, sum(sm.blocks for sm in result.per_sm)
    rows = [(f"  {name}", format_metric(name, value)) for name, value in metrics.items()]
    x, y, z = config["trace"]["grid"]
    legend = "in the words of Nsight Compute; sectors in flight are hits"
    if modelled < x * y * z:
        legend += f"\ncounted for {format_blocks(modelled, config)}"
        if "model_sms" in config["options"]:
            legend += "; --model-sms all --threads all counts all, as profilers do"
    return f"{format_table(rows, right=(1,))}\n{fold_prose(legend, terminal_width())}"


def format_gpu(name: str) -> str:
    """Return the name of a GPU, which may come from a file."""
    return escape_unprintable(name)


def format_blocks(blocks: int, config: Mapping[str, Any]) -> str:
    """Return the number of blocks behind a result, out of those of the grid, and a limit by ``--blocks``."""
    x, y, z = config["trace"]["grid"]
    first = config["options"]["blocks"]
    return f"{blocks:,} of {x * y * z:,} blocks" + (f", only the first {first:,} of the grid" if first else "")


def format_occupancy(occupancy: Occupancy) -> str:
    """Return a line with the resident blocks and warps of an SM, and the resource that limits them."""
    return f"occupancy: {occupancy}"


def format_carveout(config: Mapping[str, Any]) -> str:
    """Return a line break and a line with the division of an SM's memory; empty if the L1 has memory of its own."""
    division = describe_memory(config["gpu"])
    return f"\nL1 of {division}" if division else ""


def format_sms(sms: int) -> str:
    """Return a number of SMs."""
    return "1 SM" if sms == 1 else f"{sms} SMs"
