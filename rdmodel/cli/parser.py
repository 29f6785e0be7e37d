"""The parser that answers mistakes in one line, and the types of what options take."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

from rdmodel.errors import unknown


class Parser(argparse.ArgumentParser):
    """A parser that answers a mistake with one line, and with the near misses."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # "-5:3" is a value that is out of range, not an option.
        self._negative_number_matcher = re.compile(r"^-\d.*$")

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        print(f"{self.prog}: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)

    def options(self) -> list[str]:
        """Return every option string that the parser knows."""
        return [option for option in self._option_string_actions if option.startswith("--")]


def one_of(what: str, choices: Iterable[str]) -> Any:
    """Return an argparse type that accepts `choices` and names the near misses of anything else."""
    allowed = list(choices)

    def check(text: str) -> str:
        if text not in allowed:
            raise argparse.ArgumentTypeError(unknown(what, text, allowed))
        return text

    return check


def whole(text: str) -> int:
    """Read a whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def number(text: str) -> float:
    """Read a finite number."""
    from math import isfinite

    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def size_with_unit(hint: str = "") -> Any:
    """Return an argparse type for ``512M`` or ``1.5G``, in bytes; a bare number is refused, with `hint`."""

    def check(text: str) -> int:
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([KMGT])", text)
        if not found:
            also = hint if text.isdecimal() else ""
            raise argparse.ArgumentTypeError(f"{text!r} is not a size with its unit: 512M, 2G{also}")
        return int(float(found[1]) * (1 << 10 * (1 + "KMGT".index(found[2]))))

    return check


def whole_or(word: str) -> Any:
    """Return an argparse type for a whole number or `word`."""

    def check(text: str) -> int | str:
        return word if text == word else whole(text)

    return check


def assignment(text: str) -> tuple[str, str]:
    """Read ``name=value``."""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not name=value")
    return name, value


def triple(text: str) -> tuple[int, int, int]:
    """Read ``X``, ``X,Y`` or ``X,Y,Z``."""
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(p.isdecimal() for p in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not X,Y,Z")
    x, y, z = map(int, (*parts, "1", "1")[:3])
    return x, y, z


def latency(text: str) -> tuple[int, float | None]:
    """Read ``MIN`` or ``MIN:SIGMA``."""
    least, colon, sigma = text.partition(":")
    return whole(least), number(sigma) if colon else None


def geometry(text: str) -> tuple[str, ...]:
    """Read ``SIZE:WAYS`` or ``SIZE:WAYS:LINE``."""
    parts = tuple(text.split(":"))
    if len(parts) not in (2, 3) or not all(parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not SIZE:WAYS:LINE (48K:6:128)")
    return parts
