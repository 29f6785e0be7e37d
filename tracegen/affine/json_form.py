"""Affine kernels as JSON: what a compiler in any language can write; docs/affine.md has the fields in a table."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rdmodel.errors import TraceError, unknown
from tracegen.affine.bundled import names, read
from tracegen.affine.kernel import AffineKernel
from tracegen.affine.statements import (
    MOST_NESTED,
    Access,
    AffineArray,
    Atomic,
    Barrier,
    Gap,
    Guard,
    Load,
    Loop,
    Statement,
    Store,
    Wait,
    within,
)

MOST_BYTES = 1 << 22
"""Length of a file with a kernel."""

_REQUIRED = ("name", "arrays", "block", "body")
_OPTIONAL = ("description", "parameters", "requires", "grid", "threads", "shared_memory", "registers")
_ACCESSES: dict[str, type[Access]] = {"load": Load, "store": Store, "atomic": Atomic}
_WORDS: dict[str, Statement] = {"barrier": Barrier(), "wait": Wait()}


def load_affine(source: str | os.PathLike[str] | Mapping[str, Any]) -> AffineKernel:
    """Return the affine kernel in a JSON file, in what ``json.loads`` makes of one, or that comes with rdmodel by name.

    Text that ends in ``.json`` or has a ``/`` is a path. Raises `TraceError` for what is no affine kernel; it says
    where in the file. What depends on the values of parameters is checked by `affine_kernel`.
    """
    if isinstance(source, Mapping):
        return from_json(source)
    path = Path(source)
    if isinstance(source, str) and path.suffix != ".json" and "/" not in source:
        if source not in names():
            raise TraceError(unknown("affine kernel", source[:60], names()))
        return from_json(_parsed(read(source)))
    return _from_file(path)[0]


def read_object(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the JSON object in a file as it is there; raise `TraceError` where `load_affine` does."""
    return _from_file(Path(path))[1]


def _from_file(path: Path) -> tuple[AffineKernel, dict[str, Any]]:
    """Return the affine kernel in a file, and the object that it was made of."""
    with within(str(path)):
        value = _parsed(_content(path))
        return from_json(value), value


def from_json(value: Any) -> AffineKernel:
    """Return the kernel that a JSON object describes; see `load_affine`."""
    fields = _object(value, "kernel", _REQUIRED, _OPTIONAL)
    arrays = fields["arrays"]
    if not isinstance(arrays, Mapping):
        raise TraceError("arrays: must be an object: arrays by name")
    declared = {}
    for name, what in arrays.items():
        with within(f"array {name!s:.60}"):
            declared[name] = _array(what)
    body = _body(fields["body"], "body", 1)
    given = {name: fields[name] for name in _OPTIONAL if name in fields}
    return AffineKernel(name=fields["name"], arrays=declared, block=fields["block"], body=body, **given)


def to_json(kernel: AffineKernel) -> dict[str, Any]:
    """Return what `load_affine` makes the same kernel of: an object for ``json.dumps``, without defaults."""
    value: dict[str, Any] = {"name": kernel.name}
    if kernel.description:
        value["description"] = kernel.description
    if kernel.parameters:
        value["parameters"] = dict(kernel.parameters)
    if kernel.requires:
        value["requires"] = list(kernel.requires)
    value["arrays"] = {name: _array_value(array) for name, array in kernel.arrays.items()}
    for name in ("grid", "threads", "block"):
        if getattr(kernel, name) is not None:
            value[name] = list(getattr(kernel, name))
    for name in ("shared_memory", "registers"):
        if getattr(kernel, name) != 0:
            value[name] = getattr(kernel, name)
    value["body"] = [_statement_value(statement) for statement in kernel.body]
    return value


# ---- from JSON


