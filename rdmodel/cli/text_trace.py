"""Format the summary of a trace, and the launches in a file, as text."""

from __future__ import annotations

from collections.abc import Sequence

from rdmodel.cli.text_tables import format_table
from rdmodel.cli.text_work import format_work
from rdmodel.common.text import counted, shape_text, size_text
from rdmodel.errors import escape_unprintable
from rdmodel.trace.summary import Summary
from tracegen.formats import LaunchEntry

MAX_NAME_CHARACTERS = 60
"""Length to which a kernel name in a table is cut; names of C++ kernels may be pages long."""


def format_summary(result: Summary, occupancy: str = "") -> str:
    """Return the summary of a trace: launch, occupancy, instructions, footprint, coalescing, arrays."""
    rows = [
        ("grid, block", f"{shape_text(result.grid)}, {shape_text(result.block)} threads"),
        ("blocks held", f"{result.blocks_held:,} of {result.blocks:,}"),
        *((f"{name} instructions", f"{n:,}") for name, n in result.instructions.items() if n),
        *((f"  with .{name}", f"{n:,}") for name, n in result.cache_ops.items()),
        ("lane accesses", f"{result.lane_accesses:,} ({result.active_lanes:.1f} active lanes per instruction)"),
        ("bytes requested", f"{result.bytes_requested:,}"),
        ("footprint", f"{result.lines:,} lines of {result.line} bytes = {result.footprint:,} bytes"),
        ("load transactions", f"{result.load_transactions:,} ({result.transactions_per_load:.2f} per load)"),
        *([("occupancy", occupancy)] if occupancy else []),
    ]
    parts = [f"{result.kernel}, a trace of warp instructions", format_table((f"  {name}", text) for name, text in rows)]
    if result.work is not None:
        parts.append(format_work(result.work))
    if result.arrays:
        uses = [("  array", "base", "bytes", "lane accesses", "touched")]
        uses += [
            (f"  {a.name}", f"{a.base:#x}", f"{a.bytes:,}", f"{a.accesses:,}", size_text(a.footprint))
            for a in result.arrays
        ]
        parts.append(format_table(uses, right=(1, 2, 3, 4)))
    return "\n\n".join(parts)


def format_launches(source: str, form: str, listed: Sequence[LaunchEntry]) -> str:
    """Return the launches in a file of the format `form` as a table."""
    rows = [("  id", "kernel", "grid", "block", "threads")]
    rows += [
        (
            str(entry.number),
            _cut_name(entry.launch.kernel),
            shape_text(entry.launch.grid),
            shape_text(entry.launch.block),
            f"{threads:,}",
        )
        for entry in listed
        for threads in [entry.launch.blocks * entry.launch.block_threads]
    ]
    number = counted(len(listed), "launch", "launches")
    return f"{escape_unprintable(source)}: {number} (format {form})\n\n{format_table(rows, right=(0, 4))}"


def _cut_name(name: str) -> str:
    """Return a name that leaves room for the other columns."""
    return name if len(name) <= MAX_NAME_CHARACTERS else name[: MAX_NAME_CHARACTERS - 3] + "..."
