"""Figures of results as files; needs matplotlib (extra ``plot``)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdmodel.errors import ConfigError, RdmodelError

if TYPE_CHECKING:
    from rdmodel.comparison import Comparison

Point = tuple[float, float]

SUFFIXES = (".svg", ".png", ".pdf")
MARKERS = {"hardware": "o", "paper": "x"}
NAMED_ERROR = 8.0
"""Points of error from which on a kernel's name stands beside its mark."""

LINE = 4.0
"""Points of the miss rate that a name is high."""

UNDATED = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
"""Metadata without the time of day, by suffix: the same figure gives the same file."""


def check_path(path: str | os.PathLike[str]) -> None:
    """Look whether a figure can be drawn into a file, before the work that leads to it.

    Raises `ConfigError` for another suffix than ``.svg``, ``.png`` and ``.pdf``, a folder that is not there, or a file
    that cannot be written, and `RdmodelError` without matplotlib.
    """
    file = Path(path)
    if file.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"plot={os.fspath(path)!r}: must end in {', '.join(SUFFIXES)}")
    if not file.parent.is_dir():
        raise ConfigError(f"plot={os.fspath(path)!r}: there is no folder {str(file.parent)!r}")
    if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
        raise ConfigError(f"plot={os.fspath(path)!r}: cannot be written")
    _matplotlib()


def scatter(comparisons: Iterable[Comparison], path: str | os.PathLike[str]) -> None:
    """Draw predicted against simulated miss rates, one mark per kernel and definition, into a file.

    The suffix of `path` says which kind (``.svg``, ``.png``, ``.pdf``). Kernels that the first definition is off by
    8 points or more on are named. The same comparisons give the same file. Raises `ConfigError` where there is
    nothing to draw, and what `check_path` raises.
    """
    check_path(path)
    kernels = list(comparisons)
    if not kernels:
        raise ConfigError("comparisons: there is nothing to draw")
    with _figure(path) as axes:
        axes.plot([0, 100], [0, 100], color="0.7", linewidth=0.8, zorder=0)
        for number, definition in enumerate(kernels[0].predictions):
            points = [(100 * one.simulation.miss_rate, 100 * one.prediction(definition).miss_rate) for one in kernels]
            x, y = zip(*points, strict=True)
            axes.scatter(x, y, s=18, marker=MARKERS[definition], label=definition, linewidths=0.9)
            if number == 0:
                off = [abs(one.error(definition)) >= NAMED_ERROR for one in kernels]
                _name(axes, [(one.kernel, at) for one, at, far in zip(kernels, points, off, strict=True) if far])
        axes.set(xlim=(-2, 102), ylim=(-2, 102), aspect="equal")
        axes.set(xlabel="simulated miss rate (%)", ylabel="predicted miss rate (%)")
        axes.legend(frameon=False, loc="upper left")


def _name(axes: Any, named: Sequence[tuple[str, Point]]) -> None:
    """Write names beside their points, each above the one before where they would lie on each other."""
    placed: list[Point] = []
    for name, (x, y) in sorted(named, key=lambda item: (item[1][1], item[1][0])):
        left = x > 75
        height = y
        while any(abs(x - other) < 25 and abs(height - at) < LINE for other, at in placed):
            height += LINE / 4
        placed.append((x, height))
        axes.annotate(
            name,
            (x + (-1.5 if left else 1.5), height),
            ha="right" if left else "left",
            va="center",
            fontsize=7,
        )


@contextmanager
def _figure(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Yield the axes of a figure and save it afterwards, whatever the user's style is."""
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure

    suffix = Path(path).suffix.lower()
    # Text stays text, and names inside the file do not change from run to run.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "rdmodel"})
        figure = Figure(figsize=(4.5, 4.5), dpi=150, layout="constrained")
        yield figure.subplots()
        try:
            figure.savefig(path, format=suffix[1:], metadata=UNDATED[suffix])
        except OSError as error:
            raise ConfigError(f"plot={os.fspath(path)!r}: {error.strerror}") from None


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise RdmodelError("plots need matplotlib: pip install 'rdmodel[plot]'") from None
    return matplotlib
