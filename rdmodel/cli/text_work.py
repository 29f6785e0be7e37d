"""Format the work of blocks as text."""

from __future__ import annotations

from rdmodel.cli.text_tables import format_table
from rdmodel.common.text import count
from rdmodel.trace.work import Work, work_rows


def format_work(work: Work) -> str:
    """Return the instructions of warps by class, the arithmetic of threads, and the conflicts in shared memory."""
    return format_table(((f"  {name}", count(value)) for name, value in work_rows(work)), right=(1,))
