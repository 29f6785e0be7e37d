"""Figures of results as files; needs matplotlib (extra ``plot``)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdmodel.errors import ConfigError, RdmodelError

if TYPE_CHECKING:
    from rdmodel.comparison import Comparison

SUFFIXES = (".svg", ".png", ".pdf")
MARKERS = {"hardware": "o", "paper": "x"}
NAMED_ERROR = 8.0
"""Points of error from which on a kernel's name stands beside its mark."""


def scatter(comparisons: Sequence[Comparison], path: str | os.PathLike[str]) -> None:
    """Draw predicted against simulated miss rates, one mark per kernel and definition, into a file.

    The suffix of `path` says which kind (``.svg``, ``.png``, ``.pdf``). Kernels that are off by 8 points or more are
    named. Raises `ConfigError` for another suffix or a file that cannot be written, `RdmodelError` without matplotlib.
    """
    figure, axes = _figure(path)
    axes.plot([0, 100], [0, 100], color="0.7", linewidth=0.8, zorder=0)
    for definition in comparisons[0].predictions if comparisons else ():
        points = [(100 * one.simulation.miss_rate, 100 * one.predictions[definition].miss_rate) for one in comparisons]
        axes.scatter(*zip(*points, strict=True), s=18, marker=MARKERS[definition], label=definition, linewidths=0.9)
        for one, point in zip(comparisons, points, strict=True):
            if definition == "hardware" and abs(one.error(definition)) >= NAMED_ERROR:
                axes.annotate(one.kernel, point, xytext=(4, -8), textcoords="offset points", fontsize=7)
    axes.set(xlim=(-2, 102), ylim=(-2, 102), aspect="equal")
    axes.set(xlabel="simulated miss rate (%)", ylabel="predicted miss rate (%)")
    axes.legend(frameon=False)
    _save(figure, path)


def _figure(path: str | os.PathLike[str]) -> tuple[Any, Any]:
    if Path(path).suffix.lower() not in SUFFIXES:
        raise ConfigError(f"plot={os.fspath(path)!r}: must end in {', '.join(SUFFIXES)}")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise RdmodelError("plots need matplotlib: pip install 'rdmodel[plot]'") from None
    # Text stays text, and the same figure gives the same file.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "rdmodel"})
    figure = Figure(figsize=(4.5, 4.5), layout="constrained")
    return figure, figure.subplots()


def _save(figure: Any, path: str | os.PathLike[str]) -> None:
    metadata = {"Date": None} if Path(path).suffix.lower() == ".svg" else None
    try:
        figure.savefig(path, metadata=metadata)
    except OSError as error:
        raise ConfigError(f"plot={os.fspath(path)!r}: {error.strerror}") from None
