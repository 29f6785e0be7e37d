"""Define the index functions, frozen values that map a line of a cache to its set.

Every function except those with a prime modulus (`Fup` in part), tables and functions of Python is linear over GF(2):
bit j of the set is the parity of ``line & mask_j``. A function is *compiled* for a cache geometry into an `IndexCode`
of plain numbers. The compiled cores evaluate it, and `evaluate` does so in NumPy. `line` is always the byte address
divided by the line size.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.policies.base import check_described
from rdmodel.policies.polynomials import is_irreducible, remainder, smallest_irreducible

ADDRESS_BITS = 63
"""Byte addresses are non-negative signed 64-bit integers."""

KIND_LINEAR = 0
KIND_MODULO = 1
KIND_DISPLACEMENT = 2
KIND_TABLE = 3
KIND_CALL = 4
"""Kinds of an `IndexCode`; its table defines them."""

MAX_INDEX_ENTRIES = 1 << 24
"""Most entries of the table of an index function: 128 MB."""


class CheckedCall:
    """A function of the user that maps a line to its set, made safe for compiled code: it raises nothing.

    After an error it returns set 0. `check` raises the first error.
    """

    __slots__ = ("_error", "_function", "_sets")

    def __init__(self, function: Callable[[int], int], sets: int) -> None:
        self._function, self._sets = function, sets
        self._error: BaseException | None = None

    def __call__(self, line: int) -> int:
        """Return the set of a line."""
        try:
            return self._checked(line)
        except BaseException as error:
            self._error = self._error or error
            return 0

    def _checked(self, line: int) -> int:
        name = function_name(self._function)
        try:
            found = self._function(line)
        except Exception as error:
            raise ConfigError(f"index='function': {name}({line}) raised {type(error).__name__}: {error}") from error
        try:
            number = operator.index(found)
        except TypeError:
            number = -1
        if not 0 <= number < self._sets:
            raise ConfigError(
                f"index='function': {name}({line}) returned {found!r:.40}; must be a whole number from 0 to "
                f"{self._sets - 1}, the last set of the cache"
            )
        return number

    def check(self) -> None:
        """Raise the first error of a call."""
        if self._error is not None:
            raise self._error


def function_name(function: Callable[[int], int]) -> str:
    """Return the name of a function of the user, for messages and results."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', None) or '?'}.{name}"


@dataclass(frozen=True, slots=True)
class IndexCode:
    """An index function compiled for `sets` sets.

    =======================  =================================================================================
    `kind`                   set of a line
    =======================  =================================================================================
    0, `KIND_LINEAR`         bit j = parity of ``line & masks[j]``; the whole xor
                             ``(line >> shift & fold_mask) % modulus`` where `modulus` is not 0
    1, `KIND_MODULO`         ``line % modulus``
    2, `KIND_DISPLACEMENT`   ``(factor * ((line >> shift) % modulus) + (line & (1 << shift) - 1)) % modulus``
    3, `KIND_TABLE`          entry ``(line >> shift) % entries`` of `table`, int64 values as bytes
    4, `KIND_CALL`           ``call(line)``, once per line
    =======================  =================================================================================

    Fields that a kind does not name are 0 or empty. `factor` is below 2^16 and `modulus` at most `sets`, so
    that no intermediate value leaves 64 bits.
    """

    kind: int
    sets: int
    masks: tuple[int, ...] = ()
    modulus: int = 0
    factor: int = 0
    shift: int = 0
    fold_mask: int = 0
    table: bytes = b""
    call: CheckedCall | None = None

    def entries(self) -> NDArray[np.int64]:
        """Return the sets in the table."""
        return np.frombuffer(self.table, dtype=np.int64)


