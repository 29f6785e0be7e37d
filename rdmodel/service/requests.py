"""Read requests from JSON values: check the names and types of their fields, but not yet their meaning."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from rdmodel.errors import unknown
from rdmodel.model.options import Options
from rdmodel.model.predict import CALL_OPTIONS, L1_OPTIONS
from rdmodel.service.protocol import Refusal, json_text

MAX_REQUEST_TILES = 4096
"""Maximum number of tiles in a `rank` request."""

MAX_TEXT_CHARACTERS = 200
"""Maximum length of a name or a value, except for ids and texts in an affine kernel."""

MAX_TIMEOUT_SECONDS = 1e6
"""Maximum time limit of a request."""


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """A request with fields of the right names and types; `id` is JSON text, `timeout` is in seconds."""

    id: str
    op: str
    fields: Mapping[str, Any]
    timeout: float | None = None


def read_request(value: Any) -> ServiceRequest:
    """Return the request in a JSON value; raise `Refusal`, with the id of the request if it has one."""
    if not isinstance(value, dict):
        raise Refusal("invalid_request", f"{_quote(value)}: a request is an object, or an array of them")
    try:
        return _read(value)
    except Refusal as refusal:
        refusal.id = json_text(value.get("id"))
        raise


def _read(value: dict[str, Any]) -> ServiceRequest:
    if "op" not in value:
        raise Refusal("invalid_request", f"op: is missing; must be one of {', '.join(FIELDS)}")
    op = value["op"]
    if not isinstance(op, str):
        raise Refusal("invalid_request", f"op: {_quote(op)}: must be text")
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
    return ServiceRequest(json_text(value.get("id")), op, given, timeout)


# ---- checks of types


def _check(name: str, check: Callable[[Any], None], value: Any) -> None:
    """Check a value; a `Refusal` gets the name of the field."""
    try:
        check(value)
    except Refusal as refusal:
        raise Refusal(refusal.code, f"{name}: {refusal.message}") from None


def _quote(value: Any) -> str:
    """Return the start of a value as JSON."""
    text = json_text(value if not isinstance(value, str) else value[:80])
    return text if len(text) <= 60 else text[:57] + "..."


def _wrong_type(value: Any, what: str) -> Refusal:
    return Refusal("invalid_request", f"{_quote(value)}: must be {what}")


def _any(value: Any) -> None:
    pass


def _text(value: Any) -> None:
    if not isinstance(value, str):
        raise _wrong_type(value, "text")
    if len(value) > MAX_TEXT_CHARACTERS:
        raise Refusal("too_large", f"{_quote(value)}: is longer than {MAX_TEXT_CHARACTERS} characters")


def _whole(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_type(value, "a whole number")


def _scalar(value: Any) -> None:
    if isinstance(value, str):
        _text(value)
    elif isinstance(value, dict | list):
        raise _wrong_type(value, "a number, text, true, false or null")


def _seconds(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_TIMEOUT_SECONDS:
        raise _wrong_type(value, f"a number of seconds, more than 0 and at most {MAX_TIMEOUT_SECONDS:g}")


def _object(value: Any) -> None:
    if not isinstance(value, dict):
        raise _wrong_type(value, "an object")


def _name_or_object(value: Any) -> None:
    if not isinstance(value, dict):
        if not isinstance(value, str):
            raise _wrong_type(value, "a name or an object")
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
        raise _wrong_type(value, "a list of one to three whole numbers: x, y, z")
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
            raise _wrong_type(sizes, "a list of sizes that is not empty")
        for size in sizes:
            _size_of(name)(size)

    return check


def _tiles(value: Any) -> None:
    if not isinstance(value, dict | list):
        raise _wrong_type(value, "an object of lists, or a list of objects")
    if not value:
        raise Refusal("invalid_request", "must not be empty")
    if isinstance(value, list):
        count = len(value)
        for at, tile in enumerate(value):
            _check(f"number {at}", _tile, tile)
    else:
        for name, sizes in value.items():
            _check("a name", _text, name)
            _check(name, _sizes_of(name), sizes)
        count = prod(len(sizes) for sizes in value.values())
    if count > MAX_REQUEST_TILES:
        # The number itself is left out: it may have more digits than Python prints.
        raise Refusal("too_large", f"has more than {MAX_REQUEST_TILES} tiles, the maximum of one request")


# ---- fields

MODEL_OPTIONS = (*(field.name for field in dataclasses.fields(Options)), *L1_OPTIONS, "seed")
"""Options of the model in every request, whatever its `op` and `effort`."""

EXACT_OPTIONS = tuple(name for name in CALL_OPTIONS if name not in ("seed", "histogram", "n_jobs"))
"""Options of an exact `predict` only; the service itself decides about histograms and threads."""

QUICK_OPTIONS = ("work",)
"""Options of a quick `predict` only."""

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
"""Fields of each op, beside `id` and `op`, with the function that checks their types."""

REQUIRED = {"predict": ("kernel",), "rank": ("kernel", "tiles"), "cancel": ("request",)}
"""Fields that a request of each op must have."""
