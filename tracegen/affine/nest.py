"""A loop nest with numbers for its parameters: what `AffineKernel` says, over numbered dimensions.

Dimensions 0 to 2 are the block ids, 3 to 5 the thread ids within the block; then each loop has one that counts its
iterations from 0, and one for its first value where that is a min() or max(), which is not affine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import Op
from tracegen.affine.affine_form import Affine, Bound, Extreme, leaves
from tracegen.arrays import Array

BLOCK = (0, 1, 2)
THREAD = (3, 4, 5)


@dataclass(slots=True, eq=False)
class NestAccess:
    """An access: its `subscripts`, the byte `address`, its number `pc`, and whether it is known to stay inside."""

    op: Op
    pc: int
    array: Array
    subscripts: tuple[Affine, ...]
    address: Affine
    where: str
    inside: bool = False


@dataclass(slots=True, eq=False)
class NestBarrier:
    """A barrier with the number `pc`."""

    pc: int


@dataclass(slots=True, eq=False)
class NestWait:
    """The next memory instruction waits for all earlier loads."""


@dataclass(slots=True, eq=False)
class NestGap:
    """Non-memory instructions."""

    instructions: int


@dataclass(slots=True, eq=False)
class NestGuard:
    """A body for threads for which all `conditions` are at least 0."""

    conditions: tuple[Affine, ...]
    body: list[NestNode]


@dataclass(slots=True, eq=False)
class NestLoop:
    """A loop of ``ceil(distance / stride)`` iterations, at most `most`, counted by `dimension`.

    `first` is the dimension that holds the first value of the loop variable, `lower`, where that is not affine;
    -1 where it is. A loop is `innermost` if no other is in its body. `choices` are what its iterations do other things
    by than move addresses: none if they all do the same, None if no two need to. `loads` tells whether a load is in its
    body, but in no loop there.
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
    choices: tuple[Choice, ...] | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """A form by whose sign an iteration goes one way or another; if not `both`, only at least 0 is one way for all."""

    form: Affine
    both: bool


NestNode = NestAccess | NestBarrier | NestWait | NestGap | NestGuard | NestLoop


def walk(body: Sequence[NestNode]) -> Iterator[NestNode]:
    """Yield every node of a body, outer ones first."""
    for node in body:
        yield node
        if isinstance(node, NestGuard | NestLoop):
            yield from walk(node.body)


class Nest:
    """A bound kernel: its `body`, the `box` of its dimensions, and how addresses move along them.

    ``moves[pc, d]`` is by how many bytes the address of instruction `pc` moves along dimension d. ``opaque[d]`` are the
    dimensions that the first value held by dimension d depends on.
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
                node.choices = choices(node.body, opaque, node.dimension)
        self.control = Control(self, opaque)


def choices(
    body: Sequence[NestNode], opaque: Mapping[int, frozenset[int]], dimension: int
) -> tuple[Choice, ...] | None:
    """Return the choices that a body makes by a dimension; None if it depends on it in another way as well."""
    found: list[Choice] = []
    for node in walk(body):
        if isinstance(node, NestAccess) and not node.inside:
            return None
        if isinstance(node, NestGuard):
            found += [Choice(form, both=True) for form in node.conditions if form.coefficient(dimension)]
        elif isinstance(node, NestLoop):
            slack = _slack(node.distance, dimension)
            if slack is None or dimension in opaque.get(node.first, ()):
                return None
            found += slack
    return tuple(found)


def _slack(distance: Bound, dimension: int) -> list[Choice] | None:
    """Return choices that leave a distance as it is, whatever the dimension; None if there are none."""
    moving = [form for form in leaves(distance) if form.coefficient(dimension)]
    if not moving:
        return []
    if isinstance(distance, Affine) or distance.kind != "min":
        return None
    # The rest of an array does not matter while it is no shorter than a strip of it.
    still = [form for form in distance.operands if isinstance(form, Affine) and not form.coefficient(dimension)]
    if not still or not all(isinstance(form, Affine) for form in distance.operands):
        return None
    return [Choice(form - still[0], both=False) for form in moving]


def _loads(body: Sequence[NestNode]) -> bool:
    return any(
        node.op == Op.LOAD if isinstance(node, NestAccess) else isinstance(node, NestGuard) and _loads(node.body)
        for node in body
    )


class Control:
    """What a block does besides moving its addresses, as a key: blocks with the same key do the same."""

    def __init__(self, nest: Nest, opaque: dict[int, frozenset[int]]) -> None:
        self._box = [(0, 0) if d in BLOCK else limits for d, limits in enumerate(nest.box)]
        self.exact = any(isinstance(n, NestAccess) and not n.inside for n in walk(nest.body))
        self.exact |= any(dimensions & set(BLOCK) for dimensions in opaque.values())
        self._signs: list[_Sign] = []
        self._values: list[Affine] = []
        self._least: list[list[tuple[Affine, list[_Sign]]]] = []
        for node in walk(nest.body):
            if isinstance(node, NestGuard):
                self._signs += [self._sign(form) for form in node.conditions if _per_block(form)]
            elif isinstance(node, NestLoop) and any(map(_per_block, leaves(node.distance))):
                self._add_trips(node.distance)

    def _sign(self, form: Affine) -> _Sign:
        return _Sign(_block_part(form), form.least(self._box), form.most(self._box))

    def _add_trips(self, distance: Bound) -> None:
        if (
            isinstance(distance, Extreme)
            and distance.kind == "min"
            and all(isinstance(operand, Affine) for operand in distance.operands)
        ):
            forms = leaves(distance)
            self._least.append([(f, [self._sign(f - other) for other in forms if other is not f]) for f in forms])
        else:
            self._values += leaves(distance)

    def key(self, at: tuple[int, int, int]) -> tuple[object, ...]:
        """Return the key of the block with these ids."""
        if self.exact:
            return at
        parts: list[object] = [choice.sign(at) for choice in self._signs]
        parts += [_at_block(form, at) for form in self._values]
        for operands in self._least:
            # An operand that never is the only smallest one does not matter.
            parts.append(
                tuple(
                    None if any(choice.above(at) for choice in others) else _at_block(form, at)
                    for form, others in operands
                )
            )
        return tuple(parts)


@dataclass(frozen=True, slots=True)
class _Sign:
    """A form whose part of blocks is `part`, and whose rest is between `least` and `most`."""

    part: tuple[tuple[int, int], ...]
    least: int
    most: int

    def above(self, at: tuple[int, int, int]) -> bool:
        """Tell whether the form is positive for all threads and iterations of a block."""
        return self._moved(at) + self.least > 0

    def sign(self, at: tuple[int, int, int]) -> str | int:
        """Return whether the form is at least 0 for all of them, for none, or else its part of blocks."""
        moved = self._moved(at)
        if moved + self.least >= 0:
            return "all"
        return "none" if moved + self.most < 0 else moved

    def _moved(self, at: tuple[int, int, int]) -> int:
        return sum(at[dimension] * coefficient for dimension, coefficient in self.part)


def _block_part(form: Affine) -> tuple[tuple[int, int], ...]:
    return tuple(term for term in form.terms if term[0] in BLOCK)


def _per_block(form: Affine) -> bool:
    return bool(_block_part(form))


def _at_block(form: Affine, at: tuple[int, int, int]) -> int:
    return sum(at[dimension] * coefficient for dimension, coefficient in form.terms if dimension in BLOCK)
