"""Choose among the launches of a file: by number, or by a pattern of the kernel's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any

from rdmodel.common.kernel_names import base_name, without_parameters
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import TraceError
from rdmodel.trace import Launch

MAX_LISTED_LAUNCHES = 5
"""Maximum number of launches that an error message lists."""

_MAX_LISTED_NAME_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class LaunchEntry:
    """A launch that a file contains, and its number there."""

    number: int
    launch: Launch

    def to_dict(self) -> dict[str, Any]:
        """Return the number and the fields of the launch as plain values."""
        plain = asdict(self.launch)
        del plain["arrays"]
        return {"number": self.number, **plain}


class LaunchChoice:
    """The user's choice of a launch: `kernel` is a number, a name, a pattern (``*gemm*``), or None for the only one.

    A name may omit the parameters, and everything else but the name of the function in the source: ``scale`` also
    matches ``void ns::scale<float>(float*, int)`` and ``_ZN2ns5scaleIfEEvPf``.
    """

    def __init__(self, file: str, kernel: str | int | None) -> None:
        self._file = file
        self._kernel = str(kernel) if isinstance(kernel, int) else kernel

    def accepts(self, number: int, name: str) -> bool:
        """Tell whether a launch matches the choice."""
        wanted = self._kernel
        if wanted is None:
            return True
        if wanted.isdecimal():
            return int(wanted) == number
        candidates = {name, without_parameters(name), base_name(name)}
        return any(candidate == wanted or fnmatchcase(candidate, wanted) for candidate in candidates)

    def ambiguity_error(self, launches: Sequence[tuple[int, str]], *, more: bool = False) -> TraceError:
        """Return the error for several matching launches; `more` says that the file may contain further ones."""
        those = "several launches" if self._kernel is None else f"several launches that {self._kernel!r} matches"
        first = ", the first are" if more or len(launches) > MAX_LISTED_LAUNCHES else ":"
        return TraceError(
            f"{self._file}: holds {those}{first} {_list_launches(launches)}; "
            "--kernel ID or PATTERN picks one (rdmodel info --launches lists all)"
        )

    def no_match_error(self, launches: Sequence[tuple[int, str]]) -> TraceError:
        """Return the error for a choice without a match; `launches` are the first ones of the file."""
        if not launches:
            return TraceError(f"{self._file}: holds no launch")
        return TraceError(
            f"{self._file}: no launch matches kernel={self._kernel!r}; there are {_list_launches(launches)}"
        )


def _list_launches(launches: Sequence[tuple[int, str]]) -> str:
    entries = [f"{number} ({_shorten(name)})" for number, name in launches[:MAX_LISTED_LAUNCHES]]
    return ", ".join(entries) + (", ..." if len(launches) > MAX_LISTED_LAUNCHES else "")


def _shorten(name: str) -> str:
    limit = _MAX_LISTED_NAME_CHARACTERS
    return name if len(name) <= limit else name[: limit - 3] + "..."
