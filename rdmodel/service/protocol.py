"""Lines to values and answers to lines: JSON as strict as RFC 8259 allows, and the codes of errors."""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Iterable, Sequence
from typing import Any

from rdmodel.errors import RdmodelError

VERSION = 1
"""Version of the protocol: a change that breaks a client counts it up, an addition does not."""

MOST_BYTES = 1 << 20
"""Bytes of a line: what is as long is read and refused within a second."""

MOST_DEPTH = 100
"""How deep arrays and objects of a line may stand within each other; an affine kernel needs at most 50."""

MOST_DIGITS = 20
"""Characters of a whole number: enough for all of 64 bits."""

MOST_BATCH = 1024
"""Requests of a batch."""

MOST_MESSAGE = 1000
"""Characters of an error's message."""

CODES = {
    "parse_error": "The line is no JSON text in UTF-8, or has a number or an object that cannot be relied on.",
    "invalid_request": "The line is JSON, but no request: a field is missing, unknown or of the wrong type.",
    "unknown_op": "There is no such `op`.",
    "bad_input": "A value is refused: an unknown kernel, GPU or parameter, a subscript out of bounds, ...",
    "too_large": "The line, batch or request is larger than the service takes, or needs too much memory.",
    "busy": "As many requests as the queue holds are under way (only with `--busy`).",
    "timeout": "There is no answer within the time limit.",
    "cancelled": "A `cancel` request, or a signal to the service, ended the request.",
    "internal": "The service failed at the request, and goes on: a bug.",
}
"""Codes of errors, which stay, and what they mean; messages may change."""


class Refusal(Exception):  # noqa: N818, what a client is told, no failure of the service
    """Why a request gets an error: one of `CODES`, and a message; `id` is the request's as JSON text, where known."""

    def __init__(self, code: str, message: str, id: str = "null") -> None:
        super().__init__(message)
        self.code, self.message, self.id = code, one_line(message), id


def one_line(text: str) -> str:
    """Return a text without line breaks, cut to what a message may have."""
    text = " ".join(text[: 4 * MOST_MESSAGE].split())
    return text if len(text) <= MOST_MESSAGE else text[: MOST_MESSAGE - 3] + "..."


# ---- from lines


class Decoder:
    """Reads lines, one after the other."""

    def __init__(self) -> None:
        self._wrong: str | None = None
        self._json = json.JSONDecoder(
            object_pairs_hook=self._object, parse_int=self._whole, parse_float=self._real, parse_constant=self._constant
        )

    def decode(self, line: bytes) -> Any:
        """Return the value on a line; raises `Refusal` with the request's id, if that can be told."""
        self._wrong = None
        try:
            text = line.decode()
            value = self._json.decode(text)
        except UnicodeDecodeError as error:
            raise Refusal("parse_error", f"byte {error.start}: not UTF-8") from None
        except json.JSONDecodeError as error:
            raise Refusal("parse_error", f"character {error.pos}: not JSON: {error.msg}") from None
        except RecursionError:
            raise Refusal("too_large", _TOO_DEEP) from None
        if text.count("[") + text.count("{") > MOST_DEPTH and _deeper_than(MOST_DEPTH, value):
            raise Refusal("too_large", _TOO_DEEP)
        if self._wrong is not None:
            raise Refusal("parse_error", self._wrong, _simple_id(value))
        return value

    # What is wrong is only noted: the rest of the line tells whose it is.

    def _note(self, wrong: str) -> None:
        self._wrong = self._wrong or wrong

    def _object(self, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for at, name in enumerate(names) if name in names[:at]) if len(names) < 1000 else "a name"
            self._note(f"{twice!r:.60}: is given twice in an object")
        return found

    def _whole(self, text: str) -> int | None:
        if len(text) <= MOST_DIGITS:
            return int(text)
        self._note(f"{text[:MOST_DIGITS]}...: whole numbers have at most {MOST_DIGITS} digits")
        return None

    def _real(self, text: str) -> float | None:
        value = float(text)
        if math.isfinite(value):
            return value
        self._note(f"{text:.20}: is beyond what a 64-bit floating-point number holds")
        return None

    def _constant(self, text: str) -> None:
        self._note(f"{text}: is no number in JSON")


_TOO_DEEP = f"arrays and objects stand deeper than {MOST_DEPTH} within each other"


def _deeper_than(depth: int, value: Any) -> bool:
    level = [value]
    for _ in range(depth):
        level = [inner for one in level for inner in _inner(one) if isinstance(inner, dict | list)]
    return bool(level)


def _inner(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _simple_id(value: Any) -> str:
    given = value.get("id") if isinstance(value, dict) else None
    return text_of(given) if isinstance(given, str | int) else "null"


# ---- to lines


def text_of(value: Any) -> str:
    """Return a value as compact JSON in ASCII, on one line; raises `ValueError` for NaN and infinities."""
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def result_text(result: Any) -> str:
    """Return the member of an answer that holds a result."""
    return f'"result":{text_of(result)}'


def error_text(code: str, message: str) -> str:
    """Return the member of an answer that holds an error."""
    return f'"error":{text_of({"code": code, "message": message})}'


def failure_text(error: Exception, debug: bool) -> str:
    """Return what a request gets that ended with an error of any kind; `debug`: bugs are traced on stderr."""
    if isinstance(error, Refusal):
        return error_text(error.code, error.message)
    if isinstance(error, RdmodelError):
        return error_text("bad_input", one_line(str(error)))
    if isinstance(error, MemoryError):
        return error_text("too_large", "needs more memory than there is")
    if debug:
        traceback.print_exception(error)
    return error_text("internal", one_line(f"{type(error).__name__}: {error}"))


def answer_text(id: str, member: str) -> str:
    """Return an answer: `id` as JSON text, and what `result_text` or `error_text` returns."""
    return f'{{"id":{id},{member}}}'
