"""Define `Report`: the results of several kernels on one GPU, and their page."""

from __future__ import annotations

from html import escape
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.presentation import Presented
from rdmodel.common.text import percent
from rdmodel.gpu.config import GPU
from rdmodel.reports.kernel_report import KernelReport
from rdmodel.reports.page import write_page
from rdmodel.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report(Presented):
    """Results of one or several kernels on one GPU; `to_html` writes them as a page."""

    gpu: GPU
    kernels: tuple[KernelReport, ...]

    def __str__(self) -> str:
        """Return the miss rates on one line."""
        rates = ", ".join(
            f"{one.kernel} {percent(one.prediction.miss_rate, 1) if one.has_loads else 'no loads'}"
            for one in self.kernels
        )
        return f"L1 miss rates on {self.gpu.name}: {rates}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings and dicts, ready for JSON."""
        return {
            "version": __version__,
            "gpu": self.gpu.to_dict(),
            "kernels": [kernel.to_dict() for kernel in self.kernels],
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat row for every kernel and definition: the row of the prediction."""
        return [run.to_row() for one in self.kernels for run in one.predictions.values()]

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, so that its styles apply to nothing else; notebooks call this."""
        style = "width: 100%; height: 40em; border: 0"
        return f'<iframe srcdoc="{escape(self.to_html())}" title="{escape(str(self))}" style="{style}"></iframe>'

    def to_html(self) -> str:
        """Return the report as a self-contained page without scripts; equal reports give equal pages."""
        return write_page(self.gpu, self.kernels)
