"""Draw results that have a method `plot` into a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from rdmodel.errors import ConfigError
from rdmodel.plots.charts import check_path, figure

PANEL_INCHES = (5.5, 3.6)
"""Width and height of a figure, or of each panel of one."""

MAX_DRAWN_RESULTS = 8
"""Maximum number of results side by side."""


class Plotted(Protocol):
    """A result that draws itself on axes."""

    def plot(self, ax: Any = None) -> Any:
        """Draw the result."""


def save_figure(results: Plotted | Sequence[Plotted], path: str | os.PathLike[str], **options: Any) -> None:
    """Draw a result, or several side by side, into a file; equal results give equal files.

    Parameters
    ----------
    results
        Values with a method `plot`, such as a `Prediction`, a `MissRatioCurve` or a `Sweep`; at most 8.
    path
        The file, which ends in ``.svg``, ``.png`` or ``.pdf``.
    **options
        Options of `plot`, such as ``measure="cycles"`` of a `Sweep`.

    Raises
    ------
    ConfigError
        For another suffix, a file that cannot be written, more than 8 results, and results without anything to draw.
    RdmodelError
        If matplotlib is not installed.
    """
    check_path(path)
    several = list(results) if isinstance(results, Sequence) else [results]
    if not 1 <= len(several) <= MAX_DRAWN_RESULTS:
        raise ConfigError(f"plot: {len(several)} results: a figure has 1 to {MAX_DRAWN_RESULTS}")
    if wrong := next((one for one in several if not hasattr(one, "plot")), None):
        raise ConfigError(f"plot: {type(wrong).__name__} cannot be drawn")
    width, height = PANEL_INCHES
    with figure(path, (width * len(several), height), len(several)) as axes:
        for result, ax in zip(several, np.atleast_1d(axes), strict=True):
            result.plot(ax, **options)
