"""Values to requests: which fields an `op` has and of which type they are; what they mean is found out later."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from rdmodel.errors import unknown
from rdmodel.model.options import Options
from rdmodel.model.predict import CALL_OPTIONS, L1_OPTIONS
from rdmodel.service.protocol import Refusal, text_of

MOST_TILES = 4096
"""Tiles of one `rank` request."""

MOST_TEXT = 200
"""Characters of a name or a value, other than an id or what is in an affine kernel."""

MOST_TIMEOUT = 1e6
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of which the fields have the right names and types; `id` is JSON text, `timeout` in seconds."""

    id: str
    op: str
    fields: Mapping[str, Any]
    timeout: float | None = None


def read_request(value: Any) -> Request:
    """Return the request that a JSON value is; raises `Refusal`, with the request's id if it has one."""
    if not isinstance(value, dict):
        raise Refusal("invalid_request", f"{_shown(value)}: a request is an object, or an array of them")
    try:
        return _read(value)
    except Refusal as refusal:
        refusal.id = text_of(value.get("id"))
        raise


def _read(value: dict[str, Any]) -> Request:
    if "op" not in value:
        raise Refusal("invalid_request", f"op: is missing; there are {', '.join(FIELDS)}")
    op = value["op"]
    if not isinstance(op, str):
        raise Refusal("invalid_request", f"op: {_shown(op)}: must be text")
    if op not in FIELDS:
        raise Refusal("unknown_op", unknown("op", f"{op:.60}", FIELDS))
    given = {name: one for name, one in value.items() if name not in ("id", "op")}
    for name in given:
        if name not in FIELDS[op]:
            raise Refusal("invalid_request", unknown(f"field of {op}", f"{name:.60}", ("id", "op", *FIELDS[op])))
    for name in REQUIRED.get(op, ()):
        if name not in given:
            raise Refusal("invalid_request", f"{name}: is missing; {op} needs it")
    for name, one in given.items():
        _check(name, FIELDS[op][name], one)
    timeout = given.pop("timeout", None)
    return Request(text_of(value.get("id")), op, given, timeout)


# ---- types


def _check(name: str, check: Callable[[Any], None], value: Any) -> None:
    """Check a value, and say which field it was that a `Refusal` is about."""
    try:
        check(value)
    except Refusal as refusal:
        raise Refusal(refusal.code, f"{name}: {refusal.message}") from None


def _shown(value: Any) -> str:
    """Return the beginning of a value as JSON."""
    text = text_of(value if not isinstance(value, str) else value[:80])
    return text if len(text) <= 60 else text[:57] + "..."


def _wrong(value: Any, what: str) -> Refusal:
    return Refusal("invalid_request", f"{_shown(value)}: must be {what}")


def _any(value: Any) -> None:
    pass


def _text(value: Any) -> None:
    if not isinstance(value, str):
        raise _wrong(value, "text")
    if len(value) > MOST_TEXT:
        raise Refusal("too_large", f"{_shown(value)}: is longer than {MOST_TEXT} characters")


def _whole(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(value, "a whole number")


def _scalar(value: Any) -> None:
    if isinstance(value, str):
        _text(value)
    elif isinstance(value, dict | list):
        raise _wrong(value, "a number, text, true, false or null")


def _seconds(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST_TIMEOUT:
        raise _wrong(value, f"a number of seconds, more than 0 and at most {MOST_TIMEOUT:g}")


def _object(value: Any) -> None:
    if not isinstance(value, dict):
        raise _wrong(value, "an object")


def _name_or_object(value: Any) -> None:
    if not isinstance(value, dict):
        if not isinstance(value, str):
            raise _wrong(value, "a name or an object")
        _text(value)


def _by_name(check: Callable[[Any], None]) -> Callable[[Any], None]:
    def checked(value: Any) -> None:
        _object(value)
        for name, one in value.items():
            _check("a name", _text, name)
            _check(name, check, one)

    return checked


def _shape(value: Any) -> None:
    if not isinstance(value, list) or not 1 <= len(value) <= 3:
        raise _wrong(value, "a list of one to three whole numbers: x, y, z")
    for one in value:
        _whole(one)


def _tile(value: Any) -> None:
    _object(value)
    for name, size in value.items():
        _check("a name", _text, name)
        _check(name, _size_of(name), size)


def _size_of(name: str) -> Callable[[Any], None]:
    return _shape if name == "block" else _whole


def _sizes_of(name: str) -> Callable[[Any], None]:
    def check(sizes: Any) -> None:
        if not isinstance(sizes, list) or not sizes:
            raise _wrong(sizes, "a list of sizes, not empty")
        for size in sizes:
            _size_of(name)(size)

    return check


def _tiles(value: Any) -> None:
    if not isinstance(value, dict | list):
        raise _wrong(value, "an object of lists, or a list of objects")
    if not value:
        raise Refusal("invalid_request", "there are none")
    if isinstance(value, list):
        count = len(value)
        for at, tile in enumerate(value):
            _check(f"number {at}", _tile, tile)
    else:
        for name, sizes in value.items():
            _check("a name", _text, name)
            _check(name, _sizes_of(name), sizes)
        count = prod(len(sizes) for sizes in value.values())
    if count > MOST_TILES:
        # As many as a product can be, they may have more digits than Python prints.
        raise Refusal("too_large", f"there are more than {MOST_TILES}, which is as many as are ranked at a time")


# ---- fields

MODEL_OPTIONS = (*(field.name for field in dataclasses.fields(Options)), *L1_OPTIONS, "seed")
"""Options that every effort and op has."""

EXACT_OPTIONS = tuple(name for name in CALL_OPTIONS if name not in ("seed", "histogram", "n_jobs"))
"""Options of an exact `predict` alone; about histograms and threads the service decides."""

QUICK_OPTIONS = ("work",)
"""Options of a quick `predict` alone."""

_MACHINE: dict[str, Callable[[Any], None]] = {"gpu": _name_or_object, "set": _by_name(_scalar)}
_KERNEL: dict[str, Callable[[Any], None]] = {
    "kernel": _name_or_object,
    "params": _by_name(_whole),
    "block": _shape,
    **_MACHINE,
    "effort": _text,
    "timeout": _seconds,
    **dict.fromkeys((name for name in MODEL_OPTIONS if name != "l2"), _scalar),
}

FIELDS: dict[str, dict[str, Callable[[Any], None]]] = {
    "ping": {},
    "gpus": _MACHINE,
    "kernels": {},
    "predict": {**_KERNEL, **dict.fromkeys(("l2", *EXACT_OPTIONS, *QUICK_OPTIONS), _scalar)},
    "rank": {**_KERNEL, "tiles": _tiles, "objective": _text, "top": _whole},
    "cancel": {"request": _any},
}
"""The fields of each op beside `id` and `op`, and what checks their types."""

REQUIRED = {"predict": ("kernel",), "rank": ("kernel", "tiles"), "cancel": ("request",)}