class IndexFunction:
    """Base of the index functions; equal when of one type with equal parameters."""

    __slots__ = ()
    name: ClassVar[str]
    is_plain: ClassVar[bool] = True
    """Whether name and parameters describe the function, so that results can be stored and found again."""

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """Return the function for `sets` sets of `line_size`-byte lines; `ConfigError` where undefined."""
        raise ConfigError(f"{type(self).__name__}: has no method compile(sets, line_size), which returns an IndexCode")

    def set_of(self, lines: NDArray[np.int64], sets: int, line_size: int = 128) -> NDArray[np.int64]:
        """Return the set, 0 to ``sets - 1``, of every line; shape and dtype (int64) of `lines`."""
        return evaluate(compile_index(self, sets, line_size), np.asarray(lines, dtype=np.int64))


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
                f"index='fermi': is defined for 32 or 64 sets of 128-byte lines, not {sets} of {line_size}; "
                f"index functions for this L1: {', '.join(names_for(sets, line_size)) or 'none'}"
            )
        masks = tuple((1 << low | 1 << high) >> 7 for low, high in zip(range(7, 12), (13, 14, 15, 17, 19), strict=True))
        return IndexCode(KIND_LINEAR, sets, (*masks, 1 << 12 >> 7) if sets == 64 else masks)


@dataclass(frozen=True, slots=True)
class BXor(IndexFunction):
    """The low bits of the line, xored with the same number of bits above them (Wang et al., section III-D)."""

    name: ClassVar[str] = "bxor"

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """See `IndexFunction.compile`."""
        bits = _set_bits(self.name, sets)
        return IndexCode(KIND_LINEAR, sets, _groups(bits, 2, _line_bits(line_size)))


@dataclass(frozen=True, slots=True)
class Pric(IndexFunction):
    """The line modulo an irreducible polynomial over GF(2) (Khairy et al., section 4.3, figure 7).

    `polynomial` has one bit per coefficient and degree log2(sets). None selects the smallest irreducible polynomial
    of that degree, 37 for 32 sets.
    """

    polynomial: int | None = None
    name: ClassVar[str] = "pric"

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """See `IndexFunction.compile`."""
        bits = _set_bits(self.name, sets)
        poly = smallest_irreducible(bits) if self.polynomial is None else self._checked_polynomial(sets, bits)
        masks = [0] * bits
        for i in range(_line_bits(line_size)):
            power = remainder(1 << i, poly)
            for j in range(bits):
                masks[j] |= (power >> j & 1) << i
        return IndexCode(KIND_LINEAR, sets, tuple(masks))

    def _checked_polynomial(self, sets: int, bits: int) -> int:
        poly = _whole("polynomial", self.polynomial, 1, 1 << ADDRESS_BITS)
        if poly.bit_length() - 1 != bits:
            raise ConfigError(f"polynomial={poly}: has degree {poly.bit_length() - 1}, {sets} sets need degree {bits}")
        if bits and not is_irreducible(poly):
            example = smallest_irreducible(bits)
            raise ConfigError(f"polynomial={poly}: is reducible over GF(2), must be irreducible, such as {example}")
        return poly


