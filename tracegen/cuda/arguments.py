"""Parse the arguments of a kernel, from ``--arg name=value`` or a launch file, into numbers and arrays.

========================  ==============================================================================================
``n=1048576``, ``a=2.0``  a number; the parameter of the kernel determines its width
``x=float[1048576]``      an array of zeros; several sizes (``float[512,512]``) and products (``float[n*n]``), where
                          the names of whole-number arguments and macros stand for their values
``x=float[n]:1.5``        an array filled with a number
``x=int[n]:iota``         0, 1, 2 ...
``x=float[n]:random:7``   uniform in [0, 1), from seed 7; whole numbers: uniform below the array's length, or below a
                          bound: ``int[n]:random:7:256``
``x=@data.npy``           an array from a file; ``x=double@data.npy`` converts it
``p={x=float[n],n=4}``    the fields of a structure; those that are left out are zeros
``p={struct=int n,n=4}``  a structure of a declared layout, where the source does not tell it (PTX)
``p={sizes=[4,6]}``       a structure with the elements of an array; ``u={x=1,y=2}`` is a vector
``p={x=&y}``              a pointer to the array ``y``, another argument, which need not be a parameter
``t={texels=float[8,8]}`` a texture, with options such as ``filter=linear`` (`tracegen.cuda.textures`)
``x=@m.mtx:rows``         a sparse matrix from a Matrix Market file in CSR form: row pointers (``rows``), column indices
                          (``columns``), both int32, or the ``values``, float32 unless a type stands before ``@``
========================  ==============================================================================================
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError, unknown
from tracegen.cuda import array_arguments
from tracegen.cuda.element_types import ADDRESS_TYPES, is_pointer, pointed_element
from tracegen.cuda.structures import (
    NARROW_BYTES,
    POINTER_BYTES,
    STRUCT,
    Structure,
    StructureValue,
    declared_structure,
    pack_narrow_float,
    pack_structure,
)
from tracegen.cuda.textures import TEXELS, TextureValue, is_texture, make_value, texture_options

ArgumentValue = int | float | bytes | NDArray[Any] | Mapping[str, Any] | list[Any] | StructureValue | TextureValue
"""The value of an argument: a number, a structure as its bytes or fields, an array, a list of arrays, or a texture."""

_ARRAY_ARGUMENT = re.compile(r"(?P<type>[a-z_]\w*)\[(?P<size>[^\]]*)\](?::(?P<fill>.*))?")
_REFERENCE = "&"
"""Key of a reference to another argument, which is parsed before that argument is known."""

_MAX_NESTING = 50
"""Largest number of structures inside a structure."""

_FILE_ARGUMENT = re.compile(r"(?P<type>[a-z_]\w*)?@(?P<path>.*?)(?::(?P<part>[a-z]+))?")


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """A parameter of a kernel: its name in the source (None: unknown), its name in the PTX, and its PTX type.

    `type` is as in PTX (``u64``, ``f32``). `bytes` is the size of a structure passed by value (None: not a structure).
    `declared` is the type in C++, such as ``const int*`` (None: unknown). `structure` is the layout of a structure.
    """

    name: str | None
    symbol: str
    type: str
    bytes: int | None = None
    declared: str | None = None
    structure: Structure | None = None

    def __str__(self) -> str:
        return self.name or self.symbol


def parse_argument(
    text: str, name: str, sizes: Mapping[str, int] | None = None, folder: Path | None = None
) -> ArgumentValue:
    """Parse the value of the argument `name`; the table in the module docstring lists the forms.

    `sizes` are the names allowed in the size of an array, with their values. Relative paths start at `folder`. Raises
    `ConfigError` for a text in none of the forms, and `TraceError` for a file that cannot be used.
    """
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        return _parse_value(_fields(text[1:-1], name), name, sizes or {}, folder)
    array_match = _ARRAY_ARGUMENT.fullmatch(text)
    if array_match:
        of, size, fill = array_match["type"], array_match["size"], array_match["fill"]
        return array_arguments.make_array(name, of, size, fill, sizes or {})
    if re.fullmatch(r"&[A-Za-z_]\w*", text):
        return {_REFERENCE: text[1:]}
    file_match = _FILE_ARGUMENT.fullmatch(text)
    if file_match:
        path = Path(file_match["path"]) if folder is None else folder / file_match["path"]
        return array_arguments.read_array(name, path, file_match["type"], file_match["part"])
    # Python would take underscores, and the digits of other scripts, for parts of a number.
    plain = text if text.isascii() and "_" not in text else ""
    try:
        return int(plain, 0)
    except ValueError:
        pass
    if text in ("true", "false"):
        return int(text == "true")
    try:
        number = float(plain)
    except ValueError:
        raise ConfigError(
            f"argument {name}={text!r}: must be a number, TYPE[SIZE], TYPE[SIZE]:FILL or @FILE (float[1024]:random:1)"
        ) from None
    return number


def parse_arguments(
    given: Mapping[str, object],
    sizes: Mapping[str, int] | None = None,
    folder: Path | None = None,
    arrays: Mapping[str, ArgumentValue] | None = None,
) -> dict[str, ArgumentValue]:
    """Return the value of every argument by name: texts are parsed by `parse_argument`, numbers and arrays stay.

    Sizes of arrays may name the whole numbers in `given`, which take precedence over those in `sizes`. Tables are the
    fields of structures, and lists are arrays of pointers; both may refer to the arrays in `given` and in `arrays`
    (``"&x"``).
    """
    try:
        values = _parse_values(given, sizes, folder)
        return {name: _resolve(value, {**(arrays or {}), **values}, name) for name, value in values.items()}
    except RecursionError:
        raise ConfigError("argument: structures and lists are nested too deeply") from None


def _parse_values(
    given: Mapping[str, object], sizes: Mapping[str, int] | None, folder: Path | None, structure: str = ""
) -> dict[str, ArgumentValue]:
    """Parse values as `parse_arguments` does, but leave references; errors name fields as ``structure.field``."""
    known = dict(sizes or {})
    values: dict[str, ArgumentValue] = {}
    plain = {name: text for name, text in given.items() if not (isinstance(text, str) and re.search(r"[\[@{]", text))}
    for name, text in [*plain.items(), *((n, t) for n, t in given.items() if n not in plain)]:
        value = values[name] = _parse_value(text, f"{structure}{name}", known, folder)
        if isinstance(value, int):
            known[name] = int(value)
    return {name: values[name] for name in given}


def _parse_value(value: object, name: str, sizes: Mapping[str, int], folder: Path | None) -> ArgumentValue:
    if isinstance(value, Mapping) and is_texture(value):
        options = texture_options(value, name)
        return make_value(_parse_value(value[TEXELS], f"{name}.{TEXELS}", sizes, folder), options, name)
    if isinstance(value, Mapping):
        value = {field: _read_numbers(part, f"{name}.{field}") for field, part in value.items()}
        lists = {field: part for field, part in value.items() if isinstance(part, list | tuple) and _are_numbers(part)}
        declared = {field: part for field, part in value.items() if field == STRUCT}
        rest = {field: part for field, part in value.items() if field not in lists and field not in declared}
        return {
            **declared,
            **{field: np.asarray(part) for field, part in lists.items()},
            **_parse_values(rest, sizes, folder, f"{name}."),
        }
    if isinstance(value, list | tuple) and value and not _are_numbers(value):
        return [_parse_value(item, name, sizes, folder) for item in value]
    return parse_argument(value, name, sizes, folder) if isinstance(value, str) else _check_value(name, value)


def _are_numbers(items: Sequence[object]) -> bool:
    return all(isinstance(item, int | float | np.number) for item in items)


def _resolve(value: ArgumentValue, arrays: Mapping[str, ArgumentValue], name: str) -> ArgumentValue:
    """Return the value with the arrays to which it refers."""
    if isinstance(value, list):
        return [_resolve(item, arrays, name) for item in value]
    if isinstance(value, TextureValue):
        return make_value(_resolve(value.array, arrays, name), value.options, name)
    if not isinstance(value, Mapping):
        return value
    if _REFERENCE not in value:
        return {
            field: part if field == STRUCT else _resolve(part, arrays, f"{name}.{field}")
            for field, part in value.items()
        }
    target = arrays.get(value[_REFERENCE])
    if not isinstance(target, np.ndarray):
        raise ConfigError(f"argument {name}=&{value[_REFERENCE]}: must be the name of an array among the arguments")
    return target


def contained_arrays(values: Iterable[ArgumentValue]) -> Iterator[NDArray[Any]]:
    """Yield the arrays in structures and in lists among the values."""
    for value in values:
        if isinstance(value, TextureValue):
            yield value.array
        parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        yield from (part for part in parts if isinstance(part, np.ndarray))
        yield from contained_arrays([part for part in parts if isinstance(part, Mapping | list | TextureValue)])


def bind_arguments(
    parameters: Sequence[KernelParameter], given: Mapping[str, ArgumentValue] | Sequence[ArgumentValue], kernel: str
) -> list[ArgumentValue]:
    """Return the arguments in the order of the kernel's parameters, each converted to the type of its parameter.

    `given` holds values in order, or by name: the name in the source, in the PTX, or the position (``"0"``). Raises
    `ConfigError` for an argument that is missing, unknown, given twice or of the wrong kind.
    """
    if not isinstance(given, Mapping):
        if len(given) != len(parameters):
            names = ", ".join(map(str, parameters))
            raise ConfigError(f"{kernel}: {len(given)} arguments for {len(parameters)} parameters: {names}")
        return [fit_argument(value, parameter) for value, parameter in zip(given, parameters, strict=True)]
    placed: dict[int, ArgumentValue] = {}
    for name, value in given.items():
        at = find_parameter(parameters, name)
        if at is None and any(value is array for array in contained_arrays(given.values())):
            continue  # only a structure or a list refers to it
        if at is None:
            known = [str(parameter) for parameter in parameters]
            raise ConfigError(
                unknown(f"argument of {kernel}", name, known)
                if known
                else f"{kernel}: has no parameters: leave out argument {name!r}"
            )
        if at in placed:
            raise ConfigError(f"argument {name}: {parameters[at]} of {kernel} is given twice")
        placed[at] = value
    missing = [str(parameter) for at, parameter in enumerate(parameters) if at not in placed]
    if missing:
        raise ConfigError(f"{kernel}: missing argument {', '.join(missing)}")
    return [fit_argument(placed[at], parameter) for at, parameter in enumerate(parameters)]


def find_parameter(parameters: Sequence[KernelParameter], name: str) -> int | None:
    """Return the index of the parameter called `name`, or None."""
    for spelled in (
        [p.name for p in parameters],
        [p.symbol for p in parameters],
        list(map(str, range(len(parameters)))),
    ):
        if name in spelled:
            return spelled.index(name)
    return None


def fit_argument(value: Any, parameter: KernelParameter) -> ArgumentValue:
    """Convert a value to the type of `parameter`; raises `ConfigError` if it does not fit.

    A pointer takes an array, whose elements must have the type that it points to, if that is known. A whole number
    must fit the width of the type, signed or not. A structure passed by value is given as its bytes, or as a number if
    it is one in half precision or bfloat16. An untyped parameter (``b32``) also takes the bits of a floating-point
    number.
    """
    where = f"argument {parameter}"
    if parameter.bytes is not None:
        if isinstance(value, Mapping):
            return _fit_structure(value, parameter, where)
        data = value.tobytes() if isinstance(value, np.void) else _narrow_float(value, parameter, where)
        if not isinstance(data, bytes) or len(data) != parameter.bytes:
            fields = ", or its fields by name" if parameter.structure else ""
            raise ConfigError(
                f"{where}: must be the {parameter.bytes} bytes of a structure, laid out as in C++{fields}"
            )
        return data
    kind, bits = parameter.type[0], int(parameter.type[1:])
    if isinstance(value, TextureValue):
        if bits != 64 or kind == "f":
            raise ConfigError(f"{where}: must be a single {parameter.declared or parameter.type}, not a texture")
        return value
    if isinstance(value, list):
        if bits != 64 or kind == "f" or not all(isinstance(item, np.ndarray) for item in value):
            raise ConfigError(f"{where}: must be a {parameter.declared or parameter.type}, not a list")
        addresses = tuple((POINTER_BYTES * at, array) for at, array in enumerate(value))
        return StructureValue(bytes(POINTER_BYTES * len(value)), addresses, behind_pointer=True)
    if isinstance(value, Mapping):
        raise ConfigError(f"{where}: must be a {parameter.declared or parameter.type}, not the fields of a structure")
    if isinstance(value, np.ndarray) and value.ndim:
        if kind == "f" or bits != 64:
            raise ConfigError(f"{where}: must be a single {parameter.type}, not an array")
        _check_elements(value, parameter, where)
        return value
    number = value.item() if isinstance(value, np.generic | np.ndarray) else value
    if isinstance(number, bool | int) and kind != "f":
        if not -(1 << bits - 1) <= number < 1 << bits:
            raise ConfigError(f"{where}={number}: does not fit {bits} bits")
        return int(number)
    if isinstance(number, bool | int | float) and kind in "fb":
        as_float = np.dtype(f"f{bits // 8}").type(number)
        return float(as_float) if kind == "f" else as_float.tobytes()
    raise ConfigError(f"{where}={value!r}: must be a {'number' if kind == 'f' else 'whole number'} ({parameter.type})")


def _read_numbers(value: Any, name: str) -> Any:
    """Return the numbers in a text such as ``[4, 6]``, the elements of an array in a structure; others as they are."""
    if not isinstance(value, str) or not re.fullmatch(r"\s*\[.*\]\s*", value):
        return value
    return [parse_argument(part, name) for part in value.strip()[1:-1].split(",")]


def _fields(text: str, name: str) -> dict[str, str]:
    """Return the fields in the text of a structure: ``x=float[n, 4], n=4``."""
    if text.count("{") > _MAX_NESTING:
        raise ConfigError(f"argument {name}: has more than {_MAX_NESTING} structures inside")
    if not text.strip():
        return {}
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "{[") - (letter in "}]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    fields: dict[str, str] = {}
    for part in parts:
        field, equals, value = part.partition("=")
        if not equals or not field.strip().isidentifier() or field.strip() in fields:
            raise ConfigError(f"argument {name}: {part.strip()!r}: must be FIELD=VALUE, each field once")
        fields[field.strip()] = value.strip()
    return fields


def _narrow_float(value: Any, parameter: KernelParameter, where: str) -> Any:
    """Return the bytes of a number for a parameter in half precision or in bfloat16, and other values as they are."""
    if parameter.bytes != NARROW_BYTES or not isinstance(value, int | float | np.integer | np.floating):
        return value
    number = value.item() if isinstance(value, np.generic) else value
    packed = pack_narrow_float(number, parameter.declared, where)
    if packed is not None or parameter.declared is not None:
        return value if packed is None else packed
    if isinstance(value, np.float16):
        return value.tobytes()
    if number == 0 and math.copysign(1, number) > 0:
        return bytes(NARROW_BYTES)  # zero has the same bits in all types
    raise ConfigError(
        f"{where}={number!r}: the type of the {NARROW_BYTES} bytes is not known: declare it, as in "
        f"{{{STRUCT}=half x, x={number!r}}} or {{{STRUCT}=__nv_bfloat16 x, x={number!r}}}"
    )


def _fit_structure(fields: Mapping[str, Any], parameter: KernelParameter, where: str) -> StructureValue:
    structure = declared_structure(fields[STRUCT], where) if STRUCT in fields else parameter.structure
    if structure is not None and STRUCT in fields and structure.bytes != parameter.bytes:
        raise ConfigError(
            f"{where}.{STRUCT}: has {structure.bytes} bytes, must have the {parameter.bytes} of the kernel"
        )
    if structure is None and not fields and parameter.bytes is not None:
        return StructureValue(bytes(parameter.bytes))
    if structure is None or structure.bytes != parameter.bytes:
        raise ConfigError(
            f"{where}: the layout of {parameter.declared or 'the structure'} is not known from the source: declare it, "
            f"such as {STRUCT}='float *x; int n', or give its {parameter.bytes} bytes, in Python as bytes or a NumPy "
            "structured value"
        )
    return pack_structure(structure, {name: value for name, value in fields.items() if name != STRUCT}, where)


def _check_elements(array: NDArray[Any], parameter: KernelParameter, where: str) -> None:
    """Raise `ConfigError` unless the kernel takes a pointer to such elements, or its type is unknown."""
    declared = parameter.declared
    if declared is None or declared in ADDRESS_TYPES:
        return
    if not is_pointer(declared):
        raise ConfigError(f"{where}: must be a single {declared}, not an array")
    wanted = pointed_element(declared)
    if wanted is not None and not wanted.fits(array.dtype):
        name, dtype = wanted.argument_name, wanted.numpy_name
        raise ConfigError(
            f"{where}: is an array of {array.dtype}, but the kernel takes {declared}: give {dtype}, "
            f"as in {name}[SIZE] or {name}@FILE; in Python, convert it with .astype('{dtype}')"
        )


def _check_value(name: str, value: object) -> ArgumentValue:
    if isinstance(value, np.ndarray | bytes | int | float | np.generic | TextureValue):
        return value  # type: ignore[return-value]
    raise ConfigError(f"argument {name}={value!r}: must be a number, an array or a text")
