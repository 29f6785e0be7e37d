"""Define the parts of an affine kernel as frozen values: arrays, statements, and the kernel that holds them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, ClassVar

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError, TraceError, unknown
from rdmodel.trace import Op, Space
from rdmodel.trace.cache_ops import parse_cache_op
from tracegen.affine.expression import MAX_NUMBER, Expression, parse_condition, parse_expression, quote_expression
from tracegen.simt.work import declared_arithmetic
from tracegen.unrolling import Unroll, parse_unroll

ELEMENT_BYTES = {
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
"""Bytes of an element by the name of its NumPy type."""

SHARED = "shared"
"""Space of arrays in shared memory: accesses to them belong to the work of a block, not to its memory instructions."""

SPACE_NAMES = (*(space.name.lower() for space in Space), SHARED)
"""Names of the memory spaces of arrays."""

BLOCK_ID_NAMES = ("block_x", "block_y", "block_z")
THREAD_ID_NAMES = ("thread_x", "thread_y", "thread_z")
GLOBAL_ID_NAMES = ("x", "y", "z")
BLOCK_SIZE_NAMES = ("block_size_x", "block_size_y", "block_size_z")
RESERVED_NAMES = frozenset(
    (
        *BLOCK_ID_NAMES,
        *THREAD_ID_NAMES,
        *GLOBAL_ID_NAMES,
        *BLOCK_SIZE_NAMES,
        "min",
        "max",
        "kernel",
        "self",
        "block",
        "blocks",
        "base",
        "unroll",
    )
)
"""Names with a meaning in expressions or for `tracegen.affine_kernel`; no parameter or loop variable may have them."""

MAX_STATEMENTS = 4096
"""Maximum number of statements of a kernel."""

MAX_STATEMENT_DEPTH = 24
"""Maximum depth of nested statements."""

MAX_GAP_INSTRUCTIONS = 1 << 20
"""Maximum number of instructions of one `Gap` statement."""

_IDENTIFIER = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)


@dataclass(frozen=True, slots=True)
class AffineArray:
    """An array: the extent of each dimension (row-major), the `type` of its elements, and its memory space."""

    shape: tuple[Expression, ...]
    type: str = "float32"
    space: str = "global"

    def __post_init__(self) -> None:
        """Check types and syntax; callers add the name of the array to the message of an error."""
        shape = (self.shape,) if isinstance(self.shape, int | str) else self.shape
        object.__setattr__(self, "shape", check_expressions("shape", shape))
        for name, value, allowed in (("type", self.type, ELEMENT_BYTES), ("space", self.space, SPACE_NAMES)):
            if not isinstance(value, str) or value not in allowed:
                raise TraceError(unknown(name, f"{value!s:.60}", allowed))


@dataclass(frozen=True, slots=True)
class Access:
    """An access of each active thread to one element, given by one subscript per dimension of the array.

    `cache` is the cache operator of a load (`rdmodel.trace.cache_ops`), None for none.
    """

    array: str
    subscripts: tuple[Expression, ...]
    cache: str | None = None
    op: ClassVar[Op]

    def __post_init__(self) -> None:
        """Check types and syntax."""
        place = f"{self.op.name.lower()} of {self.array!s:.60}"
        if not isinstance(self.array, str):
            raise TraceError(f"{self.op.name.lower()}: {self.array!r:.60}: must be the name of an array")
        given = (self.subscripts,) if isinstance(self.subscripts, int | str) else self.subscripts
        with within(place):
            object.__setattr__(self, "subscripts", check_expressions("subscript", given))
            if parse_cache_op(self.cache) and self.op != Op.LOAD:
                raise TraceError(f"cache={self.cache!r}: only a load has a cache operator")

    def __str__(self) -> str:
        """Return the access as it would be written in C: ``load A[i][j]``."""
        return f"{self.op.name.lower()} {self.array}" + "".join(f"[{subscript}]" for subscript in self.subscripts)


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
    """Makes the next memory instruction of every active warp wait for all its earlier loads."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A number of instructions without memory access before the next memory instruction."""

    instructions: int

    def __post_init__(self) -> None:
        """Check the number of instructions."""
        if not is_whole(self.instructions) or not 0 <= self.instructions <= MAX_GAP_INSTRUCTIONS:
            raise TraceError(f"gap {self.instructions!r:.60}: must be a whole number from 0 to 2^20")


@dataclass(frozen=True, slots=True)
class Compute:
    """Arithmetic of each active thread, which has no effect on the memory instructions of the trace.

    `flops` are floating-point operations of a `type`, two in each multiply-add; an odd one is an addition. `ints` are
    integer instructions, `special` are special functions.
    """

    flops: int = 0
    ints: int = 0
    special: int = 0
    type: str = "float32"

    def __post_init__(self) -> None:
        """Check the numbers and the type."""
        declared_arithmetic(self.flops, self.ints, self.special, self.type)


@dataclass(frozen=True, slots=True)
class Guard:
    """An if: the threads for which all `conditions` hold execute the body."""

    conditions: tuple[str, ...]
    body: tuple[Statement, ...]

    def __post_init__(self) -> None:
        """Check types and syntax."""
        conditions = (self.conditions,) if isinstance(self.conditions, str) else as_tuple("if", self.conditions)
        object.__setattr__(self, "conditions", tuple(conditions))
        with within("if"):
            for text in self.conditions:
                parse_condition(text)
        object.__setattr__(self, "body", as_tuple("do", self.body))


