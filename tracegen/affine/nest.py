"""Represent an `AffineKernel` with values for its parameters as a loop nest over numbered dimensions.

Dimensions 0 to 2 are the block ids, 3 to 5 the thread ids within the block. Each loop has a dimension that counts its
iterations from 0, and another one for its first value if that is a min() or max(), which is not affine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import Op
from tracegen.affine.affine_form import Affine, Bound, Extreme, leaves
from tracegen.arrays import Array
from tracegen.unrolling import Unroll, parse_unroll

BLOCK_DIMENSIONS = (0, 1, 2)
THREAD_DIMENSIONS = (3, 4, 5)
"""Numbers of the dimensions of block and thread ids, x first."""


@dataclass(slots=True, eq=False)
class NestAccess:
    """An access, with its `subscripts`, its byte `address`, its number `pc`, and its cache operator `cache_op`.

    `where` is its place in the kernel, for messages, and `text` says what it accesses; `inside` says that it is proven
    to stay inside the array.
    """

    op: Op
    pc: int
    array: Array
    subscripts: tuple[Affine, ...]
    address: Affine
    where: str
    text: str
    cache_op: int = 0
    inside: bool = False


@dataclass(slots=True, eq=False)
class NestBarrier:
    """A barrier with the number `pc`."""

    pc: int


@dataclass(slots=True, eq=False)
class NestWait:
    """Makes the next memory instruction wait for all earlier loads."""


@dataclass(slots=True, eq=False)
class NestGap:
    """Instructions that do not access memory."""

    instructions: int


@dataclass(slots=True, eq=False)
class NestShared:
    """An access to an array in shared memory."""

    access: NestAccess


@dataclass(slots=True, eq=False)
class NestCompute:
    """Arithmetic of each active thread: its machine instructions by class, and its operations by name."""

    classes: dict[str, int]
    operations: dict[str, int]


@dataclass(slots=True, eq=False)
class NestGuard:
    """A body that is executed by threads for which all `conditions` are at least 0."""

    conditions: tuple[Affine, ...]
    body: list[NestNode]


@dataclass(slots=True, eq=False)
class NestLoop:
    """A loop of ``ceil(distance / stride)`` iterations, at most `most`, counted by `dimension`.

    `first` is the dimension of the first value of the loop variable, `lower`, if that is not affine, else -1. A loop
    is `innermost` if its body contains no other loop. `sign_tests` decide whether two iterations differ in more than
    addresses: an empty tuple if they never do, None if that cannot be decided by signs. `loads` says that the body has
    a load outside of inner loops. `unroll` is how often compilers unroll the loop (`NEVER`: no body waits for the one
    before; None: as the kernel), unless it is `around` another loop that is not unrolled completely.
    """

    dimension: int
    lower: Bound
    first: int
    distance: Bound
    stride: int
    most: int
    where: str
    body: list[NestNode] = field(default_factory=list)
    innermost: bool = True
    loads: bool = False
    sign_tests: tuple[SignTest, ...] | None = None
    unroll: Unroll = None
    around: bool = False

    def unrolled(self, default: int | None) -> int | None:
        """Return the iterations of an unrolled body; None if no body waits for the one before."""
        times = default if self.unroll is None else parse_unroll(self.unroll)
        return 1 if self.around and times is not None else times


@dataclass(frozen=True, slots=True)
class SignTest:
    """A form whose sign decides what an iteration does.

    All iterations with ``form >= 0`` do the same, and if `uniform_below_zero`, so do all others.
    """

    form: Affine
    uniform_below_zero: bool


NestNode = NestAccess | NestShared | NestBarrier | NestWait | NestGap | NestCompute | NestGuard | NestLoop
"""A node of a loop nest."""


def walk(body: Sequence[NestNode]) -> Iterator[NestNode]:
    """Yield every node of a body, outer ones first."""
    for node in body:
        yield node
        if isinstance(node, NestGuard | NestLoop):
            yield from walk(node.body)


class Nest:
    """A bound kernel: its `body`, and the `box` of least and largest values of its dimensions.

    ``moves[pc, d]`` is the number of bytes by which the address of instruction `pc` moves along dimension d.
    ``opaque[d]`` are the dimensions that determine dimension d, if it stands for a first value that is not affine.
    """

    def __init__(
        self, body: list[NestNode], box: list[tuple[int, int]], opaque: dict[int, frozenset[int]], instructions: int
    ) -> None:
        self.body = body
        self.box = box
        self.moves: NDArray[np.int64] = np.zeros((instructions, len(box)), dtype=np.int64)
        for node in walk(body):
            if isinstance(node, NestAccess):
                for dimension, coefficient in node.address.terms:
                    self.moves[node.pc, dimension] = coefficient
        for node in walk(body):
            if isinstance(node, NestLoop):
                node.innermost = not any(isinstance(inner, NestLoop) for inner in walk(node.body))
                node.loads = _loads(node.body)
                node.sign_tests = find_sign_tests(node.body, opaque, node.dimension)
        self.control = Control(self, opaque)


def is_unproven(node: NestNode) -> bool:
    """Return whether a node is an access whose subscripts are not proven to be inside the array."""
    access = node.access if isinstance(node, NestShared) else node
    return isinstance(access, NestAccess) and not access.inside


def find_sign_tests(
    body: Sequence[NestNode], opaque: Mapping[int, frozenset[int]], dimension: int
) -> tuple[SignTest, ...] | None:
    """Return the tests by which a body depends on a dimension; None if it also depends on it in another way."""
    tests: list[SignTest] = []
    for node in walk(body):
        if is_unproven(node):
            return None
        if isinstance(node, NestGuard):
            tests += [
                SignTest(form, uniform_below_zero=True) for form in node.conditions if form.coefficient(dimension)
            ]
        elif isinstance(node, NestLoop):
            slack = _distance_tests(node.distance, dimension)
            if slack is None or dimension in opaque.get(node.first, ()):
                return None
            tests += slack
    return tuple(tests)


def _distance_tests(distance: Bound, dimension: int) -> list[SignTest] | None:
    """Return tests in whose positive range a distance does not depend on a dimension; None if there are none."""
    moving = [form for form in leaves(distance) if form.coefficient(dimension)]
    if not moving:
        return []
    if isinstance(distance, Affine) or distance.kind != "min":
        return None
    # The distance is min(strip, rest of the array): the rest does not matter as long as it is no shorter than a strip.
    fixed = [form for form in distance.operands if isinstance(form, Affine) and not form.coefficient(dimension)]
    if not fixed or not all(isinstance(form, Affine) for form in distance.operands):
        return None
    return [SignTest(form - fixed[0], uniform_below_zero=False) for form in moving]


def _loads(body: Sequence[NestNode]) -> bool:
    return any(
        node.op == Op.LOAD if isinstance(node, NestAccess) else isinstance(node, NestGuard) and _loads(node.body)
        for node in body
    )


MAX_KNOWN_PARTS = 1 << 12
"""Block ids along one dimension whose parts of keys are cached."""

BlockId = tuple[int, int, int]


class Control:
    """Computes a key for each block; blocks with equal keys do the same, apart from an offset of their addresses.

    `exact` says that every block has its own key. Most parts of a key depend on one dimension of the grid, and are
    computed once for each id along it.
    """

    def __init__(self, nest: Nest, opaque: dict[int, frozenset[int]]) -> None:
        self._box = [(0, 0) if d in BLOCK_DIMENSIONS else limits for d, limits in enumerate(nest.box)]
        self.exact = any(map(is_unproven, walk(nest.body)))
        self.exact |= any(dimensions & set(BLOCK_DIMENSIONS) for dimensions in opaque.values())
        self._along: list[list[Callable[[BlockId], object]]] = [[] for _ in BLOCK_DIMENSIONS]
        self._known: list[dict[int, tuple[object, ...]]] = [{} for _ in BLOCK_DIMENSIONS]
        self._mixed: list[Callable[[BlockId], object]] = []
        for node in walk(nest.body):
            if isinstance(node, NestGuard):
                for form in filter(_depends_on_block, node.conditions):
                    self._add_part([form], self._sign(form).sign)
            elif isinstance(node, NestLoop) and any(map(_depends_on_block, leaves(node.distance))):
                self._add_trips(node.distance)

    def _sign(self, form: Affine) -> _BlockSign:
        x, y, z = (form.coefficient(dimension) for dimension in BLOCK_DIMENSIONS)
        return _BlockSign((x, y, z), form.least(self._box), form.most(self._box))

    def _add_part(self, forms: Sequence[Affine], part: Callable[[BlockId], object]) -> None:
        """Add a function of some forms to the parts of a key."""
        dimensions = {d for form in forms for d, _ in form.terms if d in BLOCK_DIMENSIONS}
        parts = self._along[dimensions.pop()] if len(dimensions) == 1 else self._mixed
        parts.append(part)

    def _add_trips(self, distance: Bound) -> None:
        forms = leaves(distance)
        if (
            isinstance(distance, Extreme)
            and distance.kind == "min"
            and all(isinstance(operand, Affine) for operand in distance.operands)
        ):
            operands = [(f, [self._sign(f - other) for other in forms if other is not f]) for f in forms]
            self._add_part(forms, partial(_least_of, operands))
        else:
            for form in filter(_depends_on_block, forms):
                self._add_part([form], partial(_block_value_of, form))

    def key(self, at: BlockId) -> tuple[object, ...]:
        """Return the key of the block with these ids."""
        if self.exact:
            return at
        x, y, z = (self._parts_along(dimension, at) for dimension in BLOCK_DIMENSIONS)
        return x, y, z, *[part(at) for part in self._mixed]

    def _parts_along(self, dimension: int, at: BlockId) -> tuple[object, ...]:
        """Return the parts of a key that depend on one dimension of the grid only."""
        if not self._along[dimension]:
            return ()
        known = self._known[dimension]
        if (found := known.get(at[dimension])) is None:
            if len(known) >= MAX_KNOWN_PARTS:
                known.clear()
            found = known[at[dimension]] = tuple(part(at) for part in self._along[dimension])
        return found


def _least_of(operands: Sequence[tuple[Affine, Sequence[_BlockSign]]], at: BlockId) -> object:
    # An operand does not matter if another one is smaller for all threads and iterations.
    return tuple(
        None if any(sign.above(at) for sign in others) else _block_value_of(form, at) for form, others in operands
    )


@dataclass(frozen=True, slots=True)
class _BlockSign:
    """A form with coefficients of the three block ids, whose other terms sum up to values from `least` to `most`."""

    coefficients: tuple[int, int, int]
    least: int
    most: int

    def above(self, at: BlockId) -> bool:
        """Tell whether the form is positive for all threads and iterations of a block."""
        return self._block_value(at) + self.least > 0

    def sign(self, at: BlockId) -> str | int:
        """Return "all" or "none" if the form is at least 0 for all or no threads, else its value in the block ids."""
        part = self._block_value(at)
        if part + self.least >= 0:
            return "all"
        return "none" if part + self.most < 0 else part

    def _block_value(self, at: BlockId) -> int:
        x, y, z = self.coefficients
        return x * at[0] + y * at[1] + z * at[2]


def _depends_on_block(form: Affine) -> bool:
    return any(dimension in BLOCK_DIMENSIONS for dimension, _ in form.terms)


def _block_value_of(form: Affine, at: BlockId) -> int:
    return sum(at[dimension] * coefficient for dimension, coefficient in form.terms if dimension in BLOCK_DIMENSIONS)
