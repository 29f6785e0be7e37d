"""Name the kinds of origins of misses; the help of the commands lists them without the rest of the results."""

from __future__ import annotations

from typing import Literal, get_args

Origin = Literal["line", "array", "instruction"]
"""The kinds of origins: lines of the source, arrays or ranges of addresses, and instructions."""

ORIGINS: tuple[Origin, ...] = get_args(Origin)
"""Names of the kinds of origins."""
