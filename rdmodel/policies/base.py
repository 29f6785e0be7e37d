"""Define the base of all cache-management policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, ClassVar, Literal

from rdmodel.common.checks import check_int
from rdmodel.errors import ConfigError

Kind = Literal["throttling", "admission", "reordering"]

Settings = Mapping[str, int | float | bool | str | tuple[float, ...]]
"""Settings of the compiled machine by name; -1 stands for unlimited."""

BEST = "best"
"""Value of an option for which `simulate` finds the best static limit."""

MAX_TABLE_ENTRIES = 1 << 12
"""Limit of the entries in a policy's table of loads or of tags."""


class Policy:
    """A cache-management policy of the simulated machine; equal policies have one type and equal options.

    `name` is the policy's name in texts. A machine has at most one policy of each `kind`.
    """

    __slots__ = ()
    name: ClassVar[str]
    kind: ClassVar[Kind]
    limit_option: ClassVar[str | None] = None
    """The option, if any, for which ``"best"`` stands for the best static limit on warps; `simulate` finds that."""

    @property
    def needs_best_limit(self) -> bool:
        """Whether an option is ``"best"``."""
        return self.limit_option is not None and bool(getattr(self, self.limit_option) == BEST)

    def settings(self) -> Settings:
        """Return the settings of the compiled machine that make it follow this policy.

        The compiled machine reads the settings of each kind at one place: `_read_throttling` in
        ``rdmodel/simulator/_scheduling.pyx``, `_read_admission` in ``_admission.pyx`` and `_read_reordering` in
        ``_reorder.pyx``. The parameters there list the names and the values of a machine without the policy.
        """
        raise ConfigError(f"policy {self.name!r}: the compiled machine has no settings for it")


def check_described(value: Any) -> None:
    """Raise `ConfigError` unless a policy or an index function of the user can be described in results."""
    if not is_dataclass(value) or not isinstance(getattr(value, "name", None), str):
        raise ConfigError(
            f"{type(value).__name__}: must be a dataclass with a class variable 'name', which results contain"
        )


def check_limit(name: str, limit: Any, least: int) -> None:
    """Raise `ConfigError` unless `limit` is ``"best"`` or a whole number of at least `least`."""
    if isinstance(limit, str):
        if limit != BEST:
            raise ConfigError(f"{name}={limit!r}: must be a whole number or {BEST!r}")
        return
    check_int(name, limit, least)


def check_table(name: str, entries: Any) -> None:
    """Raise `ConfigError` unless `entries` is a whole number from 1 to `MAX_TABLE_ENTRIES`."""
    check_int(name, entries, 1)
    if entries > MAX_TABLE_ENTRIES:
        raise ConfigError(f"{name}={entries}: must be at most {MAX_TABLE_ENTRIES}")
