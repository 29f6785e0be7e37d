"""Find the layout of structures in CUDA source, and pack the values of their fields into bytes."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError, unknown
from tracegen.cuda.element_types import pointed_element, value_type
from tracegen.cuda.names import normalise
from tracegen.cuda.textures import TextureValue
from tracegen.cuda.tokens import Token, TokenKind, tokenise

POINTER_BYTES = 8
NARROW_BYTES = 2
"""Bytes of a pointer, and of a number in half precision or in bfloat16."""

HANDLE_TYPES = frozenset({"cudaTextureObject_t", "cudaSurfaceObject_t", "unsigned long long"})
"""Types of textures and surfaces, which are numbers in the code of the device."""

STRUCT = "struct"
"""Key of the declared layout among the fields of a structure; no field of C++ has this name."""

_C_TYPES = {
    ("i", 1): "signed char",
    ("u", 1): "unsigned char",
    ("i", 2): "short",
    ("u", 2): "unsigned short",
    ("i", 4): "int",
    ("u", 4): "unsigned int",
    ("i", 8): "long long",
    ("u", 8): "unsigned long long",
    ("f", 2): "half",
    ("f", 4): "float",
    ("f", 8): "double",
}
"""Types of C by the kind and the size of a NumPy type."""

_VECTOR_BASES = {
    **{f"u{name}": f"unsigned {name}" for name in ("char", "short", "int", "long")},
    **{name: name for name in ("short", "int", "long", "float", "double")},
    "char": "signed char",
    "longlong": "long long",
    "ulonglong": "unsigned long long",
}
"""Components of the vector types of CUDA, by the names before their numbers."""

_QUALIFIERS = frozenset({"const", "volatile", "mutable", "struct", "__restrict__", "__restrict", "typename"})
_NO_VARIABLES = frozenset({"static", "using", "typedef", "friend"})
_UNUSUAL = frozenset({"virtual", "enum", "union", "class"})
_ACCESS = frozenset({"public", "private", "protected"})


@dataclass(frozen=True, slots=True)
class StructureField:
    """A field: its C++ type and place, its elements (None: not an array), and the layout of a structure."""

    name: str
    type: str
    offset: int
    bytes: int
    count: int | None
    structure: Structure | None = None


@dataclass(frozen=True, slots=True)
class Structure:
    """The layout of a structure: size and alignment in bytes."""

    name: str
    fields: tuple[StructureField, ...]
    bytes: int
    alignment: int


@dataclass(frozen=True, slots=True)
class StructureValue:
    """The bytes of a structure, and the arrays whose device addresses it holds, by their offsets."""

    data: bytes
    arrays: tuple[tuple[int, NDArray[Any] | TextureValue], ...] = ()
    behind_pointer: bool = False
    """Whether the kernel takes the address of the bytes, an array of pointers, and not the bytes themselves."""

    def with_addresses(self, addresses: Sequence[int]) -> bytes:
        """Return the bytes with the addresses of the arrays in place."""
        data = bytearray(self.data)
        for (offset, _), address in zip(self.arrays, addresses, strict=True):
            data[offset : offset + POINTER_BYTES] = address.to_bytes(POINTER_BYTES, "little")
        return bytes(data)


def structures(texts: Iterable[str]) -> dict[str, Structure]:
    """Return the structures whose layout the texts tell, by name.

    Left out are templates, structures with bases, bit fields, alignments or conditions, and fields of unknown types.
    """
    found: dict[str, Structure] = {}
    waiting: list[tuple[str, list[Token]]] = []
    aliases: dict[str, str] = {}
    for text in texts:
        tokens = list(tokenise(text))
        waiting += _bodies(tokens)
        aliases.update(_aliases(tokens))
    # Types of fields may stand in a text behind that of the structure.
    while True:
        known = {**vector_types(), **found}
        layouts = [(name, body, _layout(name, body, known, aliases)) for name, body in waiting]
        found.update({name: layout for name, _, layout in layouts if layout is not None})
        left = [(name, body) for name, body, layout in layouts if layout is None]
        if len(left) in (0, len(waiting)):
            return found
        waiting = left


def declared_structure(declared: object, where: str) -> Structure:
    """Return the layout that a user declares: fields in C, ``float *x; int n``, or a structured NumPy dtype.

    An unsigned number of 8 bytes in a dtype may hold the address of an array. Raises `ConfigError`.
    """
    if isinstance(declared, np.dtype) and declared.fields:
        return Structure(
            STRUCT,
            tuple(_field_of_dtype(name, declared.fields[name], where) for name in declared.names or ()),
            declared.itemsize,
            declared.alignment,
        )
    text = declared if isinstance(declared, str) and not set("{}#") & set(declared) else ""
    found = structures([f"struct {STRUCT}_ {{ {text}; }};"]).get(f"{STRUCT}_")
    if found is None:
        shown = declared if isinstance(declared, str) else type(declared).__name__
        raise ConfigError(
            f"{where}.{STRUCT}={shown!r}: must be the fields in C, such as 'float *x; int n', or in Python a "
            "structured NumPy dtype"
        )
    return found


def _field_of_dtype(name: str, place: tuple[Any, ...], where: str) -> StructureField:
    dtype, offset = place[0], place[1]
    base, shape = dtype.subdtype or (dtype, None)
    declared = _C_TYPES.get((base.kind, base.itemsize))
    if declared is None or not base.isnative:
        raise ConfigError(f"{where}.{STRUCT}: {name}: is a {base}, must be a native integer or floating-point number")
    return StructureField(name, declared, offset, dtype.itemsize, None if shape is None else math.prod(shape))


def pack_structure(structure: Structure, values: Mapping[str, Any], where: str) -> StructureValue:
    """Pack the fields of a structure; fields that are not given are zeros. Raises `ConfigError`."""
    data = bytearray(structure.bytes)
    arrays: list[tuple[int, NDArray[Any] | TextureValue]] = []
    places = {part.name: part for part in structure.fields}
    for name, value in values.items():
        if name not in places:
            raise ConfigError(f"{where}: {unknown(f'field of {structure.name}', name, list(places))}")
        part = places[name]
        packed = _pack_field(part, value, f"{where}.{name}")
        data[part.offset : part.offset + part.bytes] = packed.data
        arrays += [(part.offset + offset, array) for offset, array in packed.arrays]
    return StructureValue(bytes(data), tuple(arrays))


def _pack_field(part: StructureField, value: Any, where: str) -> StructureValue:
    if part.type in HANDLE_TYPES and part.count is None and isinstance(value, np.ndarray | TextureValue):
        return StructureValue(bytes(POINTER_BYTES), ((0, value),))
    if part.type.endswith("*") and part.count is None:
        if isinstance(value, np.ndarray) and value.ndim:
            wanted = pointed_element(part.type)
            if wanted is not None and not wanted.fits(value.dtype):
                raise ConfigError(f"{where}: is an array of {value.dtype}, must be one of {wanted.numpy_name}")
            return StructureValue(bytes(POINTER_BYTES), ((0, value),))
        if isinstance(value, int) and 0 <= value < 1 << 64:
            return StructureValue(value.to_bytes(POINTER_BYTES, "little"))
        raise ConfigError(f"{where}: must be an array, or an address as a whole number")
    if part.structure is not None and part.count is None and isinstance(value, Mapping):
        return pack_structure(part.structure, value, where)
    if part.type.endswith("*") and isinstance(value, list) and len(value) == part.count:
        single = StructureField(part.name, part.type, 0, POINTER_BYTES, None)
        items = [_pack_field(single, item, f"{where}[{at}]") for at, item in enumerate(value)]
        arrays = [(POINTER_BYTES * at, array) for at, item in enumerate(items) for _, array in item.arrays]
        return StructureValue(b"".join(item.data for item in items), tuple(arrays))
    if not isinstance(value, bytes | int | float | np.generic | np.ndarray):
        raise ConfigError(f"{where}: does not fit {part.type}" + (f"[{part.count}]" if part.count else ""))
    known = value_type(part.type)
    size = known.bytes if known is not None else part.bytes
    elements = part.bytes // size
    given = np.atleast_1d(np.asarray(value)).ravel().tolist() if not isinstance(value, bytes) else value
    if isinstance(given, bytes) or known is None:
        if not isinstance(given, bytes) or len(given) != part.bytes:
            raise ConfigError(f"{where}: must be the {part.bytes} bytes of a {part.type}")
        return StructureValue(given)
    if len(given) != elements:
        raise ConfigError(f"{where}: has {len(given)} values, must have {elements}")
    return StructureValue(b"".join(_pack_number(number, known.kind, size, where) for number in given))


def pack_narrow_float(number: float, declared: str | None, where: str) -> bytes | None:
    """Return the bytes of a number of the C++ type `declared`; None unless it is a floating-point type of 2 bytes.

    Raises `ConfigError` for a number that is too large.
    """
    known = value_type((declared or "").removeprefix("const "))
    if known is None or known.bytes != NARROW_BYTES or known.kind == "integer":
        return None
    return _pack_number(number, known.kind, known.bytes, where)


def _pack_number(number: Any, kind: str, size: int, where: str) -> bytes:
    if kind in ("float", "bfloat") and isinstance(number, int | float):
        with suppress(OverflowError, struct.error):
            return _bfloat(number) if kind == "bfloat" else struct.pack({2: "<e", 4: "<f", 8: "<d"}[size], number)
    elif isinstance(number, int) and -(1 << 8 * size - 1) <= number < 1 << 8 * size:
        return (number % (1 << 8 * size)).to_bytes(size, "little")
    raise ConfigError(
        f"{where}={number!r}: must be a {'whole number' if kind == 'integer' else 'number'} of {size} bytes"
    )


def _bfloat(number: float) -> bytes:
    """Return the bytes of a bfloat16: the nearest to the number in single precision, or the even one of two."""
    single = struct.pack("<f", number)
    bits = int.from_bytes(single, "little")
    if not math.isfinite(number):
        return single[2:]
    upper = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    if upper & 0x7F80 == 0x7F80:  # rounded to infinity
        raise OverflowError
    return upper.to_bytes(NARROW_BYTES, "little")


# ---- layout


def _bodies(tokens: list[Token]) -> Iterator[tuple[str, list[Token]]]:
    """Yield the name and the tokens between the braces of each plain structure."""
    for at, token in enumerate(tokens):
        if token.text not in ("struct", "class") or (at and tokens[at - 1].text in (">", ",", "<", "enum")):
            continue
        name = tokens[at + 1].text if at + 1 < len(tokens) and tokens[at + 1].kind is TokenKind.WORD else ""
        opening = at + 1 + bool(name)
        if opening < len(tokens) and tokens[opening].text == "{":
            closing = _closing(tokens, opening)
            after = tokens[closing + 1].text if closing + 1 < len(tokens) else ""
            if not name and at and tokens[at - 1].text == "typedef":
                name = after
            if name.isidentifier():
                yield name, tokens[opening + 1 : closing]


def _closing(tokens: list[Token], opening: int) -> int:
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (tokens[at].text == "{") - (tokens[at].text == "}")
        if depth == 0:
            return at
    return len(tokens)


def _aliases(tokens: list[Token]) -> Iterator[tuple[str, str]]:
    """Yield the names of enumerations, and of other names for plain types, each with the type that it stands for."""
    texts = [token.text for token in tokens]
    for at, text in enumerate(texts):
        if text not in ("enum", "typedef", "using"):
            continue
        rest = texts[at + 1 : at + 8]
        words = rest[: next((i for i, word in enumerate(rest) if word in ("{", ";")), 0)]
        if text == "enum":
            words = [word for word in words if word not in ("class", "struct")]
            name, target = words[:1], words[2:] if words[1:2] == [":"] else ["int"]
        elif text == "typedef":
            name, target = words[-1:], words[:-1]
        else:
            name, target = words[:1], words[2:] if words[1:2] == ["="] else []
        if name and target and all(word.isidentifier() for word in (*name, *target)):
            yield name[0], normalise(" ".join(target))


def _layout(
    name: str, body: list[Token], known: Mapping[str, Structure], aliases: Mapping[str, str]
) -> Structure | None:
    fields: list[StructureField] = []
    end, alignment = 0, 1
    for member in _members(body):
        for declared in _declared(member):
            if declared is None:
                return None
            field, type_name, count = declared
            type_name = _aliased(type_name, known, aliases)
            measured = _measure(type_name, known)
            if measured is None:
                return None
            size, aligned = measured
            end = -(-end // aligned) * aligned
            fields.append(StructureField(field, type_name, end, size * (count or 1), count, known.get(type_name)))
            end += size * (count or 1)
            alignment = max(alignment, aligned)
    return Structure(name, tuple(fields), -(-end // alignment) * alignment, alignment) if fields else None


def _members(body: list[Token]) -> Iterator[list[str]]:
    """Yield the words of every member that is no function, type or static variable; ``#`` for an unknown one."""
    member: list[str] = []
    depth, function = 0, False
    for token in body:
        text = token.text
        if token.kind is TokenKind.DIRECTIVE:
            yield ["#"]  # a condition: the layout is unknown
            return
        if depth == 0 and text == ":" and member and member[-1] in _ACCESS:
            member = []
            continue
        function = function or (depth == 0 and text == "(")
        depth += (text in "({[") - (text in ")}]")
        if depth == 0 and (text == ";" or (text == "}" and function)):
            pairs = [*pairwise(member)]
            if ("(", "*") in pairs or not _UNUSUAL.isdisjoint(member):
                yield ["#"]
            elif member and not function and member[0] not in _NO_VARIABLES:
                yield member
            member, function = [], False
        else:
            member.append(text)


