"""Convert results to plain values for JSON, and back, without loss: floats keep every bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

T = TypeVar("T")


def to_record(value: Any) -> Any:
    """Convert a result to plain values for JSON.

    A result is a dataclass of dataclasses, numbers, texts, arrays, tuples and mappings.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_record(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: to_record(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_record(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def from_record(kind: type[T], record: Any) -> T:
    """Convert a record of `to_record` back to a result of type `kind`.

    Raises `KeyError`, `TypeError` or `ValueError` if `record` is not the record of such a result.
    """
    value: T = _read(kind, record)
    return value


def _read(kind: Any, record: Any) -> Any:
    arguments = get_args(kind)
    if NoneType in arguments:
        (kind,) = (argument for argument in arguments if argument is not NoneType)
        return None if record is None else _read(kind, record)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return kind(**{name: _read(hint, record[name]) for name, hint in _fields(kind).items()})
    origin = get_origin(kind)
    if origin is tuple:
        return tuple(_read(arguments[0], item) for item in record)
    if origin is np.ndarray:
        return np.array(record, dtype=get_args(arguments[1])[0])
    if origin is Mapping:
        return {name: _read(arguments[1], item) for name, item in record.items()}
    return record


@cache
def _fields(kind: Any) -> dict[str, Any]:
    """Return the types of the fields of a dataclass, by name."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
