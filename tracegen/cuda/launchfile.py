"""Launch files: TOML that says which kernels run, with what shape and on which arrays.

::

    source = "scan.cu"             # beside this file; CUDA or PTX
    defines = { TILE = 32 }
    block = 256                    # for every launch that says nothing else

    [args]                         # shared: all launches work on the same arrays
    n = 100000
    in = "int[n]:random:1:10"
    out = "int[n]"
    sums = "int[391]"

    [[launch]]
    kernel = "scan_blocks"
    grid = 391
    shared = 1024

    [[launch]]
    kernel = "scan_add"
    grid = 391
    args = { n = 1000, in = "out" }   # this launch's own: a value, or the name of a shared one

A launch takes the shared arguments that have its parameters' names. Without ``[[launch]]`` the file is one launch.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rdmodel.errors import ConfigError, LaunchError, unknown
from tracegen.cuda.arguments import Parameter, Value, parse_argument, parse_arguments, position
from tracegen.cuda.source import read_text
from tracegen.simt.kernel_trace import MAX_BLOCK, shape

_LAUNCH = ("kernel", "grid", "block", "shared")
_FILE = ("source", "defines", "includes", "args", "launch")


@dataclass(frozen=True, slots=True)
class Plan:
    """One launch of a file: `kernel` as the source calls it (None: the only one), its shape, and its own arguments."""

    kernel: str | None
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    args: Mapping[str, Value]
    names: Mapping[str, str]
    """Parameters that stand for a shared argument of another name."""


@dataclass(frozen=True, slots=True)
class LaunchFile:
    """A launch file as values: the program, the arguments that the launches share, and the launches in order."""

    path: Path
    source: Path
    defines: Mapping[str, object]
    includes: tuple[Path, ...]
    args: Mapping[str, Value]
    launches: tuple[Plan, ...]

    def arguments(self, plan: Plan, parameters: Sequence[Parameter]) -> tuple[dict[str, Value], set[str]]:
        """Return a launch's arguments by name, and which shared ones are among them.

        Its own come first; of the shared ones it takes those that its parameters are called.
        """
        own = {position(parameters, name) for name in (*plan.args, *plan.names)}
        shared = [name for name in self.args if position(parameters, name) not in {None, *own}]
        named = {name: self.args[of] for name, of in plan.names.items()}
        return {**{name: self.args[name] for name in shared}, **named, **plan.args}, {*shared, *plan.names.values()}


def read_launch_file(path: str | Path) -> LaunchFile:
    """Return what a launch file says; see the module for its form.

    Arrays are made, data files read. Raises `ConfigError` and `LaunchError` that name the file, the field and what is
    allowed, and `TraceError` where a file cannot be read.
    """
    path = Path(path)
    text = read_text(path)
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of numbers with thousands of digits, and of lists within lists, too
        raise ConfigError(f"{path}: {error}") from None
    try:
        return _launch_file(path, table)
    except (ConfigError, LaunchError) as error:
        raise type(error)(f"{path}: {error}") from None


def _launch_file(path: Path, table: dict[str, Any]) -> LaunchFile:
    _known(table, _FILE + _LAUNCH, "field")
    source = _typed(table, "source", str, "a text", required=True)
    defines = _typed(table, "defines", dict, "a table", default={})
    includes = _typed(table, "includes", list, "a list of folders", default=[])
    if not all(isinstance(folder, str) for folder in includes):
        raise ConfigError("includes: must be a list of folders")
    launches = _typed(table, "launch", list, "tables [[launch]]", default=[{}])
    if not launches or not all(isinstance(launch, dict) for launch in launches):
        raise ConfigError("launch: must be tables [[launch]]")
    sizes = {name: value for name, value in defines.items() if isinstance(value, int) and not isinstance(value, bool)}
    args = parse_arguments(_typed(table, "args", dict, "a table", default={}), sizes, path.parent)
    common = {name: table[name] for name in _LAUNCH if name in table}
    known = sizes | {name: value for name, value in args.items() if isinstance(value, int)}
    plans = tuple(_plan({**common, **launch}, args, known, path.parent) for launch in launches)
    return LaunchFile(
        path=path,
        source=path.parent / source,
        defines={name: int(v) if isinstance(v, bool) else v for name, v in defines.items()},
        includes=tuple(path.parent / folder for folder in includes),
        args=args,
        launches=plans,
    )


def _plan(table: dict[str, Any], shared: Mapping[str, Value], sizes: Mapping[str, int], folder: Path) -> Plan:
    _known(table, (*_LAUNCH, "args"), "field of a launch")
    own, names = {}, {}
    for name, value in _typed(table, "args", dict, "a table", default={}).items():
        if isinstance(value, str) and value in shared:
            names[name] = value
        else:
            own[name] = parse_argument(value, name, sizes, folder) if isinstance(value, str) else value
    for name in ("grid", "block"):
        if name not in table:
            raise ConfigError(f"{name}: is missing")
    bytes_shared = _typed(table, "shared", int, "a number of bytes", default=0)
    return Plan(
        kernel=_typed(table, "kernel", str, "a text", default=None),
        grid=shape("grid", table["grid"]),
        block=shape("block", table["block"], limit=MAX_BLOCK),
        shared=bytes_shared,
        args=parse_arguments(own),
        names=names,
    )


def _known(table: Mapping[str, Any], names: tuple[str, ...], what: str) -> None:
    for name in table:
        if name not in names:
            raise ConfigError(unknown(what, name, names))


def _typed(
    table: Mapping[str, Any], name: str, kind: type, what: str, *, default: Any = None, required: bool = False
) -> Any:
    if name not in table:
        if required:
            raise ConfigError(f"{name}: is missing")
        return default
    if not isinstance(table[name], kind) or isinstance(table[name], bool):
        raise ConfigError(f"{name}={table[name]!r}: must be {what}")
    return table[name]
