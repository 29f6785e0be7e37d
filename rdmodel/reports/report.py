"""Define `Report`: the runs of some kernels on one GPU, and the page that shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rdmodel.gpu.config import GPU
from rdmodel.reports.kernel_report import KernelReport
from rdmodel.reports.page import page
from rdmodel.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One kernel or several on one GPU; `to_html` makes a page of it."""

    gpu: GPU
    kernels: tuple[KernelReport, ...]

    def __str__(self) -> str:
        """Return the miss rates in one line."""
        rates = ", ".join(f"{one.kernel} {100 * one.prediction.miss_rate:.2f} %" for one in self.kernels)
        return f"L1 miss rates on {self.gpu.name}: {rates}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings and dicts, ready for JSON."""
        return {
            "version": __version__,
            "gpu": self.gpu.to_dict(),
            "kernels": [kernel.to_dict() for kernel in self.kernels],
        }

    def to_html(self) -> str:
        """Return the report as one self-contained page: no scripts, no other files; equal reports, equal pages."""
        return page(self.gpu, self.kernels)
