"""Define the parts of an affine kernel as frozen values: arrays, statements, and the kernel that holds them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from rdmodel.errors import TraceError, unknown
from rdmodel.trace import Op, Space
from tracegen.affine.expression import MOST, Expression, parse, parse_condition, shown

TYPES = {
    "float32": 4,
    "float64": 8,
    "float16": 2,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "complex64": 8,
    "complex128": 16,
}
"""Types of elements, as NumPy calls them, and their bytes."""

SPACES = tuple(space.name.lower() for space in Space)

BLOCK_IDS = ("block_x", "block_y", "block_z")
THREAD_IDS = ("thread_x", "thread_y", "thread_z")
GLOBAL_IDS = ("x", "y", "z")
BLOCK_SIZES = ("block_size_x", "block_size_y", "block_size_z")
RESERVED = frozenset(
    (*BLOCK_IDS, *THREAD_IDS, *GLOBAL_IDS, *BLOCK_SIZES, "min", "max", "kernel", "self", "block", "blocks", "base")
)
"""Names that mean something in expressions or to `tracegen.affine_kernel`, and that no parameter or loop may have."""

MOST_STATEMENTS = 4096
MOST_NESTED = 24
"""Statements of a kernel, and how deep they may stand within each other."""

MOST_GAP = 1 << 20
"""Instructions of one gap."""

_NAME = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)
_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True)
class AffineArray:
    """An array: the extent of each dimension (row-major), the `type` of its elements, and its memory space."""

    shape: tuple[Expression, ...]
    type: str = "float32"
    space: str = "global"

    def __post_init__(self) -> None:
        """Check types; whoever declares the array adds its name to what is raised."""
        shape = (self.shape,) if isinstance(self.shape, int | str) else self.shape
        object.__setattr__(self, "shape", expressions("shape", shape))
        for name, value, allowed in (("type", self.type, TYPES), ("space", self.space, SPACES)):
            if not isinstance(value, str) or value not in allowed:
                raise TraceError(unknown(name, f"{value!s:.60}", allowed))


@dataclass(frozen=True, slots=True)
class Access:
    """An access to one element per active thread, by an index per dimension of the array."""

    array: str
    subscripts: tuple[Expression, ...]
    op: ClassVar[Op]

    def __post_init__(self) -> None:
        """Check types and syntax."""
        what = f"{self.op.name.lower()} of {self.array!s:.60}"
        if not isinstance(self.array, str):
            raise TraceError(f"{self.op.name.lower()}: {self.array!r:.60}: must be the name of an array")
        given = (self.subscripts,) if isinstance(self.subscripts, int | str) else self.subscripts
        with within(what):
            object.__setattr__(self, "subscripts", expressions("subscript", given))


class Load(Access):
    """A load."""

    __slots__ = ()
    op = Op.LOAD


class Store(Access):
    """A store."""

    __slots__ = ()
    op = Op.STORE


class Atomic(Access):
    """An atomic update."""

    __slots__ = ()
    op = Op.ATOMIC


@dataclass(frozen=True, slots=True)
class Barrier:
    """``__syncthreads()``."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The next memory instruction of every active warp waits for all its earlier loads."""


@dataclass(frozen=True, slots=True)
class Gap:
    """So many instructions that do not access memory come before the next one that does."""

    instructions: int

    def __post_init__(self) -> None:
        """Refuse what is no number of instructions."""
        if not is_whole(self.instructions) or not 0 <= self.instructions <= MOST_GAP:
            raise TraceError(f"gap {self.instructions!r:.60}: must be a whole number from 0 to 2^20")


@dataclass(frozen=True, slots=True)
class Guard:
    """An if: its body is for threads for which all `conditions` hold."""

    conditions: tuple[str, ...]
    body: tuple[Statement, ...]

    def __post_init__(self) -> None:
        """Check types and syntax."""
        conditions = (self.conditions,) if isinstance(self.conditions, str) else sequence("if", self.conditions)
        object.__setattr__(self, "conditions", tuple(conditions))
        with within("if"):
            for text in self.conditions:
                parse_condition(text)
        object.__setattr__(self, "body", sequence("do", self.body))


@dataclass(frozen=True, slots=True)
class Loop:
    """``for variable in range(lower, upper, step)``: `upper` is excluded; `step` may be negative.

    Bounds may have min() and max(), and may differ between threads.
    """

    variable: str
    lower: Expression
    upper: Expression
    body: tuple[Statement, ...]
    step: Expression = 1

    def __post_init__(self) -> None:
        """Check types and syntax."""
        check_name("variable of a loop", self.variable)
        for name, part in (("from", self.lower), ("to", self.upper), ("step", self.step)):
            with within(f"for {self.variable}: {name}"):
                parse(part)
        object.__setattr__(self, "body", sequence("do", self.body))


