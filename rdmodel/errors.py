"""Everything that can go wrong, as one tree: catch `RdmodelError` to catch all of it.

A message names the field, the value and what is allowed; for files, the line. `ConfigError` and the others are
`ValueError`s as well, so code that knows nothing of rdmodel still handles them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RdmodelError(Exception):
    """Base of all errors that rdmodel raises on purpose."""


class ConfigError(RdmodelError, ValueError):
    """A configuration that cannot exist: an impossible geometry, an unknown option, a value out of range."""


class TraceError(RdmodelError, ValueError):
    """A trace, or a file that should hold one, is malformed; the message says where."""


class LaunchError(RdmodelError, ValueError):
    """A launch that cannot run on the GPU: a block that breaks a residency limit, an empty grid."""


class SimulationError(RdmodelError, RuntimeError):
    """A run that could not go on."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the near misses of `name` among `known`, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return "; did you mean " + " or ".join(repr(c) for c in close) + "?" if close else ""


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """Return the message for an unknown `name` of kind `what`: the near misses if any, otherwise all known names."""
    names = list(known)
    hint = suggestion(str(name), names)
    return f"unknown {what} {str(name)!r}" + (hint or "; known: " + ", ".join(names))