def _content(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise TraceError(f"{path.stat().st_size} bytes, at most {MOST_BYTES} are read")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TraceError("no such file") from None
    except UnicodeDecodeError as error:
        raise TraceError(f"byte {error.start}: is no UTF-8 text") from None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_pairs, parse_constant=_refused, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise TraceError(f"line {error.lineno}, column {error.colno}: not JSON ({error.msg})") from None
    except RecursionError:
        raise TraceError("not a kernel: JSON nested too deep") from None


def _pairs(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise TraceError(f"{name!r:.60}: is given twice in an object")
        found[name] = value
    return found


def _refused(text: str) -> Any:
    raise TraceError(f"{text}: is no number")


def _whole(text: str) -> int:
    if len(text) > 20:
        raise TraceError(f"{text[:20]}...: numbers are at most 2^63 - 1")
    return int(text)


def _object(value: Any, what: str, required: Sequence[str], optional: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TraceError(f"{what}: must be an object, not {value!r:.60}")
    for name in value:
        if name not in (*required, *optional):
            raise TraceError(unknown(f"field of {what}", f"{name!s:.60}", (*required, *optional)))
    for name in required:
        if name not in value:
            raise TraceError(f"{what}: field {name!r} is missing")
    return value


def _array(what: Any) -> AffineArray:
    if not isinstance(what, Mapping):
        return AffineArray(what)
    fields = _object(what, "array", ("shape",), ("type", "space"))
    return AffineArray(**fields)


def _body(value: Any, where: str, depth: int) -> tuple[Statement, ...]:
    if not isinstance(value, list | tuple):
        raise TraceError(f"{where}: must be a list of statements, not {value!r:.60}")
    if depth > MOST_NESTED:
        raise TraceError(f"{where}: statements are nested deeper than {MOST_NESTED}")
    return tuple(_statement(statement, f"{where}[{i}]", depth) for i, statement in enumerate(value))


def _statement(value: Any, where: str, depth: int) -> Statement:
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    kinds: dict[str, Callable[[Any, str, int], Statement]] = {"for": _loop, "if": _guard, "gap": _gap}
    kinds |= dict.fromkeys(_ACCESSES, _access)
    kind = next((kind for kind in kinds if isinstance(value, Mapping) and kind in value), None)
    if kind is None:
        known = ", ".join((*(f'{{"{kind}": ...}}' for kind in kinds), *(f'"{word}"' for word in _WORDS)))
        raise TraceError(f"{where}: {value!r:.60}: is no statement: there are {known}")
    return kinds[kind](value, where, depth)


def _access(value: Any, where: str, depth: int) -> Statement:
    kind = next(kind for kind in _ACCESSES if kind in value)
    with within(where):
        fields = _object(value, kind, (kind, "at"), ())
        return _ACCESSES[kind](fields[kind], fields["at"])  # type: ignore[return-value]


def _loop(value: Any, where: str, depth: int) -> Statement:
    with within(where):
        fields = _object(value, "for", ("for", "to", "do"), ("from", "step"))
    body = _body(fields["do"], f"{where}.do", depth + 1)
    with within(where):
        return Loop(fields["for"], fields.get("from", 0), fields["to"], body, fields.get("step", 1))


def _guard(value: Any, where: str, depth: int) -> Statement:
    with within(where):
        fields = _object(value, "if", ("if", "do"), ())
    body = _body(fields["do"], f"{where}.do", depth + 1)
    with within(where):
        return Guard(fields["if"], body)


def _gap(value: Any, where: str, depth: int) -> Statement:
    with within(where):
        return Gap(_object(value, "gap", ("gap",), ())["gap"])


# ---- to JSON


def _array_value(array: AffineArray) -> Any:
    value: dict[str, Any] = {"shape": list(array.shape)}
    if array.type != "float32":
        value["type"] = array.type
    if array.space != "global":
        value["space"] = array.space
    return value if len(value) > 1 else value["shape"]


def _statement_value(statement: Statement) -> Any:
    match statement:
        case Access():
            return {statement.op.name.lower(): statement.array, "at": list(statement.subscripts)}
        case Loop():
            value = {"for": statement.variable, "from": statement.lower, "to": statement.upper, "step": statement.step}
            if statement.step == 1:
                del value["step"]
            return {**value, "do": [_statement_value(inner) for inner in statement.body]}
        case Guard():
            return {"if": list(statement.conditions), "do": [_statement_value(inner) for inner in statement.body]}
        case Gap():
            return {"gap": statement.instructions}
        case _:
            return "barrier" if isinstance(statement, Barrier) else "wait"
