"""Read launch files: TOML files that list launches of kernels, with their shapes and arguments.

::

    source = "scan.cu"             # beside this file; CUDA or PTX
    defines = { TILE = 32 }
    options = ["-use_fast_math"]   # of nvcc
    block = 256                    # default of all launches

    [args]                         # shared: all launches work on the same arrays
    n = 100000
    in = "int[n]:random:1:10"
    out = "int[n]"
    sums = "int[391]"

    [variables]                    # contents of __constant__ and __device__ variables
    weights = "float[16]:random:1" # in `args`: "symbol:weights" = ..., for one launch and those after it

    [[launch]]
    kernel = "scan_blocks"
    grid = 391
    shared = 1024
    unroll = 2                     # of loops that the PTX leaves rolled; "none": basic blocks do not wait

    [[launch]]
    kernel = "scan_add"
    grid = 391
    args = { n = 1000, in = "out" }   # arguments of this launch: a value, or the name of a shared one

A launch takes the shared arguments whose names match its parameters. A file without ``[[launch]]`` is one launch.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.regular_files import read_bounded_text
from rdmodel.errors import ConfigError, LaunchError, unknown
from tracegen.cuda.arguments import ArgumentValue, KernelParameter, find_parameter, parse_arguments
from tracegen.cuda.variables import merge_variables, parse_variables, split_symbols
from tracegen.limits import MAX_BLOCK_THREADS
from tracegen.simt.kernel_trace import shape
from tracegen.unrolling import NEVER, Unroll, parse_unroll

MAX_FILE_BYTES = 1 << 22
"""Largest launch file in bytes; the tables of a larger one would take gigabytes."""

_LAUNCH_FIELDS = ("kernel", "grid", "block", "shared", "cluster", "unroll")
"""Fields of a launch, which may also stand at the top as defaults; `args` has different meanings there."""

_FILE_FIELDS = ("source", "defines", "includes", "options", "architecture", "args", "variables", "launch")
"""Fields of the whole file."""


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """One launch of a file: the source name of its `kernel` (None: the only one), its shape, and its own arguments."""

    kernel: str | None
    grid: tuple[int, int, int]
    block: tuple[int, int, int] | None
    shared: int
    cluster: tuple[int, int, int] | None
    unroll: Unroll
    args: Mapping[str, ArgumentValue]
    names: Mapping[str, str]
    """Names of shared arguments, by the parameters of the launch that take them."""
    variables: Mapping[str, ArgumentValue]
    """Variables that are filled before the launch."""


@dataclass(frozen=True, slots=True)
class LaunchFile:
    """A parsed launch file: the program, the shared arguments, the contents of variables, and the launches in order."""

    path: Path
    source: Path
    defines: Mapping[str, object]
    includes: tuple[Path, ...]
    options: tuple[str, ...]
    architecture: str | None
    args: Mapping[str, ArgumentValue]
    variables: Mapping[str, ArgumentValue]
    launches: tuple[PlannedLaunch, ...]

    def arguments(
        self, plan: PlannedLaunch, parameters: Sequence[KernelParameter]
    ) -> tuple[dict[str, ArgumentValue], set[str]]:
        """Return the arguments of a launch by name, and the names of the shared arguments among them.

        Arguments of the launch take precedence; shared arguments are matched with its parameters by name.
        """
        launch_parameters = {find_parameter(parameters, name) for name in (*plan.args, *plan.names)}
        shared = [name for name in self.args if find_parameter(parameters, name) not in {None, *launch_parameters}]
        named = {name: self.args[shared_name] for name, shared_name in plan.names.items()}
        return {**{name: self.args[name] for name in shared}, **named, **plan.args}, {*shared, *plan.names.values()}


def read_launch_file(path: str | Path) -> LaunchFile:
    """Read a launch file in the format described in the module docstring; create its arrays and read its data files.

    Raises `ConfigError` and `LaunchError`, which name the file, the field and the allowed values, and `TraceError` for
    a file that cannot be read.
    """
    path = Path(path)
    text = read_bounded_text(path, MAX_FILE_BYTES)
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also raised by numbers of thousands of digits and by deep nesting
        raise ConfigError(f"{path}: {error}") from None
    try:
        return _launch_file(path, table)
    except (ConfigError, LaunchError) as error:
        raise type(error)(f"{path}: {error}") from None


def _launch_file(path: Path, table: dict[str, Any]) -> LaunchFile:
    _check_fields(table, _FILE_FIELDS + _LAUNCH_FIELDS, "field")
    source = _take_field(table, "source", str, "a text", required=True)
    defines = _take_field(table, "defines", dict, "a table", default={})
    includes = _take_field(table, "includes", list, "a list of folders", default=[])
    if not all(isinstance(folder, str) for folder in includes):
        raise ConfigError("includes: must be a list of folders, as texts")
    options = _take_field(table, "options", list, "a list of texts", default=[])
    if not all(isinstance(option, str) for option in options):
        raise ConfigError('options: must be a list of texts, such as ["-use_fast_math"]')
    launches = _take_field(table, "launch", list, "tables [[launch]]", default=[{}])
    if not launches or not all(isinstance(launch, dict) for launch in launches):
        raise ConfigError("launch: must be tables [[launch]]")
    sizes = {name: value for name, value in defines.items() if isinstance(value, int) and not isinstance(value, bool)}
    given, symbols = split_symbols(_take_field(table, "args", dict, "a table", default={}))
    args = parse_arguments(given, sizes, path.parent)
    common = {name: table[name] for name in _LAUNCH_FIELDS if name in table}
    known = sizes | {name: value for name, value in args.items() if isinstance(value, int)}
    variables = merge_variables(_take_field(table, "variables", dict, "a table", default={}), symbols)
    plans = tuple(_planned_launch({**common, **launch}, args, known, path.parent) for launch in launches)
    return LaunchFile(
        path=path,
        source=path.parent / source,
        defines={name: int(v) if isinstance(v, bool) else v for name, v in defines.items()},
        includes=tuple(path.parent / folder for folder in includes),
        options=tuple(options),
        architecture=_take_field(table, "architecture", str, "a text", default=None),
        args=args,
        variables=parse_variables(variables, known, path.parent, args),
        launches=plans,
    )


def _planned_launch(
    table: dict[str, Any], shared: Mapping[str, ArgumentValue], sizes: Mapping[str, int], folder: Path
) -> PlannedLaunch:
    _check_fields(table, (*_LAUNCH_FIELDS, "args"), "field of a launch")
    launch_args, names = {}, {}
    given, symbols = split_symbols(_take_field(table, "args", dict, "a table", default={}))
    for name, value in given.items():
        if isinstance(value, str) and value in shared:
            names[name] = value
        else:
            launch_args[name] = value
    if "grid" not in table:
        raise ConfigError("grid: is missing; give one for the launch or for the whole file")
    bytes_shared = _take_field(table, "shared", int, "a number of bytes", default=0)
    return PlannedLaunch(
        kernel=_take_field(table, "kernel", str, "a text", default=None),
        grid=shape("grid", table["grid"]),
        block=shape("block", table["block"], limit=MAX_BLOCK_THREADS) if "block" in table else None,
        shared=bytes_shared,
        cluster=shape("cluster", table["cluster"]) if "cluster" in table else None,
        unroll=parse_unroll(table["unroll"]) or NEVER if "unroll" in table else None,
        args=parse_arguments(launch_args, sizes, folder, shared),
        names=names,
        variables=parse_variables(symbols, sizes, folder, shared),
    )


def _check_fields(table: Mapping[str, Any], names: tuple[str, ...], noun: str) -> None:
    for name in table:
        if name not in names:
            raise ConfigError(unknown(noun, name, names))


def _take_field(
    table: Mapping[str, Any], name: str, kind: type, allowed: str, *, default: Any = None, required: bool = False
) -> Any:
    if name not in table:
        if required:
            raise ConfigError(f"{name}: is missing; must be {allowed}")
        return default
    if not isinstance(table[name], kind) or isinstance(table[name], bool):
        raise ConfigError(f"{name}={table[name]!r}: must be {allowed}")
    return table[name]
