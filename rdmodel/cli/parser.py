"""Define the argument parser, which reports a mistake in one line, and the types of option values."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from rdmodel.common.numerals import read_decimal, read_integer
from rdmodel.errors import shorten_message, unknown

MAX_SIZE_BYTES = 1 << 60
"""The largest size, more than any machine has, and small enough for the 64-bit limits of the system."""


class HelpFormatter(argparse.HelpFormatter):
    """A help formatter that measures the names of commands with their indentation, so that their texts line up."""

    def add_argument(self, action: argparse.Action) -> None:
        """Add an action; argparse before Python 3.13 ignores the indentation of subcommands."""
        super().add_argument(action)
        for subaction in self._iter_indented_subactions(action):
            self._action_max_length = max(self._action_max_length, self._current_indent + len(subaction.dest))


class Checker(argparse.HelpFormatter):
    """The formatter with which argparse checks options when they are declared; it does not ask for the terminal."""

    def __init__(self, prog: str, width: int = 80) -> None:
        super().__init__(prog, width=width)


class Parser(argparse.ArgumentParser):
    """An argument parser that reports a mistake in one line and suggests similar names."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"formatter_class": Checker, **kwargs})
        # argparse would take "-5:3" for an option; it is a value that is out of range.
        self._negative_number_matcher = re.compile(r"^-\d.*$")

    def format_help(self) -> str:
        """Return the help in the width of the terminal."""
        self.formatter_class = HelpFormatter
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        print(f"{self.prog}: error: {shorten_message(message)} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help or a version; argparse would ignore that it cannot be written."""
        (file or sys.stderr).write(message)

    def all_names(self) -> list[str]:
        """Return the long and short names of all options."""
        return list(self._option_string_actions)

    def option_names(self) -> list[str]:
        """Return the long names of all options."""
        return [option for option in self._option_string_actions if option.startswith("--")]


class OneOf:
    """An argparse type that accepts the values in `allowed`; its error suggests similar ones."""

    def __init__(self, noun: str, allowed: Iterable[str]) -> None:
        self.noun = noun
        self.allowed = list(allowed)

    def __call__(self, text: str) -> str:
        """Return a value that is allowed; raise `argparse.ArgumentTypeError` for another one."""
        if text not in self.allowed:
            raise argparse.ArgumentTypeError(unknown(self.noun, text, self.allowed))
        return text


def whole_number(text: str) -> int:
    """Read a whole number of at most 64 bits."""
    try:
        return read_integer(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r:.60} is not {error}") from None


def finite_number(text: str) -> float:
    """Read a finite number."""
    try:
        return read_decimal(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r:.60} is not {error}") from None


def finite_number_or(word: str) -> Callable[[str], float | str]:
    """Return an argparse type that accepts a finite number or `word`."""

    def check(text: str) -> float | str:
        return word if text == word else finite_number(text)

    return check


def size_with_unit(hint: str = "") -> Callable[[str], int]:
    """Return an argparse type that reads ``512M`` or ``1.5G`` as bytes; `hint` ends the message for a bare number."""

    def check(text: str) -> int:
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([KMGT])", text)
        if not match:
            also = hint if re.fullmatch(r"[0-9]+", text) else ""
            raise argparse.ArgumentTypeError(f"{text!r:.60} is not a size with a unit, such as 512M or 2G{also}")
        size = float(match[1]) * (1 << 10 * (1 + "KMGT".index(match[2])))
        if size > MAX_SIZE_BYTES:
            raise argparse.ArgumentTypeError(f"{text!r:.60} is too large: the largest size is {MAX_SIZE_BYTES >> 40}T")
        return int(size)

    return check


def whole_number_or(word: str) -> Callable[[str], int | str]:
    """Return an argparse type that accepts a whole number or `word`."""

    def check(text: str) -> int | str:
        return word if text == word else whole_number(text)

    return check


def assignment(text: str) -> tuple[str, str]:
    """Read ``name=value``."""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not name=value")
    return name, value


def shard(text: str) -> tuple[int, int]:
    """Read ``I/N``, a part of a whole and the number of parts."""
    if not re.fullmatch(r"[0-9]+/[0-9]+", text):
        raise argparse.ArgumentTypeError(f"{text!r:.60} is not I/N, such as 3/40")
    part, parts = map(whole_number, text.split("/"))
    if not 1 <= part <= parts:
        raise argparse.ArgumentTypeError(f"{text!r:.60} is not I/N with I of 1 to N")
    return part, parts


def dimensions(text: str) -> tuple[int, int, int]:
    """Read ``X``, ``X,Y`` or ``X,Y,Z``."""
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(re.fullmatch(r"[0-9]+", part) for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r:.60} is not X,Y,Z, such as 16,16,1")
    x, y, z = map(whole_number, (*parts, "1", "1")[:3])
    return x, y, z


def shape_expressions(text: str) -> tuple[str, ...]:
    """Read ``X``, ``X,Y`` or ``X,Y,Z``, each of which may be an expression with commas in its parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    if len(parts) > 3 or not all(part.strip() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r:.60} is not X,Y,Z, such as 16,16,1")
    return tuple(parts)


def miss_latency(text: str) -> tuple[int, float | None]:
    """Read ``MIN`` or ``MIN:SIGMA``."""
    least, colon, sigma = text.partition(":")
    return whole_number(least), finite_number(sigma) if colon else None


def l1_geometry(text: str) -> tuple[str, ...]:
    """Read ``SIZE:WAYS``, ``SIZE:WAYS:LINE`` or ``SIZE:WAYS:LINE:SECTOR``."""
    parts = tuple(text.split(":"))
    if len(parts) not in (2, 3, 4) or not all(parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not SIZE:WAYS:LINE:SECTOR, such as 48K:6:128 or 48K:6:128:32")
    return parts
