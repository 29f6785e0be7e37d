"""A kernel's arguments: what ``--arg name=value`` and a launch file say, made into numbers and arrays.

========================  ==============================================================================================
``n=1048576``, ``a=2.0``  a number; the kernel's parameter decides its width
``x=float[1048576]``      an array of zeros; several sizes (``float[512,512]``) and products (``float[n*n]``), in which
                          the names of whole-number arguments and macros stand for their values
``x=float[n]:1.5``        an array filled with a number
``x=int[n]:iota``         0, 1, 2 ...
``x=float[n]:random:7``   uniform in [0, 1), from seed 7; whole numbers: uniform below the array's length, or below a
                          bound: ``int[n]:random:7:256``
``x=@data.npy``           an array from a file; ``x=double@data.npy`` converts it
``x=@m.mtx:rows``         a sparse matrix from a Matrix Market file in CSR form: row pointers (``rows``), column indices
                          (``columns``), both int32, or the ``values``, float32 unless a type stands before ``@``
========================  ==============================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import ConfigError, unknown
from tracegen.cuda import arrays

Value = int | float | bytes | NDArray[Any]

_ARRAY = re.compile(r"(?P<type>[a-z]\w*)\[(?P<size>[^\]]*)\](?::(?P<fill>.*))?")
_FILE = re.compile(r"(?P<type>[a-z]\w*)?@(?P<path>.*?)(?::(?P<part>[a-z]+))?")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel's parameter: its name in the source (None: not known) and in the PTX, and its PTX type.

    `type` is as in PTX (``u64``, ``f32``), `bytes` the size of a structure passed by value (None for anything else).
    """

    name: str | None
    symbol: str
    type: str
    bytes: int | None = None

    def __str__(self) -> str:
        return self.name or self.symbol


def parse_argument(text: str, name: str, sizes: Mapping[str, int] | None = None, folder: Path | None = None) -> Value:
    """Return the value that `text` stands for; the module's table shows the forms.

    `sizes` are the names that may stand in an array's size, `folder` is where relative paths begin. Raises
    `ConfigError` naming `name` for what is none of the forms, and `TraceError` for a file that cannot be used.
    """
    text = text.strip()
    made = _ARRAY.fullmatch(text)
    if made:
        return arrays.make(name, made["type"], made["size"], made["fill"], sizes or {})
    file = _FILE.fullmatch(text)
    if file:
        path = Path(file["path"])
        return arrays.read(name, path if folder is None else folder / path, file["type"], file["part"])
    try:
        return int(text, 0)
    except ValueError:
        pass
    if text in ("true", "false"):
        return int(text == "true")
    try:
        number = float(text)
    except ValueError:
        raise ConfigError(
            f"argument {name}={text!r}: must be a number, TYPE[SIZE], TYPE[SIZE]:FILL or @FILE (float[1024]:random:1)"
        ) from None
    return number


def parse_arguments(
    given: Mapping[str, object], sizes: Mapping[str, int] | None = None, folder: Path | None = None
) -> dict[str, Value]:
    """Return every argument's value by name; texts are parsed (`parse_argument`), numbers and arrays stay.

    Whole numbers among `given` may stand in the sizes of arrays, before those of `sizes`.
    """
    known = dict(sizes or {})
    values: dict[str, Value] = {}
    plain = {name: text for name, text in given.items() if not (isinstance(text, str) and re.search(r"[\[@]", text))}
    for name, text in [*plain.items(), *((n, t) for n, t in given.items() if n not in plain)]:
        values[name] = parse_argument(text, name, known, folder) if isinstance(text, str) else _checked(name, text)
        if isinstance(values[name], int):
            known[name] = int(values[name])
    return {name: values[name] for name in given}


def bind(parameters: Sequence[Parameter], given: Mapping[str, Value] | Sequence[Value], kernel: str) -> list[Value]:
    """Return the arguments in the order of the kernel's parameters, each as its parameter needs it.

    `given` are values in order, or by name: a parameter's name in the source, in the PTX, or its position (``"0"``).
    Raises `ConfigError` for one that is missing, unknown, given twice or of the wrong kind.
    """
    if not isinstance(given, Mapping):
        if len(given) != len(parameters):
            names = ", ".join(map(str, parameters))
            raise ConfigError(f"{kernel}: {len(given)} arguments for {len(parameters)} parameters: {names}")
        return [fit(value, parameter) for value, parameter in zip(given, parameters, strict=True)]
    placed: dict[int, Value] = {}
    for name, value in given.items():
        at = position(parameters, name)
        if at is None:
            known = [str(parameter) for parameter in parameters]
            raise ConfigError(
                unknown(f"argument of {kernel}", name, known) if known else f"{kernel}: takes no {name!r}"
            )
        if at in placed:
            raise ConfigError(f"argument {name}: {parameters[at]} of {kernel} is given twice")
        placed[at] = value
    missing = [str(parameter) for at, parameter in enumerate(parameters) if at not in placed]
    if missing:
        raise ConfigError(f"{kernel}: missing argument {', '.join(missing)}")
    return [fit(placed[at], parameter) for at, parameter in enumerate(parameters)]


def position(parameters: Sequence[Parameter], name: str) -> int | None:
    """Return which parameter is called `name`, None for none."""
    for spelled in (
        [p.name for p in parameters],
        [p.symbol for p in parameters],
        list(map(str, range(len(parameters)))),
    ):
        if name in spelled:
            return spelled.index(name)
    return None


def fit(value: Any, parameter: Parameter) -> Value:
    """Return a value as `parameter` takes it; raises `ConfigError` if it cannot.

    Arrays go where a pointer goes; whole numbers must fit the type's width, signed or not; a structure passed by
    value is given as its bytes. A type of mere bits (``b32``) takes the bits of a floating-point number as well.
    """
    where = f"argument {parameter}"
    if parameter.bytes is not None:
        data = value.tobytes() if isinstance(value, np.void) else value
        if not isinstance(data, bytes) or len(data) != parameter.bytes:
            raise ConfigError(f"{where}: is a structure of {parameter.bytes} bytes; give it as bytes, packed as in C++")
        return data
    kind, bits = parameter.type[0], int(parameter.type[1:])
    if isinstance(value, np.ndarray) and value.ndim:
        if kind == "f" or bits != 64:
            raise ConfigError(f"{where}: is a single {parameter.type}, not an array")
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


def _checked(name: str, value: object) -> Value:
    if isinstance(value, np.ndarray | bytes | int | float | np.generic):
        return value  # type: ignore[return-value]
    raise ConfigError(f"argument {name}={value!r}: must be a number, an array or a text")