def _declared(member: list[str]) -> Iterator[tuple[str, str, int | None] | None]:
    """Yield name, type and number of elements for every variable that a member declares; None if it is too complex."""
    parts = [text for text in member if text not in _QUALIFIERS]
    if not set(parts).isdisjoint({"#", "<", ">", "&", "(", ":", "{", "__align__", "alignas"}):
        yield None
        return
    first = " ".join(parts).split(",")[0].split("=")[0].split("[")[0].replace("*", " ").split()
    base = " ".join(first[:-1])
    for declarator in " ".join(parts)[len(base) :].split(","):
        found = re.fullmatch(r"\s*((?:\*\s*)*)(\w+)\s*((?:\[ \d+ \]\s*)*)(?:=.*)?", declarator)
        if not base or found is None:
            yield None
            return
        counts = [int(count) for count in re.findall(r"\d+", found[3])]
        declared = normalise(base.replace(" :: ", "::")) + "*" * found[1].count("*")
        yield found[2], declared, math.prod(counts) if counts else None


def _aliased(type_name: str, known: Mapping[str, Structure], aliases: Mapping[str, str]) -> str:
    """Return the type that a name stands for; at most a few names stand behind each other."""
    for _ in range(4):
        if type_name in known or value_type(type_name) is not None or type_name not in aliases:
            break
        type_name = aliases[type_name]
    return type_name