Statement = Load | Store | Atomic | Barrier | Wait | Gap | Guard | Loop


@dataclass(frozen=True, slots=True)
class KernelForm:
    """The fields of an `AffineKernel` and their checks: what binding and generation of blocks need of it."""

    name: str
    arrays: Mapping[str, AffineArray]
    block: tuple[Expression, ...]
    body: tuple[Statement, ...]
    parameters: Mapping[str, int] = field(default_factory=dict)
    grid: tuple[Expression, ...] | None = None
    threads: tuple[Expression, ...] | None = None
    shared_memory: Expression = 0
    registers: Expression = 0
    description: str = ""
    requires: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check everything that does not depend on the values of parameters."""
        if not isinstance(self.name, str) or not 0 < len(self.name) <= 1000:
            raise TraceError(f"name {self.name!r:.60}: must be text")
        if not isinstance(self.description, str):
            raise TraceError(f"description {self.description!r:.60}: must be text")
        object.__setattr__(self, "parameters", _checked_parameters(self.parameters))
        object.__setattr__(self, "arrays", _checked_arrays(self.arrays))
        if (self.grid is None) == (self.threads is None):
            raise TraceError("grid, threads: needs one of them, and not both")
        for name in ("block", "grid", "threads"):
            given = getattr(self, name)
            if given is not None or name == "block":
                given = (given,) if isinstance(given, int | str) else given
                object.__setattr__(self, name, expressions(name, given))
        for name in ("shared_memory", "registers"):
            with within(name):
                parse(getattr(self, name))
        given = (self.requires,) if isinstance(self.requires, str) else sequence("requires", self.requires)
        object.__setattr__(self, "requires", tuple(given))
        with within("requires"):
            for text in self.requires:
                parse_condition(text)
        object.__setattr__(self, "body", sequence("body", self.body))
        _check_body(self.body)


def _checked_parameters(parameters: Any) -> dict[str, int]:
    if not isinstance(parameters, Mapping):
        raise TraceError("parameters: must be numbers by name")
    for name, value in parameters.items():
        check_name("parameter", name)
        if not is_whole(value) or abs(value) > MOST:
            raise TraceError(f"parameter {name}={value!s:.60}: must be a whole number of at most 2^63 - 1")
    return dict(parameters)


def _checked_arrays(arrays: Any) -> dict[str, AffineArray]:
    if not isinstance(arrays, Mapping):
        raise TraceError("arrays: must be arrays by name")
    declared = {}
    for name, what in arrays.items():
        if not isinstance(name, str) or not name:
            raise TraceError(f"array {name!r:.60}: needs a name")
        with within(f"array {name:.60}"):
            declared[name] = what if isinstance(what, AffineArray) else AffineArray(what)
    return declared


def _check_body(body: tuple[Statement, ...]) -> None:
    """Refuse what is no statement, and more or deeper ones than a kernel may have."""
    left, stack = MOST_STATEMENTS, [(body, "body", 1)]
    while stack:
        statements, where, depth = stack.pop()
        if depth > MOST_NESTED:
            raise TraceError(f"{where}: statements are nested deeper than {MOST_NESTED}")
        left -= len(statements)
        if left < 0:
            raise TraceError(f"body: has more than {MOST_STATEMENTS} statements")
        for i, statement in enumerate(statements):
            if not isinstance(statement, Statement):
                raise TraceError(f"{where}[{i}]: {statement!r:.60}: must be a statement, such as Load or Loop")
            if isinstance(statement, Guard | Loop):
                stack.append((statement.body, f"{where}[{i}].do", depth + 1))


# ---- shared checks


@contextmanager
def within(where: str) -> Iterator[None]:
    """Say where it was that a `TraceError` was raised."""
    try:
        yield
    except TraceError as error:
        raise TraceError(f"{where}: {error}") from None


def expressions(what: str, given: Any) -> tuple[Expression, ...]:
    """Return parts that all are expressions, as a tuple; raises `TraceError`."""
    parts = sequence(what, given)
    for i, part in enumerate(parts):
        with within(f"{what} {i}"):
            parse(part)
    return parts


def sequence(what: str, given: Any) -> tuple[Any, ...]:
    """Return a list or tuple as a tuple; raises `TraceError`."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TraceError(f"{what}: {given!r:.60}: must be a list")
    return tuple(given)


def check_name(what: str, name: Any) -> None:
    """Raise `TraceError` unless `name` is a name that an expression can have and that means nothing else."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise TraceError(f"{what} {name!r:.60}: must be a name: letters, digits and _")
    if name in RESERVED:
        raise TraceError(f"{what} {shown(name)}: the name means something else already")


def is_whole(value: Any) -> bool:
    """Tell whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)
