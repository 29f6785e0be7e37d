"""Find index functions by name, those of installed packages included."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from rdmodel.errors import ConfigError, unknown
from rdmodel.plugins.entry_points import Group, installed, load_installed
from rdmodel.policies.index import INDEX_FUNCTIONS, IndexFunction

INDEX_GROUP: Group = "rdmodel.index_functions"
"""The entry points by which packages offer index functions: subclasses of `IndexFunction`."""


def find_index_function(name: str) -> type[IndexFunction]:
    """Return the index function called `name`: one of `INDEX_FUNCTIONS`, or of an installed package.

    Raises `ConfigError` for an unknown name, with the near misses, and for a package that cannot give its function.
    """
    if name in INDEX_FUNCTIONS:
        return INDEX_FUNCTIONS[name]
    if name not in installed(INDEX_GROUP):
        raise ConfigError(unknown("index function", name, index_names()))
    made = load_installed(INDEX_GROUP, name)
    if not isinstance(made, type) or not issubclass(made, IndexFunction):
        raise ConfigError(f"{INDEX_GROUP}: {name!r} is {made!r:.60}; must be a subclass of IndexFunction")
    if getattr(made, "name", None) != name or not is_dataclass(made):
        raise ConfigError(f"{INDEX_GROUP}: {name!r} leads to {made.__name__}, which must be a dataclass of that name")
    return made


def index_names() -> list[str]:
    """Return the names of all index functions that `find_index_function` knows; load none of them."""
    return list(dict.fromkeys([*INDEX_FUNCTIONS, *installed(INDEX_GROUP)]))


def index_function(name: str, **parameters: Any) -> IndexFunction:
    """Return the index function called `name`; raise `ConfigError` for an unknown name or parameter."""
    make = find_index_function(name)
    known = {f.name: f for f in fields(make)}  # type: ignore[arg-type]
    for parameter in parameters:
        if not known:
            raise ConfigError(f"index={name!r}: has no parameters; leave out {parameter!r}")
        if parameter not in known:
            raise ConfigError(unknown(f"parameter of index={name!r}:", parameter, known))
    for parameter, f in known.items():
        if parameter not in parameters and f.default is MISSING:
            raise ConfigError(f"index={name!r}: parameter {parameter!r} is missing")
    return make(**parameters)