@dataclass(frozen=True, slots=True)
class Loop:
    """``for variable in range(lower, upper, step)``: `upper` is excluded; `step` may be negative.

    Bounds may contain min() and max(), and may differ between threads. `unroll` is how often compilers unroll the loop
    (`tracegen.unrolling`); None: as the other loops of the kernel.
    """

    variable: str
    lower: Expression
    upper: Expression
    body: tuple[Statement, ...]
    step: Expression = 1
    unroll: Unroll = None

    def __post_init__(self) -> None:
        """Check types and syntax."""
        check_name("variable of a loop", self.variable)
        for name, part in (("from", self.lower), ("to", self.upper), ("step", self.step)):
            with within(f"for {self.variable}: {name}"):
                parse_expression(part)
        with within(f"for {self.variable}"):
            check_unroll(self.unroll)
        object.__setattr__(self, "body", as_tuple("do", self.body))


Statement = Load | Store | Atomic | Barrier | Wait | Gap | Compute | Guard | Loop
"""A statement of a kernel."""


@dataclass(frozen=True, slots=True)
class KernelForm:
    """The fields of an `AffineKernel` and their checks; binding and generation of blocks use this base class."""

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
            raise TraceError("grid, threads: exactly one of them must be given")
        for name in ("block", "grid", "threads"):
            given = getattr(self, name)
            if given is not None or name == "block":
                given = (given,) if isinstance(given, int | str) else given
                object.__setattr__(self, name, check_expressions(name, given))
        for name in ("shared_memory", "registers"):
            with within(name):
                parse_expression(getattr(self, name))
        given = (self.requires,) if isinstance(self.requires, str) else as_tuple("requires", self.requires)
        object.__setattr__(self, "requires", tuple(given))
        with within("requires"):
            for text in self.requires:
                parse_condition(text)
        object.__setattr__(self, "body", as_tuple("body", self.body))
        _check_body(self.body)


def _checked_parameters(parameters: Any) -> dict[str, int]:
    if not isinstance(parameters, Mapping):
        raise TraceError("parameters: must be a mapping from names to whole numbers")
    for name, value in parameters.items():
        check_name("parameter", name)
        if not is_whole(value) or abs(value) > MAX_NUMBER:
            raise TraceError(f"parameter {name}={value!s:.60}: must be a whole number of at most 2^63 - 1")
    return dict(parameters)


def _checked_arrays(arrays: Any) -> dict[str, AffineArray]:
    if not isinstance(arrays, Mapping):
        raise TraceError("arrays: must be a mapping from names to arrays")
    declared = {}
    for name, declaration in arrays.items():
        if not isinstance(name, str) or not name:
            raise TraceError(f"array {name!r:.60}: needs a name")
        with within(f"array {name:.60}"):
            declared[name] = declaration if isinstance(declaration, AffineArray) else AffineArray(declaration)
    return declared


def _check_body(body: tuple[Statement, ...]) -> None:
    """Raise `TraceError` for a part that is not a statement, and for too many or too deep statements."""
    remaining, stack = MAX_STATEMENTS, [(body, "body", 1)]
    while stack:
        statements, where, depth = stack.pop()
        if depth > MAX_STATEMENT_DEPTH:
            raise TraceError(f"{where}: statements are nested deeper than {MAX_STATEMENT_DEPTH}")
        remaining -= len(statements)
        if remaining < 0:
            raise TraceError(f"body: has more than {MAX_STATEMENTS} statements")
        for i, statement in enumerate(statements):
            if not isinstance(statement, Statement):
                raise TraceError(f"{where}[{i}]: {statement!r:.60}: must be a statement, such as Load or Loop")
            if isinstance(statement, Guard | Loop):
                stack.append((statement.body, f"{where}[{i}].do", depth + 1))


# ---- shared checks


def check_unroll(unroll: Unroll) -> None:
    """Raise `TraceError` unless a value says how often a loop is unrolled."""
    try:
        parse_unroll(unroll)
    except ConfigError as error:
        raise TraceError(str(error)) from None


@contextmanager
def within(where: str) -> Iterator[None]:
    """Put the place `where` before the message of a `TraceError`."""
    try:
        yield
    except TraceError as error:
        raise TraceError(f"{where}: {error}") from None


def check_expressions(field_name: str, given: Any) -> tuple[Expression, ...]:
    """Return a list of expressions as a tuple; raise `TraceError` if it is malformed."""
    parts = as_tuple(field_name, given)
    for i, part in enumerate(parts):
        with within(f"{field_name} {i}"):
            parse_expression(part)
    return parts


def as_tuple(field_name: str, given: Any) -> tuple[Any, ...]:
    """Return a list as a tuple; raise `TraceError` for another type."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TraceError(f"{field_name}: {given!r:.60}: must be a list")
    return tuple(given)


def check_name(kind: str, name: Any) -> None:
    """Raise `TraceError` unless `name` is a valid name in expressions and is not reserved."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise TraceError(f"{kind} {name!r:.60}: must be a name: letters, digits and _")
    if name in RESERVED_NAMES:
        raise TraceError(f"{kind} {quote_expression(name)}: the name is reserved")


def is_whole(value: Any) -> bool:
    """Tell whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)