@cache
def vector_types() -> Mapping[str, Structure]:
    """Return the vector types, such as ``uint3`` and ``dim3``, by name."""
    found = {}
    for name in (*(f"{base}{count}" for base in _VECTOR_BASES for count in range(1, 5)), "dim3"):
        bytes, alignment = _measure(name, {}) or (0, 1)
        count = 3 if name == "dim3" else int(name[-1])
        element = "unsigned int" if name == "dim3" else _VECTOR_BASES[name[:-1]]
        size = bytes // count
        fields = (StructureField(field, element, size * at, size, None) for at, field in enumerate("xyzw"[:count]))
        found[name] = Structure(name, tuple(fields), bytes, alignment)
    return found


def _measure(type_name: str, known: Mapping[str, Structure]) -> tuple[int, int] | None:
    """Return the size and the alignment of a type in bytes, or None."""
    if type_name.endswith("*") or type_name in HANDLE_TYPES:
        return POINTER_BYTES, POINTER_BYTES
    if type_name in known:
        return known[type_name].bytes, known[type_name].alignment
    element = value_type(type_name)
    if element is None:
        return None
    vector = re.fullmatch(r"u?(?:char|short|int|long|longlong|float|double)([1-4])", type_name)
    count = int(vector[1]) if vector else 3 if type_name == "dim3" else 1
    size = element.bytes * count
    return size, min(size, 16) if count != 3 else element.bytes
