"""Index functions as frozen value objects: how a cache picks the set of a line.

Every function but the prime ones is linear over GF(2): bit j of the set is the parity of ``line & mask_j``. A function
is *compiled* for a geometry into an `IndexCode`, plain numbers that the compiled cores evaluate, and that
`set_of` evaluates in NumPy. `line` is always the byte address divided by the line size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import ConfigError, unknown

ADDRESS_BITS = 63
"""Byte addresses are non-negative signed 64-bit integers."""

KIND_LINEAR = 0
KIND_MODULO = 1
KIND_DISPLACEMENT = 2


@dataclass(frozen=True, slots=True)
class IndexCode:
    """An index function compiled for `sets` sets: what the cores evaluate.

    kind 0: parity of ``line & masks[j]`` gives bit j, xor (``(line >> fold_shift & fold_mask) % modulus``) where
    ``modulus`` is not 0. kind 1: ``line % modulus``. kind 2: ``(factor * (line >> shift) + (line & mask)) % modulus``
    with ``mask = (1 << shift) - 1``.
    """

    kind: int
    sets: int
    masks: tuple[int, ...] = ()
    modulus: int = 0
    factor: int = 0
    shift: int = 0
    fold_mask: int = 0


class IndexFunction:
    """Base of the index functions; equal when of one type with equal parameters."""

    name: ClassVar[str]

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """Return the function for `sets` sets of `line_size`-byte lines; raise `ConfigError` where undefined."""
        raise NotImplementedError

    def set_of(self, lines: NDArray[np.int64], sets: int, line_size: int = 128) -> NDArray[np.int64]:
        """Return the set, 0 to ``sets - 1``, of every line; shape and dtype (int64) of `lines`."""
        return evaluate(self.compile(sets, line_size), np.asarray(lines, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Linear(IndexFunction):
    """The low bits of the line: the textbook cache."""

    name: ClassVar[str] = "linear"

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """See `IndexFunction.compile`."""
        bits = _set_bits(self.name, sets)
        return IndexCode(KIND_LINEAR, sets, tuple(1 << j for j in range(bits)))


@dataclass(frozen=True, slots=True)
class Fermi(IndexFunction):
    """Fermi's hash, found by micro-benchmark (Nugteren et al., HPCA 2014, section 5.1, figure 6).

    32 sets: address bits 7-11 xor bits 13, 14, 15, 17, 19. 64 sets: the same, with address bit 12 as bit 5.
    Defined for 128-byte lines and 32 or 64 sets only.
    """

    name: ClassVar[str] = "fermi"

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """See `IndexFunction.compile`."""
        if sets not in (32, 64) or line_size != 128:
            raise ConfigError(
                f"index='fermi' is defined for 32 or 64 sets of 128-byte lines, not {sets} sets of {line_size}"
            )
        masks = tuple((1 << low | 1 << high) >> 7 for low, high in zip(range(7, 12), (13, 14, 15, 17, 19), strict=True))
        return IndexCode(KIND_LINEAR, sets, (*masks, 1 << 12 >> 7) if sets == 64 else masks)


@dataclass(frozen=True, slots=True)
class BXor(IndexFunction):
    """The low bits of the line xor the next as many (Wang et al., section III-D)."""

    name: ClassVar[str] = "bxor"

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """See `IndexFunction.compile`."""
        bits = _set_bits(self.name, sets)
        return IndexCode(KIND_LINEAR, sets, tuple(1 << j | 1 << (j + bits) for j in range(bits)))


@dataclass(frozen=True, slots=True)
class Pric(IndexFunction):
    """The line modulo an irreducible polynomial over GF(2) (Khairy et al., section 4.3, figure 7).

    `polynomial` has one bit per coefficient, degree log2(sets); None takes the smallest irreducible one of that
    degree, 37 for 32 sets.
    """

    polynomial: int | None = None
    name: ClassVar[str] = "pric"

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """See `IndexFunction.compile`."""
        bits = _set_bits(self.name, sets)
        poly = smallest_irreducible(bits) if self.polynomial is None else self.polynomial
        if poly.bit_length() - 1 != bits:
            raise ConfigError(
                f"polynomial={poly}: has degree {poly.bit_length() - 1}, {sets} sets need degree {bits}"
            )
        if not is_irreducible(poly):
            raise ConfigError(f"polynomial={poly}: is reducible over GF(2), so it cannot spread strides")
        masks = [0] * bits
        remainder = 1 if bits else 0
        for i in range(ADDRESS_BITS - line_size.bit_length() + 1):
            for j in range(bits):
                masks[j] |= (remainder >> j & 1) << i
            remainder <<= 1
            if remainder >> bits & 1:
                remainder ^= poly
        return IndexCode(KIND_LINEAR, sets, tuple(masks))


@dataclass(frozen=True, slots=True)
class Fup(IndexFunction):
    """Full permutation: four groups of line bits xored (Wang et al., section III-C, figure 4).

    F = max(`feature_bits`, 4 n) line bits, cut into S1..S4 of n = log2(sets) bits; where F > 4 n, S4 takes the rest
    and is first reduced modulo the largest prime below the number of sets.
    """

    feature_bits: int = 28
    name: ClassVar[str] = "fup"

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """See `IndexFunction.compile`."""
        bits = _set_bits(self.name, sets)
        if not 1 <= self.feature_bits <= ADDRESS_BITS + 1 - line_size.bit_length():
            raise ConfigError(f"feature_bits={self.feature_bits}: must be 1 to the number of line bits")
        used = max(self.feature_bits, 4 * bits)
        if used == 4 * bits or sets < 4:
            return IndexCode(KIND_LINEAR, sets, tuple(_every(j, bits, 4) for j in range(bits)))
        return IndexCode(
            KIND_LINEAR,
            sets,
            tuple(_every(j, bits, 3) for j in range(bits)),
            modulus=largest_prime(sets - 1),
            shift=3 * bits,
            fold_mask=(1 << (used - 3 * bits)) - 1,
        )


@dataclass(frozen=True, slots=True)
class PMod(IndexFunction):
    """The line modulo the largest prime that is at most the number of sets (Kharbutli et al., HPCA 2004)."""

    name: ClassVar[str] = "pmod"

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """See `IndexFunction.compile`."""
        if sets < 2:
            raise ConfigError(f"index='pmod': needs at least 2 sets, not {sets}")
        return IndexCode(KIND_MODULO, sets, modulus=largest_prime(sets))


@dataclass(frozen=True, slots=True)
class PDisp(IndexFunction):
    """Prime displacement: (`p` × tag + low bits) mod the largest prime below the sets (Wang et al., section III-D)."""

    p: int = 9
    name: ClassVar[str] = "pdisp"

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """See `IndexFunction.compile`."""
        bits = _set_bits(self.name, sets)
        if sets < 4:
            raise ConfigError(f"index='pdisp': needs at least 4 sets, not {sets}")
        if not 1 <= self.p < 1 << 16:
            raise ConfigError(f"p={self.p}: must be 1 to 65535")
        return IndexCode(KIND_DISPLACEMENT, sets, modulus=largest_prime(sets - 1), factor=self.p, shift=bits)


@dataclass(frozen=True, slots=True)
class Masks(IndexFunction):
    """A user's own GF(2)-linear map: bit j of the set is the parity of ``line & masks[j]``."""

    masks: tuple[int, ...]
    name: ClassVar[str] = "masks"

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """See `IndexFunction.compile`."""
        bits = _set_bits(self.name, sets)
        if len(self.masks) != bits:
            raise ConfigError(f"masks: {sets} sets need {bits} masks, not {len(self.masks)}")
        for mask in self.masks:
            if not 0 < mask < 1 << ADDRESS_BITS:
                raise ConfigError(f"masks: {mask} is not a non-empty mask of at most {ADDRESS_BITS} line bits")
        return IndexCode(KIND_LINEAR, sets, tuple(self.masks))


