"""Draw results into files; requires matplotlib (extra ``plot``)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdmodel.common.axes import literal, load_matplotlib
from rdmodel.common.file_writing import replaced_when_complete, resolve_target
from rdmodel.common.text import size_text
from rdmodel.errors import ConfigError

if TYPE_CHECKING:
    from rdmodel.comparison.values import Comparison
    from rdmodel.reuse.histogram import MissRatioCurve

Point = tuple[float, float]
"""A position, or a width and a height."""

SUFFIXES = (".svg", ".png", ".pdf")
"""Suffixes of the files that can be drawn."""

MARKERS = {"hardware": "o", "paper": "x"}
"""Matplotlib marker of each definition."""

MIN_LABELLED_ERROR = 8.0
"""Least error, in percentage points, at which a mark is labelled with the name of its kernel."""

LABEL_HEIGHT = 4.0
"""Height of a label, in percentage points of the vertical axis."""

METADATA_WITHOUT_TIME = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
"""Metadata by suffix: without the time of day, equal figures give equal files."""


def check_path(path: str | os.PathLike[str]) -> None:
    """Check that a figure can be drawn into a file, before the work that leads to it.

    Raises `ConfigError` for a suffix other than ``.svg``, ``.png`` and ``.pdf``, a folder that does not exist, or a
    file that cannot be written. Raises `RdmodelError` if matplotlib is not installed.
    """
    file = Path(path)
    if file.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"plot={os.fspath(path)!r}: must end in {', '.join(SUFFIXES)}")
    if not file.parent.is_dir():
        raise ConfigError(f"plot={os.fspath(path)!r}: there is no folder {str(file.parent)!r}")
    try:
        target = resolve_target(file)
    except OSError as error:
        raise ConfigError(f"plot={os.fspath(path)!r}: cannot be written: {error.strerror or error}") from error
    for place in (target.parent, target):
        if place.exists() and not os.access(place, os.W_OK):
            raise ConfigError(f"plot={os.fspath(path)!r}: cannot be written: {str(place)!r} is read-only")
    load_matplotlib()


def scatter(comparisons: Iterable[Comparison], path: str | os.PathLike[str]) -> None:
    """Draw predicted against simulated miss rates into a file, one mark per kernel and definition.

    The suffix of `path` chooses the format (``.svg``, ``.png``, ``.pdf``). A kernel is labelled with its name if the
    first definition has an error of 8 percentage points or more. Equal comparisons give equal files.

    Raises `ConfigError` if there is nothing to draw, and any error of `check_path`.
    """
    check_path(path)
    comparisons = [comparison for comparison in comparisons if comparison.has_loads]
    if not comparisons:
        raise ConfigError("comparisons: there is nothing to draw; give at least one comparison of a kernel with loads")
    with figure(path) as axes:
        axes.plot([0, 100], [0, 100], color="0.7", linewidth=0.8, zorder=0)
        for number, definition in enumerate(comparisons[0].predictions):
            points = [
                (100 * each.simulation.miss_rate, 100 * each.prediction(definition).miss_rate) for each in comparisons
            ]
            x, y = zip(*points, strict=True)
            axes.scatter(x, y, s=18, marker=MARKERS[definition], label=definition, linewidths=0.9)
            if number == 0:
                labelled = [abs(each.error(definition)) >= MIN_LABELLED_ERROR for each in comparisons]
                _label(
                    axes,
                    [(each.kernel, at) for each, at, far in zip(comparisons, points, labelled, strict=True) if far],
                )
        axes.set(xlim=(-2, 102), ylim=(-2, 102), aspect="equal")
        axes.set(xlabel="simulated miss rate (%)", ylabel="predicted miss rate (%)")
        axes.legend(frameon=False, loc="upper left")


def curve_figure(curve: MissRatioCurve, line: int, kernel: str, path: str | os.PathLike[str]) -> None:
    """Draw the miss-ratio curve of a kernel into a file, for lines of so many bytes.

    Raises `ConfigError` for a curve without points, and any error of `check_path`.
    """
    check_path(path)
    with figure(path, (5.5, 3.6)) as axes:
        curve.plot(axes, line=line)
        axes.set_title(literal(kernel))
        ticks = [int(size) * line for size in curve.sizes if size > 0]
        every = 1 + len(ticks) // 8
        axes.set_xticks(ticks[::every], [size_text(size) for size in ticks[::every]])
        axes.minorticks_off()
        axes.set_xlabel("size of a fully associative LRU cache")


def _label(axes: Any, labels: Sequence[tuple[str, Point]]) -> None:
    """Label points with names, and move a label up if it would cover another one."""
    placed: list[Point] = []
    for name, (x, y) in sorted(labels, key=lambda item: (item[1][1], item[1][0])):
        left = x > 75
        height = y
        while any(abs(x - other) < 25 and abs(height - at) < LABEL_HEIGHT for other, at in placed):
            height += LABEL_HEIGHT / 4
        placed.append((x, height))
        axes.annotate(
            literal(name),
            (x + (-1.5 if left else 1.5), height),
            ha="right" if left else "left",
            va="center",
            fontsize=7,
        )


@contextmanager
def figure(
    path: str | os.PathLike[str], size: Point = (4.5, 4.5), panels: int = 1, *, stacked: bool = False
) -> Iterator[Any]:
    """Yield the axes of a figure with a size in inches, then save it, with matplotlib's default style.

    With several `panels` side by side, or `stacked`, the axes are an array. A figure that cannot be saved leaves the
    old file as it was and raises `ConfigError`.
    """
    matplotlib = load_matplotlib()
    from matplotlib.figure import Figure

    suffix = Path(path).suffix.lower()
    # Text is written as text, and the names in the file do not change from run to run.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "rdmodel"})
        drawn = Figure(figsize=size, dpi=150, layout="constrained")
        yield drawn.subplots(panels, 1) if stacked else drawn.subplots(1, panels)
        # Matplotlib would leave a file open that it could not write.
        content = BytesIO()
        drawn.savefig(content, format=suffix[1:], metadata=METADATA_WITHOUT_TIME[suffix])
        try:
            with replaced_when_complete(path) as partial:
                partial.write_bytes(content.getvalue())
        except OSError as error:
            raise ConfigError(f"plot={os.fspath(path)!r}: cannot be written: {error.strerror or error}") from error
