"""Find the variables of a program by their names in the source, and convert values to their bytes."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from rdmodel.common.kernel_names import base_name
from rdmodel.errors import ConfigError, unknown
from tracegen.cuda.arguments import ArgumentValue, KernelParameter, fit_argument, parse_arguments
from tracegen.cuda.names import demangle, normalise
from tracegen.cuda.textures import TextureValue
from tracegen.ptx import Module, Variable
from tracegen.ptx.emulator.textures import TextureOptions
from tracegen.ptx.lowering.lowering import is_reference, variable_bytes

_FILLED_SPACES = ("const", "global")

SYMBOL_PREFIX = "symbol:"
"""Beginning of the name of an argument that fills a variable of the program."""


def split_symbols(given: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Return the arguments of a kernel, and the variables that the arguments ``symbol:NAME`` fill, by NAME."""
    args = {name: value for name, value in given.items() if not name.startswith(SYMBOL_PREFIX)}
    symbols = {n.removeprefix(SYMBOL_PREFIX): value for n, value in given.items() if n.startswith(SYMBOL_PREFIX)}
    return args, symbols


def merge_variables(given: Mapping[str, object], symbols: Mapping[str, object]) -> dict[str, object]:
    """Return the variables of both mappings; raises `ConfigError` for one in both."""
    for name in symbols:
        if name in given:
            raise ConfigError(f"variable {name}: is given twice")
    return {**given, **symbols}


def parse_variables(
    given: Mapping[str, object],
    sizes: Mapping[str, int] | None = None,
    folder: Path | None = None,
    arrays: Mapping[str, ArgumentValue] | None = None,
) -> dict[str, ArgumentValue]:
    """Return the value of every variable by name; texts, sizes, arrays and errors are those of `parse_arguments`."""
    with _named_variables():
        return parse_arguments(given, sizes, folder, arrays)


def variable_contents(module: Module, given: Mapping[str, ArgumentValue]) -> dict[str, bytes | TextureValue]:
    """Return the contents of the variables in constant and global memory that are `given`, by their names in the PTX.

    The content of a reference to a texture or a surface is a texture; others are bytes.

    A variable is given by its name in the source (``__constant__ float coef[16]``: ``coef``) or in the PTX. An array
    has the bytes of its variable; a variable that is no array also takes a number. Raises `ConfigError` for an unknown
    variable and for a value that does not fit.
    """
    contents: dict[str, bytes | TextureValue] = {}
    for name, value in given.items():
        variable = _find(module, name)
        if variable.name in contents:
            raise ConfigError(f"variable {name}: is given twice")
        contents[variable.name] = (_texture_of if is_reference(variable) else _bytes_of)(name, value, variable)
    return contents


@contextmanager
def _named_variables() -> Iterator[None]:
    """Let errors about arguments name variables instead."""
    try:
        yield
    except ConfigError as error:
        message = str(error)
        raise ConfigError("variable" + message.removeprefix("argument")) from None


def _find(module: Module, name: str) -> Variable:
    variables = [v for v in module.variables.values() if v.space in _FILLED_SPACES]
    for spelling in (lambda symbol: symbol, demangle, base_name):
        found = [v for v in variables if spelling(v.name) == (name if spelling is not demangle else normalise(name))]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(demangle(v.name) for v in found)
            raise ConfigError(f"variable {name!r} is ambiguous; name one: {names}")
    known = [demangle(v.name) for v in variables]
    if not known:
        raise ConfigError(f"variable {name!r}: the program has no variables in constant or global memory that it uses")
    message = unknown("variable", name, known)
    raise ConfigError(message if "; known: " in message else f"{message} the program has {', '.join(known)}")


def _texture_of(name: str, value: ArgumentValue, variable: Variable) -> TextureValue:
    if isinstance(value, np.ndarray) and value.ndim:
        return TextureValue(value, TextureOptions())
    if isinstance(value, TextureValue):
        return value
    raise ConfigError(f"variable {name}: is a reference to a texture or a surface: give an array")


def _bytes_of(name: str, value: ArgumentValue, variable: Variable) -> bytes:
    size = variable_bytes(variable)
    if isinstance(value, np.ndarray) and value.ndim:
        if value.nbytes != size:
            raise ConfigError(
                f"variable {name}: the array has {value.nbytes} bytes ({value.dtype}), must have {size} bytes"
            )
        return np.ascontiguousarray(value).tobytes()
    if isinstance(value, bytes):
        if len(value) != size:
            raise ConfigError(f"variable {name}: has {len(value)} bytes, must have {size}")
        return value
    if isinstance(value, TextureValue):
        raise ConfigError(f"variable {name}: is no reference to a texture: give it {size} bytes")
    if variable.count is not None or not re.fullmatch(r"[busf](8|16|32|64)", variable.type):
        raise ConfigError(f"variable {name}={value}: must be an array of {size} bytes")
    with _named_variables():
        fitted = fit_argument(value, KernelParameter(name, variable.name, variable.type))
    if isinstance(fitted, bytes):
        return fitted
    if isinstance(fitted, float):
        return struct.pack({2: "<e", 4: "<f", 8: "<d"}[size], fitted)
    assert isinstance(fitted, int)
    return (int(fitted) % (1 << 8 * size)).to_bytes(size, "little")