INDEX_FUNCTIONS: dict[str, Callable[..., IndexFunction]] = {
    cls.name: cls for cls in (Linear, Fermi, BXor, Pric, Fup, PMod, PDisp, Masks)
}


def index_function(name: str, **parameters: Any) -> IndexFunction:
    """Return the index function called `name`; raise `ConfigError` for an unknown name or parameter."""
    try:
        make = INDEX_FUNCTIONS[name]
    except KeyError:
        raise ConfigError(unknown("index function", name, INDEX_FUNCTIONS)) from None
    try:
        return make(**parameters)
    except TypeError as error:
        raise ConfigError(f"index={name!r}: {error}") from None


def evaluate(code: IndexCode, lines: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the set of every line under a compiled index function, in NumPy."""
    if code.kind == KIND_MODULO:
        return lines % code.modulus
    if code.kind == KIND_DISPLACEMENT:
        low = lines & ((1 << code.shift) - 1)
        return (code.factor * ((lines >> code.shift) % code.modulus) + low) % code.modulus
    result = np.zeros_like(lines)
    for j, mask in enumerate(code.masks):
        result |= (np.bitwise_count(lines & mask).astype(np.int64) & 1) << j
    if code.modulus:
        result ^= (lines >> code.shift & code.fold_mask) % code.modulus
    return result


def largest_prime(limit: int) -> int:
    """Return the largest prime that is at most `limit` (at least 2)."""
    return next(n for n in range(limit, 1, -1) if all(n % d for d in range(2, int(n**0.5) + 1)))


def is_irreducible(poly: int) -> bool:
    """Tell whether a polynomial over GF(2), one bit per coefficient, has no factor of smaller positive degree."""
    degree = poly.bit_length() - 1
    return degree >= 1 and all(_remainder(poly, d) for d in range(2, 1 << (degree // 2 + 1)))


def smallest_irreducible(degree: int) -> int:
    """Return the numerically smallest irreducible polynomial of a degree with a constant term (37 for 5)."""
    if degree == 0:
        return 1
    return next(p for p in range((1 << degree) | 1, 1 << (degree + 1), 2) if is_irreducible(p))


def _remainder(a: int, b: int) -> int:
    while a.bit_length() >= b.bit_length():
        a ^= b << (a.bit_length() - b.bit_length())
    return a


def _every(bit: int, stride: int, times: int) -> int:
    return sum(1 << (bit + stride * g) for g in range(times))


def _set_bits(name: str, sets: int) -> int:
    if sets < 1 or sets & (sets - 1):
        raise ConfigError(f"index={name!r}: needs a power of two of sets, not {sets}")
    return sets.bit_length() - 1
