"""Which launch of a file with several is meant: by number, or by a pattern of the kernel's name."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from rdmodel.errors import TraceError

LISTED = 5
"""How many launches an error lists."""

_LONGEST_NAME = 60


class Choice:
    """A launch that is asked for: ``kernel`` is a number, a name, a pattern (``*gemm*``), or None for the only one.

    A name may leave out the parameters: ``scale`` means ``scale(float*, int)``, too.
    """

    def __init__(self, file: str, kernel: str | None) -> None:
        self._file = file
        self._kernel = kernel

    def accepts(self, number: int, name: str) -> bool:
        """Tell whether a launch is one that is meant."""
        wanted = self._kernel
        if wanted is None:
            return True
        if wanted.isdecimal():
            return int(wanted) == number
        return any(candidate == wanted or fnmatchcase(candidate, wanted) for candidate in (name, name.split("(")[0]))

    def several(self, launches: Sequence[tuple[int, str]]) -> TraceError:
        """Return the error for more than one launch that is meant; `launches` are the first of them."""
        those = "several launches" if self._kernel is None else f"several launches that {self._kernel!r} matches"
        return TraceError(f"{self._file}: holds {those}: {_listed(launches)}; --kernel ID or PATTERN picks one")

    def none(self, launches: Sequence[tuple[int, str]]) -> TraceError:
        """Return the error for no launch that is meant; `launches` are the first that there are."""
        if not launches:
            return TraceError(f"{self._file}: holds no launch")
        return TraceError(f"{self._file}: no launch matches kernel={self._kernel!r}; there are {_listed(launches)}")


def _listed(launches: Sequence[tuple[int, str]]) -> str:
    shown = [f"{number} ({_short(name)})" for number, name in launches[:LISTED]]
    return ", ".join(shown) + (", ..." if len(launches) > LISTED else "")


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."
