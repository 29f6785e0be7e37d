"""The launches of a file, and which of them is meant: by number, or by a pattern of the kernel's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

from rdmodel.common.kernel_names import base_name, without_parameters
from rdmodel.errors import TraceError
from rdmodel.trace import Launch

LISTED = 5
"""How many launches an error lists."""

_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Listed:
    """A launch that a file has, and its number there."""

    number: int
    launch: Launch

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        plain = asdict(self.launch)
        del plain["arrays"]
        return {"number": self.number, **plain}


class Choice:
    """A launch that is asked for: ``kernel`` is a number, a name, a pattern (``*gemm*``), or None for the only one.

    A name may leave out the parameters, or all but what the source calls the kernel: ``scale`` means
    ``void ns::scale<float>(float*, int)``, too, and ``_ZN2ns5scaleIfEEvPf``.
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
        candidates = {name, without_parameters(name), base_name(name)}
        return any(candidate == wanted or fnmatchcase(candidate, wanted) for candidate in candidates)

    def several(self, launches: Sequence[tuple[int, str]], *, more: bool = False) -> TraceError:
        """Return the error for more than one launch that is meant; there may be `more` than the given first ones."""
        those = "several launches" if self._kernel is None else f"several launches that {self._kernel!r} matches"
        first = ", the first are" if more or len(launches) > LISTED else ":"
        return TraceError(
            f"{self._file}: holds {those}{first} {_listed(launches)}; "
            "--kernel ID or PATTERN picks one (rdmodel info --launches lists all)"
        )

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
