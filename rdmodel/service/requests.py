"""Read requests from JSON values: check the names and types of their fields, but not yet their meaning."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from rdmodel.common.late_dataclass import dataclass
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
        return _read_fields(value)
    except Refusal as refusal:
        refusal.id = json_text(value.get("id"))
        raise


def _read_fields(value: dict[str, Any]) -> ServiceRequest:
    if "op" not in value:
        raise Refusal("invalid_request", f"op: is missing; must be one of {', '.join(FIELDS)}")
    op = value["op"]
    if not isinstance(op, str):
        raise Refusal("invalid_request", f"op: {_quote(op)}: must be text")
    if op not in FIELDS:
        raise Refusal("unknown_op", unknown("op", f"{op:.60}", FIELDS))
    given = {name: member for name, member in value.items() if name not in ("id", "op")}
    for name in given:
        if name not in FIELDS[op]:
            raise Refusal("invalid_request", unknown(f"field of {op}", f"{name:.60}", ("id", "op", *FIELDS[op])))
    for name in REQUIRED.get(op, ()):
        if name not in given:
            raise Refusal("invalid_request", f"{name}: is missing; {op} needs it")
    for name, member in given.items():
        _check_field(name, FIELDS[op][name], member)
    timeout = given.pop("timeout", None)
    return ServiceRequest(json_text(value.get("id")), op, given, timeout)


# ---- checks of types


def _check_field(name: str, check: Callable[[Any], None], value: Any) -> None:
    """Check a value; a `Refusal` gets the name of the field."""
    try:
        check(value)
    except Refusal as refusal:
        raise Refusal(refusal.code, f"{name}: {refusal.message}") from None


def _quote(value: Any) -> str:
    """Return the start of a value as JSON."""
    text = json_text(value if not isinstance(value, str) else value[:80])
    return text if len(text) <= 60 else text[:57] + "..."


def _wrong_type(value: Any, allowed: str) -> Refusal:
    return Refusal("invalid_request", f"{_quote(value)}: must be {allowed}")


def _accept(value: Any) -> None:
    pass


def _check_text(value: Any) -> None:
    if not isinstance(value, str):
        raise _wrong_type(value, "text")
    if len(value) > MAX_TEXT_CHARACTERS:
        raise Refusal("too_large", f"{_quote(value)}: is longer than {MAX_TEXT_CHARACTERS} characters")


def _check_whole_number(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_type(value, "a whole number")


def _check_scalar(value: Any) -> None:
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict | list):
        raise _wrong_type(value, "a number, text, true, false or null")


def _check_seconds(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_TIMEOUT_SECONDS:
        raise _wrong_type(value, f"a number of seconds, more than 0 and at most {MAX_TIMEOUT_SECONDS:g}")


def _check_object(value: Any) -> None:
    if not isinstance(value, dict):
        raise _wrong_type(value, "an object")


def _check_name_or_object(value: Any) -> None:
    if not isinstance(value, dict):
        if not isinstance(value, str):
            raise _wrong_type(value, "a name or an object")
        _check_text(value)


def _check_of_members(check: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return the check of an object whose members all pass `check`."""

    def check_members(value: Any) -> None:
        _check_object(value)
        for name, member in value.items():
            _check_field("a name", _check_text, name)
            _check_field(name, check, member)

    return check_members


def _check_shape(value: Any) -> None:
    if not isinstance(value, list) or not 1 <= len(value) <= 3:
        raise _wrong_type(value, "a list of one to three whole numbers: x, y, z")
    for size in value:
        _check_whole_number(size)


def _check_tile(value: Any) -> None:
    _check_object(value)
    for name, size in value.items():
        _check_field("a name", _check_text, name)
        _check_field(name, _check_of_size(name), size)


def _check_of_size(name: str) -> Callable[[Any], None]:
    return _check_shape if name == "block" else _check_whole_number


def _check_of_sizes(name: str) -> Callable[[Any], None]:
    def check(sizes: Any) -> None:
        if not isinstance(sizes, list) or not sizes:
            raise _wrong_type(sizes, "a list of sizes that is not empty")
        for size in sizes:
            _check_of_size(name)(size)

    return check


def _check_tiles(value: Any) -> None:
    if not isinstance(value, dict | list):
        raise _wrong_type(value, "an object of lists, or a list of objects")
    if not value:
        raise Refusal("invalid_request", "must not be empty")
    if isinstance(value, list):
        count = len(value)
        for at, tile in enumerate(value):
            _check_field(f"number {at}", _check_tile, tile)
    else:
        for name, sizes in value.items():
            _check_field("a name", _check_text, name)
            _check_field(name, _check_of_sizes(name), sizes)
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

_GPU_FIELDS: dict[str, Callable[[Any], None]] = {"gpu": _check_name_or_object, "set": _check_of_members(_check_scalar)}
_KERNEL_FIELDS: dict[str, Callable[[Any], None]] = {
    "kernel": _check_name_or_object,
    "params": _check_of_members(_check_whole_number),
    "block": _check_shape,
    **_GPU_FIELDS,
    "effort": _check_text,
    "timeout": _check_seconds,
    **dict.fromkeys((name for name in MODEL_OPTIONS if name != "l2"), _check_scalar),
}

FIELDS: dict[str, dict[str, Callable[[Any], None]]] = {
    "ping": {},
    "gpus": _GPU_FIELDS,
    "kernels": {},
    "predict": {**_KERNEL_FIELDS, **dict.fromkeys(("l2", *EXACT_OPTIONS, *QUICK_OPTIONS), _check_scalar)},
    "rank": {**_KERNEL_FIELDS, "tiles": _check_tiles, "objective": _check_text, "top": _check_whole_number},
    "cancel": {"request": _accept},
}
"""Fields of each op, beside `id` and `op`, with the function that checks their types."""

REQUIRED = {"predict": ("kernel",), "rank": ("kernel", "tiles"), "cancel": ("request",)}
"""Fields that a request of each op must have."""
