"""Compare the elements of arrays with the types of the pointers that a kernel takes."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from rdmodel.common.late_dataclass import dataclass
from tracegen.cuda.names import normalise

_LONG_BYTES = ctypes.sizeof(ctypes.c_long)

_INTEGER_BYTES = {
    "bool": 1,
    "char": 1,
    "signed char": 1,
    "unsigned char": 1,
    "short": 2,
    "unsigned short": 2,
    "int": 4,
    "unsigned int": 4,
    "long": _LONG_BYTES,
    "unsigned long": _LONG_BYTES,
    "long long": 8,
    "unsigned long long": 8,
    **{f"{sign}int{bits}_t": bits // 8 for sign in ("", "u") for bits in (8, 16)},
}
"""Sizes of the integer types of C++, in the spelling of `tracegen.cuda.names.normalise`."""

ADDRESS_TYPES = ("unsigned long", "unsigned long long")
"""Integers that some programs use as addresses."""

_VECTOR_BASES = {
    "char": ("integer", 1),
    "uchar": ("integer", 1),
    "short": ("integer", 2),
    "ushort": ("integer", 2),
    "int": ("integer", 4),
    "uint": ("integer", 4),
    "long": ("integer", _LONG_BYTES),
    "ulong": ("integer", _LONG_BYTES),
    "longlong": ("integer", 8),
    "ulonglong": ("integer", 8),
    "float": ("float", 4),
    "double": ("float", 8),
}
"""Kinds and sizes of the components of CUDA's vector types."""

_ARGUMENT_NAMES = {
    ("integer", 1): "char",
    ("integer", 2): "short",
    ("integer", 4): "int",
    ("integer", 8): "long",
    ("float", 2): "half",
    ("float", 4): "float",
    ("float", 8): "double",
}
"""Names of element types in arguments, by kind and bytes."""


_NARROW_FLOATS = {
    **dict.fromkeys(("half", "__half", "c10::Half"), "float"),
    **dict.fromkeys(("__nv_bfloat16", "nv_bfloat16", "__bf16", "c10::BFloat16"), "bfloat"),
}
"""Kinds of the floating-point types of 2 bytes, which are structures in C++."""


@dataclass(frozen=True, slots=True)
class ElementType:
    """The elements that a pointer of a kernel points to: the `kind` (integer, float or any), the bytes of a component.

    Signed and unsigned integers are of one kind: they have the same bytes in memory. A value may also be of the kind
    bfloat, the upper half of a float of 4 bytes.
    """

    kind: str
    bytes: int

    def fits(self, dtype: np.dtype[Any]) -> bool:
        """Return whether an array of this type has such elements; structures (``V``) fit everywhere."""
        if dtype.kind == "V":
            return True
        size = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
        kind = "integer" if dtype.kind in "iub" else "float"
        return size == self.bytes and self.kind in ("any", kind)

    @property
    def argument_name(self) -> str:
        """The name of the type in the text of an argument: ``int`` in ``int[n]``."""
        return _ARGUMENT_NAMES["integer" if self.kind == "any" else self.kind, self.bytes]

    @property
    def numpy_name(self) -> str:
        """The name of the type in NumPy: ``int32``."""
        return f"{'float' if self.kind == 'float' else 'int'}{8 * self.bytes}"


def _types() -> Iterator[tuple[str, ElementType]]:
    for name, size in _INTEGER_BYTES.items():
        yield name, ElementType("integer", size)
    for base, (kind, size) in _VECTOR_BASES.items():
        for components in ("1", "2", "3", "4", "4_16a", "4_32a"):
            yield base + components, ElementType(kind, size)
    yield from (("float", ElementType("float", 4)), ("double", ElementType("float", 8)))
    # Programs often keep half-precision numbers as bit patterns, and NumPy has no bfloat16.
    for name in ("half", "__half", "half2", "__half2", "__nv_bfloat16", "__nv_bfloat162", "__bf16"):
        yield name, ElementType("any", 2)
    yield from (("cuComplex", ElementType("float", 4)), ("cuDoubleComplex", ElementType("float", 8)))


_TYPES = dict(_types())


def value_type(name: str) -> ElementType | None:
    """Return the components of a value of this C++ type; None if they are unknown."""
    if name == "dim3":
        return ElementType("integer", 4)
    if name in _NARROW_FLOATS:
        return ElementType(_NARROW_FLOATS[name], 2)
    element = _TYPES.get(name)
    return None if element is None or element.kind == "any" else element


def is_pointer(declared: str) -> bool:
    """Return whether a C++ type is a pointer, or a reference, which has the address of its object."""
    return declared.endswith(("*", "&"))


def pointed_element(declared: str) -> ElementType | None:
    """Return the elements behind a pointer such as ``const int*``; None if they are unknown (``void*``, structures)."""
    target = declared.rstrip("&") if declared.endswith("&") else declared.removesuffix("*")
    if target.endswith("*"):
        return ElementType("integer", 8)
    base = re.sub(r"\bconst ?|\[\d*\]", "", target).strip()
    return _TYPES.get(normalise(base))
