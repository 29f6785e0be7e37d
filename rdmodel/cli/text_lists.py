"""Format the lists of kernels and GPUs as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def format_gpus(groups: Mapping[str, Iterable[GPU]]) -> str:
    """Return the GPUs of each architecture with their caches."""
    rows: list[tuple[str, ...]] = [
        ("architecture", "GPU", "SMs", "L1", "ways", "sets", "sector", "L2", "MSHRs", "blocks", "threads")
    ]
    for architecture, machines in groups.items():
        for at, gpu in enumerate(machines):
            rows.append((architecture if at == 0 else "", *_gpu_row(gpu)))
    table = format_table(rows, right=range(2, 11), keys=2)
    return f"{table}\n\n* with the smallest carve-out: the L1 shares this memory with shared memory"


def _gpu_row(gpu: GPU) -> tuple[str, ...]:
    l1 = gpu.l1
    size = size_text(l1.size) + (" *" if l1.unified else "  ")
    mshrs = "inf" if l1.mshrs is None else str(l1.mshrs)
    l2 = size_text(gpu.l2.slices * gpu.l2.size)
    numbers = (gpu.sms, size, l1.ways, l1.sets, l1.sector_bytes, l2, mshrs, gpu.max_blocks, gpu.max_threads)
    return gpu.name, *map(str, numbers)
