"""Decode lines of strict JSON (RFC 8259) and encode answers; define the error codes of the protocol."""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Iterable, Sequence
from typing import Any

from rdmodel.common.memory import lacks_memory
from rdmodel.errors import RdmodelError, TooLargeError

PROTOCOL_VERSION = 1
"""Version of the protocol, increased by changes that break clients but not by additions."""

MAX_LINE_BYTES = 1 << 20
"""Maximum length of a line: one of this length is read and refused within a second."""

MAX_NESTING = 100
"""Maximum depth of nested arrays and objects; an affine kernel needs at most 50."""

MAX_INTEGER_CHARACTERS = 20
"""Maximum length of a whole number: enough for 64 bits."""

MAX_BATCH_REQUESTS = 1024
"""Maximum number of requests in a batch."""

MAX_MESSAGE_CHARACTERS = 1000
"""Maximum length of an error message."""

CODES = {
    "parse_error": "The line is not JSON text in UTF-8, or has an ambiguous number or object.",
    "invalid_request": "The line is JSON but not a request: a field is missing, unknown or of the wrong type.",
    "unknown_op": "The `op` does not exist.",
    "bad_input": "A value is not allowed, such as an unknown kernel, GPU or parameter, or a subscript out of bounds.",
    "too_large": "The line, batch or request exceeds a limit of the service, or needs too much memory.",
    "busy": "The queue is full (only with `--busy`).",
    "timeout": "The time limit has passed without an answer.",
    "cancelled": "A `cancel` request or a signal to the service ended the request.",
    "internal": "The service has a bug: it failed to answer this request, but continues with others.",
}
"""Error codes with their meanings; codes are stable, messages may change."""


class Refusal(Exception):  # noqa: N818, an answer to the client, not a failure of the service
    """An error as the answer to a request: one of `CODES`, a message, and the id of the request as JSON text."""

    def __init__(self, code: str, message: str, id: str = "null") -> None:
        super().__init__(message)
        self.code, self.message, self.id = code, one_line(message), id


def one_line(text: str) -> str:
    """Return a text without line breaks, cut to the length of a message."""
    text = " ".join(text[: 4 * MAX_MESSAGE_CHARACTERS].split())
    return text if len(text) <= MAX_MESSAGE_CHARACTERS else text[: MAX_MESSAGE_CHARACTERS - 3] + "..."


# ---- decoding


class Decoder:
    """Decoder of lines, used for one line after the other."""

    def __init__(self) -> None:
        self._mistake: str | None = None
        self._json = json.JSONDecoder(
            object_pairs_hook=self._object, parse_int=self._whole, parse_float=self._real, parse_constant=self._constant
        )

    def decode(self, line: bytes) -> Any:
        """Return the value on a line; raise `Refusal`, with the id of the request if the line reveals it."""
        self._mistake = None
        try:
            text = line.decode()
            value = self._json.decode(text)
        except UnicodeDecodeError as error:
            raise Refusal("parse_error", f"byte {error.start}: not UTF-8") from None
        except json.JSONDecodeError as error:
            raise Refusal("parse_error", f"character {error.pos}: not JSON: {error.msg}") from None
        except RecursionError:
            raise Refusal("too_large", _TOO_DEEP) from None
        if text.count("[") + text.count("{") > MAX_NESTING and _deeper_than(MAX_NESTING, value):
            raise Refusal("too_large", _TOO_DEEP)
        if self._mistake is not None:
            raise Refusal("parse_error", self._mistake, _simple_id(value))
        return value

    # A mistake is only noted, because the rest of the line may hold the id of the request.

    def _note(self, mistake: str) -> None:
        self._mistake = self._mistake or mistake

    def _object(self, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for at, name in enumerate(names) if name in names[:at]) if len(names) < 1000 else "a name"
            self._note(f"{twice!r:.60}: is given twice in an object")
        return members

    def _whole(self, text: str) -> int | None:
        if len(text) <= MAX_INTEGER_CHARACTERS:
            return int(text)
        self._note(f"{text[:MAX_INTEGER_CHARACTERS]}...: whole numbers have at most {MAX_INTEGER_CHARACTERS} digits")
        return None

    def _real(self, text: str) -> float | None:
        value = float(text)
        if math.isfinite(value):
            return value
        self._note(f"{text:.20}: is beyond the range of a 64-bit floating-point number")
        return None

    def _constant(self, text: str) -> None:
        self._note(f"{text}: is not a JSON number")


_TOO_DEEP = f"arrays and objects are nested deeper than {MAX_NESTING}"
"""Message of the refusal of a value that is nested too deeply."""


def _deeper_than(depth: int, value: Any) -> bool:
    level = [value]
    for _ in range(depth):
        level = [inner for outer in level for inner in _inner_values(outer) if isinstance(inner, dict | list)]
    return bool(level)


def _inner_values(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _simple_id(value: Any) -> str:
    given = value.get("id") if isinstance(value, dict) else None
    return json_text(given) if isinstance(given, str | int) else "null"


# ---- encoding


def json_text(value: Any) -> str:
    """Return a value as compact ASCII JSON on one line; raise `ValueError` for NaN and infinities."""
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
"""Encoder of all answers."""


def result_text(result: Any) -> str:
    """Return the member of an answer with a result."""
    return f'"result":{json_text(result)}'


def error_text(code: str, message: str) -> str:
    """Return the member of an answer with an error."""
    return f'"error":{json_text({"code": code, "message": message})}'


def failure_text(error: Exception, debug: bool) -> str:
    """Return the member of an answer for any exception; with `debug`, print the traceback of a bug on stderr."""
    if isinstance(error, Refusal):
        return error_text(error.code, error.message)
    if isinstance(error, TooLargeError):
        return error_text("too_large", one_line(str(error)))
    if isinstance(error, RdmodelError):
        return error_text("bad_input", one_line(str(error)))
    if lacks_memory(error):
        return error_text("too_large", "the request needs more memory than there is")
    if debug:
        traceback.print_exception(error)
    return error_text("internal", one_line(f"{type(error).__name__}: {error}"))


def answer_text(id: str, member: str) -> str:
    """Return an answer from its id as JSON text and a member from `result_text` or `error_text`."""
    return f'{{"id":{id},{member}}}'
