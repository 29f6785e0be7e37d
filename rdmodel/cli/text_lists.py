"""Format the lists of kernels and GPUs as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rdmodel.cli.text_tables import format_table
from rdmodel.common.text import shape_text, size_text
from rdmodel.gpu.config import GPU


def format_kernels(specs: Iterable[Any]) -> str:
    """Return the list of kernels with sizes and blocks."""
    rows = [("kernel", "sizes", "block", "description")]
    for spec in specs:
        files = (f"[{name}=FILE]" for name in spec.inputs)
        sizes = " ".join([*(f"{name}={value}" for name, value in spec.sizes.items()), *files])
        rows.append((spec.name, sizes, shape_text(spec.block), spec.description))
    return format_table(rows)


def format_gpus(machines: Iterable[GPU]) -> str:
    """Return the list of GPUs with their L1 caches."""
    rows = [("GPU", "SMs", "L1", "ways", "sets", "line", "index", "MSHRs", "blocks", "threads")]
    for gpu in machines:
        l1 = gpu.l1
        mshrs = "inf" if l1.mshrs is None else str(l1.mshrs)
        numbers = (size_text(l1.size), str(l1.ways), str(l1.sets), str(l1.line))
        rows.append((gpu.name, str(gpu.sms), *numbers, l1.index.name, mshrs, str(gpu.max_blocks), str(gpu.max_threads)))
    return format_table(rows, right=(1, 2, 3, 4, 5, 7, 8, 9))
