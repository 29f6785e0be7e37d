"""Load the modules of a package when one of its names is used, so that a command loads only what it needs (PEP 562).

Type checkers read the names from the ``.pyi`` file beside the package; a test compares both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]], modules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Parameters
    ----------
    package
        Full name of the package.
    homes
        Names by the full name of the module that defines them.
    modules
        Names of public modules of the package.
    """
    home = {name: module for module, names in homes.items() for name in names}
    public = sorted([*home, *modules])

    def get(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: public, public
