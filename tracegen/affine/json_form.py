"""Read and write affine kernels as JSON, which a compiler in any language can produce; see docs/affine.md."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rdmodel.common.regular_files import read_bounded_bytes
from rdmodel.errors import TraceError, unknown
from tracegen.affine.bundled import names, read_bundled
from tracegen.affine.kernel import AffineKernel
from tracegen.affine.statements import (
    MAX_STATEMENT_DEPTH,
    Access,
    AffineArray,
    Atomic,
    Barrier,
    Compute,
    Gap,
    Guard,
    Load,
    Loop,
    Statement,
    Store,
    Wait,
    within,
)

MAX_KERNEL_FILE_BYTES = 1 << 22
"""Maximum size of a kernel file in bytes."""

_REQUIRED_FIELDS = ("name", "arrays", "block", "body")
_OPTIONAL_FIELDS = ("description", "parameters", "requires", "grid", "threads", "shared_memory", "registers")
_ACCESS_CLASSES: dict[str, type[Access]] = {"load": Load, "store": Store, "atomic": Atomic}
_COMPUTE_FIELDS = ("flops", "ints", "special")
_WORD_STATEMENTS: dict[str, Statement] = {"barrier": Barrier(), "wait": Wait()}


def load_affine(source: str | os.PathLike[str] | Mapping[str, Any]) -> AffineKernel:
    """Load an affine kernel from a JSON file, from the parsed content of one, or by the name of a bundled kernel.

    Text that ends in ``.json`` or contains ``/`` is a path. Raises `TraceError` with the place in the file for
    malformed input. `affine_kernel` checks what depends on the values of parameters.
    """
    if isinstance(source, Mapping):
        return from_json(source)
    path = Path(source)
    if isinstance(source, str) and path.suffix != ".json" and "/" not in source:
        if source not in names():
            raise TraceError(unknown("affine kernel", source[:60], names()))
        return from_json(_parse_json(read_bundled(source)))
    return _from_file(path)[0]


def read_object(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the JSON object in a file unchanged; raise `TraceError` as `load_affine` does."""
    return _from_file(Path(path))[1]


def _from_file(path: Path) -> tuple[AffineKernel, dict[str, Any]]:
    """Return the affine kernel in a file, and its JSON object."""
    content = read_bounded_bytes(path, MAX_KERNEL_FILE_BYTES)
    with within(str(path)):
        value = _parse_json(_decoded(content))
        return from_json(value), value


def from_json(value: Any) -> AffineKernel:
    """Return the kernel that a JSON object describes; see `load_affine`."""
    fields = _check_fields(value, "kernel", _REQUIRED_FIELDS, _OPTIONAL_FIELDS)
    arrays = fields["arrays"]
    if not isinstance(arrays, Mapping):
        raise TraceError("arrays: must be an object: arrays by name")
    declared = {}
    for name, description in arrays.items():
        with within(f"array {name!s:.60}"):
            declared[name] = _array(description)
    body = _body(fields["body"], "body", 1)
    given = {name: fields[name] for name in _OPTIONAL_FIELDS if name in fields}
    return AffineKernel(name=fields["name"], arrays=declared, block=fields["block"], body=body, **given)


def to_json(kernel: AffineKernel) -> dict[str, Any]:
    """Return a kernel as an object for ``json.dumps``, without default values; `load_affine` restores the kernel."""
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


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise TraceError(f"byte {error.start}: not UTF-8 text") from None


def _parse_json(text: str) -> Any:
    try:
        return json.loads(
            text, object_pairs_hook=_unique_fields, parse_constant=_refuse_constant, parse_int=_parse_integer
        )
    except json.JSONDecodeError as error:
        raise TraceError(f"line {error.lineno}, column {error.colno}: not JSON ({error.msg})") from None
    except RecursionError:
        raise TraceError("not a kernel: the JSON is nested too deeply") from None


