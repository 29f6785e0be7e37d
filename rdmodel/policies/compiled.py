"""Define policies whose decisions are in compiled libraries (``rdmodel_policy.h``)."""

from __future__ import annotations

import re
from dataclasses import asdict, make_dataclass
from dataclasses import field as dataclass_field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rdmodel.errors import ConfigError
from rdmodel.policies.base import Policy, Settings

if TYPE_CHECKING:
    from rdmodel.plugins.table import PluginTable

LIBRARY_SUFFIXES = (".so", ".dylib", ".pyd", ".dll")
"""Endings of the names of libraries."""

LIBRARY = re.compile(rf"(?P<path>.*({'|'.join(re.escape(suffix) for suffix in LIBRARY_SUFFIXES)}))(:(?P<options>.*))?")
"""A text that names a library, and maybe options."""


class CompiledPolicy(Policy):
    """A policy in a library of the user; there is a class for each library (`rdmodel.policies.load_policy`).

    The library's table says which options there are. `digest`, a part of the SHA-256 of the library, is in results and
    in the keys of answers, so that the answers of an older build are not taken for those of a newer one.
    """

    __slots__ = ()
    table: ClassVar[PluginTable]

    @property
    def digest(self) -> str:
        """The digest of the library."""
        return self.table.digest

    def __post_init__(self) -> None:
        """Check the options."""
        for option in self.table.options:
            option.check(getattr(self, option.name))

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        options = tuple(float(getattr(self, option.name)) for option in self.table.options)
        return {"rule": "plugin", "table": self.table.address, "options": options}

    def __reduce__(self) -> tuple[Any, ...]:
        """Let another process load the library again."""
        return _remake, (str(self.table.path), self.table.digest, asdict(self))  # type: ignore[call-overload]


@cache
def _policy_of(path: Path) -> type[CompiledPolicy]:
    from rdmodel.plugins.table import read_table  # only users of libraries need the types of their tables

    table = read_table(path)
    options = [
        (option.name, int if option.whole else float, dataclass_field(default=option.value)) for option in table.options
    ]
    return make_dataclass(
        "".join(word.capitalize() for word in table.name.split("-")),
        options,
        bases=(CompiledPolicy,),
        namespace={"__doc__": table.description, "name": table.name, "kind": table.kind, "table": table},
        frozen=True,
        kw_only=True,
    )


def compiled_policy(path: Path) -> type[CompiledPolicy]:
    """Return the class of the policy in a library, one for each path; raise `ConfigError` if the library has none."""
    return _policy_of(path.resolve())


def _remake(path: str, digest: str, options: dict[str, Any]) -> CompiledPolicy:
    cls = compiled_policy(Path(path))
    if cls.table.digest != digest:
        raise ConfigError(f"{path}: has changed since the policy {cls.name!r} was loaded from it")
    return cls(**options)


def library_of(text: str) -> tuple[str, str | None] | None:
    """Return the path and the options in a text that names a library; None if it names none."""
    match = LIBRARY.fullmatch(text)
    return None if match is None else (match["path"], match["options"])
