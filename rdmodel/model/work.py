"""Define the option `work` of `predict`: the size from which on a grid is sampled.

It is apart from the model, so that the command line can name the default without importing compiled cores.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Literal

from rdmodel.errors import ConfigError

Work = float | Literal["auto"] | None
"""A number of transactions; None: everything is run; "auto": `AUTO_WORK` where a sample of that size saves time."""

AUTO_WORK = 15_000_000
"""Transactions that are run at most if nothing else is requested; a larger grid is sampled."""


def check_work(work: Any, *, auto: bool = False) -> None:
    """Raise `ConfigError` unless `work` is None, a number of transactions or, if that is allowed, "auto"."""
    if work is None or (auto and isinstance(work, str) and work == "auto"):
        return
    if isinstance(work, bool) or not isinstance(work, int | float) or not isfinite(work) or work <= 0:
        words = ", 'auto'" if auto else ""
        raise ConfigError(f"work={work!r}: must be a number of transactions above 0{words}, or None for all")
