"""Everything that can go wrong, as one tree: catch `RdmodelError` to catch all of it.

A message names the field, the value and what is allowed; for files, the line. `ConfigError` and the others are
`ValueError`s as well, so code that knows nothing of rdmodel still handles them.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

LONGEST = 2000
"""Characters of a message."""


class RdmodelError(Exception):
    """Base of all errors that rdmodel raises on purpose.

    A message may quote a file: it is one line that a terminal can show whatever the file holds, of at most
    `LONGEST` characters, unless a subclass sets `verbatim`.
    """

    verbatim = False

    def __init__(self, message: object = "", *more: object) -> None:
        super().__init__(str(message) if self.verbatim else shown(str(message)), *more)


class ConfigError(RdmodelError, ValueError):
    """A configuration that cannot exist: an impossible geometry, an unknown option, a value out of range."""


class TraceError(RdmodelError, ValueError):
    """A trace, or a file that should hold one, is malformed; the message says where."""


class LaunchError(RdmodelError, ValueError):
    """A launch that cannot run on the GPU: a block that breaks a residency limit, an empty grid."""


class SimulationError(RdmodelError, RuntimeError):
    """A run that could not go on."""


def visible(text: str) -> str:
    """Return a text with escapes for what is no visible character nor a blank: line breaks, half surrogate pairs."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else ascii(c)[1:-1] for c in text)


def shown(text: str) -> str:
    """Return a text on one line, as `visible` does, without the middle of a long one."""
    plain = visible(text if len(text) <= 2 * LONGEST else text[:LONGEST] + text[-LONGEST:])
    half = LONGEST // 2
    return plain if len(plain) <= LONGEST else f"{plain[: half - 5]} ... {plain[-half:]}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the near misses of `name` among `known`, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return "; did you mean " + " or ".join(repr(c) for c in close) + "?" if close else ""


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """Return the message for an unknown `name` of kind `what`: the near misses if any, otherwise all known names."""
    names = list(known)
    hint = suggestion(str(name), names)
    return f"unknown {what} {str(name)!r}" + (hint or "; known: " + ", ".join(names))
