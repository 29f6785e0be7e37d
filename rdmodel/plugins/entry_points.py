"""Find the policies and index functions that installed packages offer by entry point."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from rdmodel.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Group = Literal["rdmodel.policies", "rdmodel.index_functions"]
"""The groups of entry points that are looked up."""


@cache
def installed(group: Group) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points of a group by name; several packages may offer one name. Nothing is imported."""
    from importlib.metadata import entry_points  # takes longer to import than a prediction takes

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def load_installed(group: Group, name: str) -> Any:
    """Return the object that a package offers under a name; raise `ConfigError` if there is none, or it fails."""
    points = installed(group).get(name, ())
    if len({point.value for point in points}) != 1:
        packages = ", ".join(package_of(point) for point in points)
        raise ConfigError(f"{group}: {name!r} is offered by {packages or 'no package'}; exactly one must offer it")
    try:
        return points[0].load()
    except Exception as error:  # an import may raise anything
        raise ConfigError(f"{group}: {name!r} of {package_of(points[0])} cannot be loaded: {error!r}") from None


def package_of(point: EntryPoint) -> str:
    """Return the name and the version of the package that an entry point belongs to."""
    return "a package without metadata" if point.dist is None else f"{point.dist.name} {point.dist.version}"