@dataclass(frozen=True, slots=True)
class Fup(IndexFunction):
    """Full permutation: four groups of line bits xored (Wang et al., section III-C, figure 4).

    F = max(`feature_bits`, 4 n) line bits, cut into S1..S4 of n = log2(sets) bits; where F > 4 n, S4 takes
    the rest and is first reduced modulo the largest prime below the number of sets. With 1 or 2 sets there is
    no such prime, and F is 4 n.
    """

    feature_bits: int = 28
    name: ClassVar[str] = "fup"

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """See `IndexFunction.compile`."""
        bits = _set_bits(self.name, sets)
        line_bits = _line_bits(line_size)
        feature_bits = _whole("feature_bits", self.feature_bits, 1, line_bits + 1)
        if feature_bits <= 4 * bits or sets < 4:
            return IndexCode(KIND_LINEAR, sets, _groups(bits, 4, line_bits))
        return IndexCode(
            KIND_LINEAR,
            sets,
            _groups(bits, 3, line_bits),
            modulus=largest_prime(sets - 1),
            shift=3 * bits,
            fold_mask=(1 << (feature_bits - 3 * bits)) - 1,
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
    """Prime displacement: (`p` × tag + low bits) mod the largest prime below the sets.

    The low bits are log2(sets) of the line, the tag is the rest (Wang et al., section III-D).
    """

    p: int = 9
    name: ClassVar[str] = "pdisp"

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """See `IndexFunction.compile`."""
        bits = _set_bits(self.name, sets)
        if sets < 4:
            raise ConfigError(f"index='pdisp': needs at least 4 sets, not {sets}")
        factor = _whole("p", self.p, 1, 1 << 16)
        return IndexCode(KIND_DISPLACEMENT, sets, modulus=largest_prime(sets - 1), factor=factor, shift=bits)


@dataclass(frozen=True, slots=True)
class Masks(IndexFunction):
    """A GF(2)-linear map of the user: bit j of the set is the parity of ``line & masks[j]``."""

    masks: tuple[int, ...]
    name: ClassVar[str] = "masks"

    def __post_init__(self) -> None:
        """Store any sequence as a tuple, so that the value is hashable."""
        if isinstance(self.masks, str) or not isinstance(self.masks, Sequence):
            raise ConfigError(f"masks={self.masks!r}: must be a sequence of whole numbers")
        object.__setattr__(self, "masks", tuple(self.masks))

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """See `IndexFunction.compile`."""
        bits = _set_bits(self.name, sets)
        if len(self.masks) != bits:
            raise ConfigError(f"masks={self.masks}: {sets} sets need {bits} masks, not {len(self.masks)}")
        limit = 1 << _line_bits(line_size)
        return IndexCode(KIND_LINEAR, sets, tuple(_whole("masks", mask, 1, limit) for mask in self.masks))


@dataclass(frozen=True, slots=True)
class Table(IndexFunction):
    """A table of the user: the set is entry ``(line >> shift) % entries`` of `table`.

    `table` is any sequence or array of at most `MAX_INDEX_ENTRIES` sets.
    """

    table: tuple[int, ...]
    shift: int = 0
    name: ClassVar[str] = "table"

    def __post_init__(self) -> None:
        """Store any sequence or array as a tuple, so that the value is hashable."""
        found = self.table.tolist() if isinstance(self.table, np.ndarray) else self.table
        if isinstance(found, str) or not isinstance(found, Sequence):
            raise ConfigError(f"table={self.table!r:.60}: must be a sequence or an array of sets")
        object.__setattr__(self, "table", tuple(found))

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """See `IndexFunction.compile`."""
        if not 0 < len(self.table) <= MAX_INDEX_ENTRIES:
            raise ConfigError(f"table: has {len(self.table):,} entries; must have 1 to {MAX_INDEX_ENTRIES:,}")
        entries = np.array([_whole("table", entry, 0, sets) for entry in self.table], dtype=np.int64)
        shift = _whole("shift", self.shift, 0, ADDRESS_BITS)
        return IndexCode(KIND_TABLE, sets, shift=shift, table=entries.tobytes())


@dataclass(frozen=True, slots=True)
class Function(IndexFunction):
    """A Python function of the user, which maps a line to its set and is called once per line."""

    function: Callable[[int], int]
    name: ClassVar[str] = "function"
    is_plain: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check that there is something to call."""
        if not callable(self.function):
            raise ConfigError(
                f"function={self.function!r:.60}: must be a Python function of a line, which returns its set; files "
                "and command lines cannot name one"
            )

    def compile(self, sets: int, line_size: int) -> IndexCode:
        """See `IndexFunction.compile`."""
        return IndexCode(KIND_CALL, sets, call=CheckedCall(self.function, sets))


INDEX_FUNCTIONS: dict[str, type[IndexFunction]] = {
    cls.name: cls for cls in (Linear, Fermi, BXor, Pric, Fup, PMod, PDisp, Masks, Table, Function)
}
"""The index functions of this package by name."""


def names_for(sets: int, line_size: int) -> list[str]:
    """Return the names of the index functions that are defined for a cache without further parameters."""
    return [name for name in INDEX_FUNCTIONS if name != Fermi.name and _is_defined(name, sets, line_size)]


def _is_defined(name: str, sets: int, line_size: int) -> bool:
    try:
        INDEX_FUNCTIONS[name]().compile(sets, line_size)
    except (ConfigError, TypeError):  # a TypeError: it has parameters without a default
        return False
    return True


def compile_index(index: IndexFunction, sets: int, line_size: int) -> IndexCode:
    """Return an index function compiled for a cache; raise `ConfigError` for code that leaves the sets of the cache.

    The compiled cores do not check the sets that they compute.
    """
    check_described(index)
    code = index.compile(sets, line_size)
    if not isinstance(code, IndexCode) or not isinstance(code.masks, tuple):
        raise ConfigError(
            f"index={index.name!r}: compile returned {code!r:.60}, which is no IndexCode with a tuple of masks"
        )
    numbers = (code.kind, code.sets, code.modulus, code.factor, code.shift, code.fold_mask, *code.masks)
    if not all(isinstance(number, int | np.integer) and 0 <= number < 1 << ADDRESS_BITS for number in numbers):
        raise ConfigError(f"index={index.name!r}: compile returned {code}; must have whole numbers from 0 to 2^63 - 1")
    if code.kind == KIND_LINEAR:
        # The xor of the masks' bits and of the remainder has as many bits as the larger of both.
        reached = max(1 << len(code.masks), 1 << max(0, code.modulus - 1).bit_length())
        sound = reached <= sets
    elif code.kind == KIND_TABLE:
        sound = _holds_sets(code, sets)
    elif code.kind == KIND_CALL:
        sound = isinstance(code.call, CheckedCall)
    else:
        sound = 1 <= code.modulus <= sets and (code.kind == KIND_MODULO or code.factor < 1 << 16)
    if code.sets != sets or code.kind > KIND_CALL or code.shift >= ADDRESS_BITS or not sound:
        raise ConfigError(
            f"index={index.name!r}: compile returned {code}, which can leave the {sets} sets of the cache"
        )
    return code


def _holds_sets(code: IndexCode, sets: int) -> bool:
    """Return whether the table of an `IndexCode` has entries, all of them sets of the cache."""
    if not isinstance(code.table, bytes) or not code.table or len(code.table) % 8:
        return False
    entries = code.entries()
    return bool(entries.min() >= 0 and entries.max() < sets)


def index_to_dict(index: IndexFunction) -> dict[str, Any]:
    """Return an index function as a dict with its name and parameters."""
    parameters = {
        f.name: getattr(index, f.name)
        for f in fields(index)  # type: ignore[arg-type]
        if getattr(index, f.name) is not None
    }
    return {"name": index.name, **{name: _plain(value) for name, value in parameters.items()}}


def _plain(value: Any) -> Any:
    if callable(value):
        return function_name(value)
    return list(value) if isinstance(value, tuple) else value


def evaluate(code: IndexCode, lines: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the set of every non-negative line under a compiled index function; shape of `lines`."""
    if code.kind == KIND_MODULO:
        return lines % code.modulus
    if code.kind == KIND_DISPLACEMENT:
        low = lines & ((1 << code.shift) - 1)
        return (code.factor * ((lines >> code.shift) % code.modulus) + low) % code.modulus
    if code.kind == KIND_TABLE:
        entries = code.entries()
        return np.take(entries, (lines >> code.shift) % len(entries))
    if code.call is not None:
        found = np.array([code.call(line) for line in lines.ravel().tolist()], dtype=np.int64)
        code.call.check()
        return found.reshape(lines.shape)
    result = np.zeros_like(lines)
    for j, mask in enumerate(code.masks):
        result |= (np.bitwise_count(lines & mask).astype(np.int64) & 1) << j
    if code.modulus:
        result ^= (lines >> code.shift & code.fold_mask) % code.modulus
    return result


def largest_prime(limit: int) -> int:
    """Return the largest prime that is at most `limit` (at least 2)."""
    return next(n for n in range(limit, 1, -1) if all(n % d for d in range(2, math.isqrt(n) + 1)))


def _groups(bits: int, groups: int, line_bits: int) -> tuple[int, ...]:
    """Return masks that xor the `groups` lowest groups of `bits` line bits each."""
    return tuple(sum(1 << i for i in range(j, min(groups * bits, line_bits), bits)) for j in range(bits))


def _whole(name: str, value: Any, least: int, limit: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < limit:
        raise ConfigError(f"{name}={value!r}: must be a whole number from {least} to {limit - 1}")
    return value


def _line_bits(line_size: int) -> int:
    if line_size < 1 or line_size & (line_size - 1):
        raise ConfigError(f"line={line_size}: must be a power of two")
    return ADDRESS_BITS + 1 - line_size.bit_length()


def _set_bits(name: str, sets: int) -> int:
    if sets < 1 or sets & (sets - 1):
        raise ConfigError(f"index={name!r}: the number of sets must be a power of two, not {sets}")
    return sets.bit_length() - 1
