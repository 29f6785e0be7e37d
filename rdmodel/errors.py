"""Define the errors of rdmodel, as one tree below `RdmodelError`.

A message names the field, the value and what is allowed; for files, also the line. Each error is also a built-in one
(`ValueError` or `RuntimeError`), so that code which does not import rdmodel can catch it.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

MAX_MESSAGE_LENGTH = 2000
"""Largest number of characters in a message."""


class RdmodelError(Exception):
    """Base of all errors that rdmodel raises on purpose.

    A message may quote a file. It is therefore one printable line of at most `MAX_MESSAGE_LENGTH` characters. In a
    subclass that sets `verbatim`, it keeps its line breaks and length; unprintable characters are escaped, too.
    """

    verbatim = False

    def __init__(self, message: object = "", *more: object) -> None:
        super().__init__((escape_lines if self.verbatim else shorten_message)(str(message)), *more)


class ConfigError(RdmodelError, ValueError):
    """A configuration that cannot exist: an impossible geometry, an unknown option, a value out of range."""


class TooLargeError(ConfigError):
    """A size that needs more memory than there is, refused before anything is made."""


class TraceError(RdmodelError, ValueError):
    """A trace, or a file that should hold one, is malformed; the message says where."""


class LaunchError(RdmodelError, ValueError):
    """A launch that cannot run on the GPU: a block that exceeds a limit of the SM, an empty grid."""


class SimulationError(RdmodelError, RuntimeError):
    """A simulation that cannot continue."""


def escape_unprintable(text: str) -> str:
    """Return a text with escapes for unprintable characters, such as line breaks and lone surrogates."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else ascii(c)[1:-1] for c in text)


def escape_lines(text: str) -> str:
    """Return a text with escapes for unprintable characters, except line breaks and tabs."""
    return "\n".join(
        "\t".join(escape_unprintable(part) for part in line.removesuffix("\r").split("\t")) for line in text.split("\n")
    )


def shorten_message(text: str) -> str:
    """Return a text as one printable line; cut out the middle of one that exceeds `MAX_MESSAGE_LENGTH` characters."""
    limit = MAX_MESSAGE_LENGTH
    plain = escape_unprintable(text if len(text) <= 2 * limit else text[:limit] + text[-limit:])
    half = limit // 2
    return plain if len(plain) <= limit else f"{plain[: half - 5]} ... {plain[-half:]}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` with the names in `known` that resemble `name`; empty if none does."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return "; did you mean " + " or ".join(repr(c) for c in close) + "?" if close else ""


def unknown(noun: str, name: object, known: Iterable[str]) -> str:
    """Return the message for an unknown `name` of kind `noun`: similar names if there are any, otherwise all names."""
    names = list(known)
    hint = suggestion(str(name), names)
    return f"unknown {noun} {str(name)!r}" + (hint or "; known: " + ", ".join(names))
