"""Figures of results as files; needs matplotlib (extra ``plot``)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdmodel.errors import ConfigError, RdmodelError

if TYPE_CHECKING:
    from rdmodel.comparison.values import Comparison
    from rdmodel.contests.contest import Contest

Point = tuple[float, float]

SUFFIXES = (".svg", ".png", ".pdf")
MARKERS = {"hardware": "o", "paper": "x"}
NAMED_ERROR = 8.0
"""Points of error from which on a kernel's name stands beside its mark."""

BARS = 0.8
"""Width of a group of bars; groups are 1 apart."""

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
    with figure(path) as axes:
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


def bars(contest: Contest, path: str | os.PathLike[str]) -> None:
    """Draw the IPC under every combination of policies relative to none into a file: a group of bars per kernel.

    Where several kernels are complete, a last group has the geometric means. A run that is missing leaves a gap. The
    same contest gives the same file. Raises `ConfigError` where there is nothing to draw, and what `check_path` raises.
    """
    check_path(path)
    names = contest.names[1:]
    heights = {name: list(contest.relative_ipc(name)) for name in names}
    groups = list(contest.kernels)
    if sum(contest.complete) > 1:
        groups.append("geometric mean")
        for name in names:
            heights[name].append(contest.geometric_mean(name))
    if not any(height is not None for row in heights.values() for height in row):
        raise ConfigError("contest: there is nothing to draw")
    width = BARS / len(names)
    inches = max(4.5, 1.5 + 0.09 * len(groups) * (len(names) + 2))
    with figure(path, (inches, 3.5)) as axes:
        axes.axhline(1, color="0.7", linewidth=0.8, zorder=0)
        for number, name in enumerate(names):
            drawn = [(at, height) for at, height in enumerate(heights[name]) if height is not None]
            places = [at - BARS / 2 + width * (number + 0.5) for at, _ in drawn]
            axes.bar(places, [height for _, height in drawn], width=width, label=name, color=_colour(number))
        axes.set_xticks(range(len(groups)), groups, rotation=90 if len(groups) > 4 else 0, fontsize=7)
        axes.set(ylabel="IPC relative to none", xlim=(-0.5, len(groups) - 0.5), ylim=(0, None))
        axes.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))


def _colour(number: int) -> Any:
    """Return one of twenty colours that can be told apart, the strong ones first."""
    from matplotlib import colormaps

    return colormaps["tab20"]((2 * number) % 20 + (number // 10) % 2)


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
def figure(path: str | os.PathLike[str], size: Point = (4.5, 4.5), panels: int = 1) -> Iterator[Any]:
    """Yield the axes of a figure of a size in inches and save it afterwards, whatever the user's style is.

    With several `panels`, which are side by side, an array of axes is yielded.
    """
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure

    suffix = Path(path).suffix.lower()
    # Text stays text, and names inside the file do not change from run to run.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "rdmodel"})
        drawn = Figure(figsize=size, dpi=150, layout="constrained")
        yield drawn.subplots(1, panels)
        try:
            drawn.savefig(path, format=suffix[1:], metadata=UNDATED[suffix])
        except OSError as error:
            raise ConfigError(f"plot={os.fspath(path)!r}: {error.strerror}") from None


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise RdmodelError("plots need matplotlib: pip install 'rdmodel[plot]'") from None
    return matplotlib