def _unique_fields(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise TraceError(f"{name!r:.60}: is given twice in an object")
        fields[name] = value
    return fields


def _refuse_constant(text: str) -> Any:
    raise TraceError(f"{text}: is not a number")


def _parse_integer(text: str) -> int:
    if len(text) > 20:
        raise TraceError(f"{text[:20]}...: numbers are at most 2^63 - 1")
    return int(text)


def _check_fields(value: Any, kind: str, required: Sequence[str], optional: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TraceError(f"{kind}: must be an object, not {value!r:.60}")
    for name in value:
        if name not in (*required, *optional):
            raise TraceError(unknown(f"field of {kind}", f"{name!s:.60}", (*required, *optional)))
    for name in required:
        if name not in value:
            raise TraceError(f"{kind}: field {name!r} is missing")
    return value


def _array(description: Any) -> AffineArray:
    if not isinstance(description, Mapping):
        return AffineArray(description)
    fields = _check_fields(description, "array", ("shape",), ("type", "space"))
    return AffineArray(**fields)


def _body(value: Any, where: str, depth: int) -> tuple[Statement, ...]:
    if not isinstance(value, list | tuple):
        raise TraceError(f"{where}: must be a list of statements, not {value!r:.60}")
    if depth > MAX_STATEMENT_DEPTH:
        raise TraceError(f"{where}: statements are nested deeper than {MAX_STATEMENT_DEPTH}")
    return tuple(_statement(statement, f"{where}[{i}]", depth) for i, statement in enumerate(value))


def _statement(value: Any, where: str, depth: int) -> Statement:
    if isinstance(value, str) and value in _WORD_STATEMENTS:
        return _WORD_STATEMENTS[value]
    kinds: dict[str, Callable[[Any, str, int], Statement]] = {"for": _loop, "if": _guard, "gap": _gap}
    kinds |= dict.fromkeys(_ACCESS_CLASSES, _access) | dict.fromkeys(_COMPUTE_FIELDS, _compute)
    kind = next((kind for kind in kinds if isinstance(value, Mapping) and kind in value), None)
    if kind is None:
        known = ", ".join((*(f'{{"{kind}": ...}}' for kind in kinds), *(f'"{word}"' for word in _WORD_STATEMENTS)))
        raise TraceError(f"{where}: {value!r:.60}: is not a statement; must have one of {known}")
    return kinds[kind](value, where, depth)


def _access(value: Any, where: str, depth: int) -> Statement:
    kind = next(kind for kind in _ACCESS_CLASSES if kind in value)
    with within(where):
        fields = _check_fields(value, kind, (kind, "at"), ("cache",) if kind == "load" else ())
        return _ACCESS_CLASSES[kind](fields[kind], fields["at"], fields.get("cache"))  # type: ignore[return-value]


def _loop(value: Any, where: str, depth: int) -> Statement:
    with within(where):
        fields = _check_fields(value, "for", ("for", "to", "do"), ("from", "step", "unroll"))
    body = _body(fields["do"], f"{where}.do", depth + 1)
    with within(where):
        return Loop(
            fields["for"], fields.get("from", 0), fields["to"], body, fields.get("step", 1), fields.get("unroll")
        )


def _guard(value: Any, where: str, depth: int) -> Statement:
    with within(where):
        fields = _check_fields(value, "if", ("if", "do"), ())
    body = _body(fields["do"], f"{where}.do", depth + 1)
    with within(where):
        return Guard(fields["if"], body)


def _compute(value: Any, where: str, depth: int) -> Statement:
    with within(where):
        return Compute(**_check_fields(value, "arithmetic", (), (*_COMPUTE_FIELDS, "type")))


def _gap(value: Any, where: str, depth: int) -> Statement:
    with within(where):
        return Gap(_check_fields(value, "gap", ("gap",), ())["gap"])


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
            access = {statement.op.name.lower(): statement.array, "at": list(statement.subscripts)}
            return access if statement.cache is None else {**access, "cache": statement.cache}
        case Loop():
            value = {"for": statement.variable, "from": statement.lower, "to": statement.upper, "step": statement.step}
            if statement.step == 1:
                del value["step"]
            if statement.unroll is not None:
                value["unroll"] = statement.unroll
            return {**value, "do": [_statement_value(inner) for inner in statement.body]}
        case Guard():
            return {"if": list(statement.conditions), "do": [_statement_value(inner) for inner in statement.body]}
        case Gap():
            return {"gap": statement.instructions}
        case Compute():
            numbers = {name: getattr(statement, name) for name in _COMPUTE_FIELDS}
            given = {name: number for name, number in numbers.items() if number} or {"flops": 0}
            return given if statement.type == "float32" else {**given, "type": statement.type}
        case _:
            return "barrier" if isinstance(statement, Barrier) else "wait"
