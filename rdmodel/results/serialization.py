"""Results as plain values for JSON, and back: nothing is lost, floats included."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

T = TypeVar("T")


def to_record(value: Any) -> Any:
    """Return a result, a frozen value of frozen values, numbers, texts, arrays and mappings, as what JSON knows."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_record(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: to_record(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [to_record(one) for one in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def from_record(kind: type[T], record: Any) -> T:
    """Return the result of type `kind` that `to_record` was given.

    Raises `KeyError`, `TypeError` or `ValueError` for what is no such record.
    """
    value: T = _read(kind, record)
    return value


def _read(kind: Any, record: Any) -> Any:
    of = get_args(kind)
    if NoneType in of:
        (kind,) = (one for one in of if one is not NoneType)
        return None if record is None else _read(kind, record)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return kind(**{name: _read(hint, record[name]) for name, hint in _fields(kind).items()})
    origin = get_origin(kind)
    if origin is tuple:
        return tuple(_read(of[0], one) for one in record)
    if origin is np.ndarray:
        return np.array(record, dtype=get_args(of[1])[0])
    if origin is Mapping:
        return {name: _read(of[1], one) for name, one in record.items()}
    return record


@cache
def _fields(kind: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with their types."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
