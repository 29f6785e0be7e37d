"""Lower comparisons, selections, moves and conversions of PTX to steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracegen.ptx.isa._code import COMPARISONS, TESTS
from tracegen.ptx.lowering.arithmetic import ROUNDING_MODIFIERS
from tracegen.ptx.lowering.narrow_floats import round_to_bfloat, widen_half
from tracegen.ptx.lowering.program import PTX_TYPES, PtxType
from tracegen.ptx.lowering.translation import Translation, UnsupportedError
from tracegen.ptx.syntax.ast import Operand, Pair, Register, Vector

_UNSIGNED_COMPARISONS = {"lo": "LT", "ls": "LE", "hi": "GT", "hs": "GE"}
"""Comparisons that PTX names differently for unsigned numbers."""


def emit_comparison(t: Translation, dst: int, how: str, a: int, b: int, type: PtxType) -> None:
    """Emit the comparison `how` of two slots into a predicate slot."""
    if type.kind == "FLOAT":
        if type.width == 16:
            a, b, type = widen_half(t, a, PTX_TYPES["f32"]), widen_half(t, b, PTX_TYPES["f32"]), PTX_TYPES["f32"]
        t.data("FCOMPARE", dst, a, b, type=type, mode=COMPARISONS[how])
    else:
        t.data("COMPARE", dst, a, b, type=type, mode=COMPARISONS[how])


def _comparison_modifiers(t: Translation) -> tuple[str, str | None]:
    """Return the comparison, and the Boolean operation that combines it with a predicate, if any."""
    how = t.modifiers[0]
    boolean = t.modifiers[1] if len(t.modifiers) > 1 and t.modifiers[1] in ("and", "or", "xor") else None
    return _UNSIGNED_COMPARISONS.get(how, how.upper()), boolean


def _emit_set_comparison(t: Translation, which: int = -1) -> tuple[int, int]:
    """Emit the comparison of ``set`` or ``setp``; return the slots of its first and second (inverse) result."""
    how, boolean = _comparison_modifiers(t)
    name = t.type_name(which)
    result = t.temporary()
    a, b = (t.value(o, name) for o in t.operands[1:3])
    emit_comparison(t, result, how, a, b, PTX_TYPES[name])
    inverse = t.temporary()
    t.data("XOR", inverse, result, t.constant(1), type=PTX_TYPES["pred"])
    if boolean is not None:
        other = t.value(t.operands[3], "pred")
        t.data(boolean.upper(), result, result, other, type=PTX_TYPES["pred"])
        t.data(boolean.upper(), inverse, inverse, other, type=PTX_TYPES["pred"])
    return result, inverse


def translate_set_predicate(t: Translation) -> None:
    """Emit ``setp``: a comparison into predicates."""
    target = t.operands[0]
    how, boolean = _comparison_modifiers(t)
    if boolean is None and isinstance(target, Register):
        name = t.type_name()
        a, b = (t.value(o, name) for o in t.operands[1:3])
        emit_comparison(t, t.destination(target), how, a, b, PTX_TYPES[name])
        return
    result, inverse = _emit_set_comparison(t)
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    t.data("MOV", t.destination(first), result, type=PTX_TYPES["pred"])
    if second is not None:
        t.data("MOV", t.destination(second), inverse, type=PTX_TYPES["pred"])


def translate_set(t: Translation) -> None:
    """Emit ``set``: a comparison into a register."""
    result, _ = _emit_set_comparison(t)
    true = 0x3F800000 if t.type_name(-2) == "f32" else 0xFFFFFFFF
    t.data("SELECT", t.destination(t.operands[0]), t.constant(true), t.constant(0), result, type=PTX_TYPES["b32"])


def translate_select(t: Translation) -> None:
    """Emit ``selp``: a selection by a predicate."""
    name = t.type_name()
    a, b = (t.value(o, name) for o in t.operands[1:3])
    chosen = t.value(t.operands[3], "pred")
    t.data("SELECT", t.destination(t.operands[0]), a, b, chosen, type=PTX_TYPES[name])


def translate_select_by_sign(t: Translation) -> None:
    """Emit ``slct``: a selection by the sign of a number."""
    name, decider = t.type_name(-2), t.type_name()
    a, b = (t.value(o, name) for o in t.operands[1:3])
    positive = t.temporary()
    emit_comparison(t, positive, "GE", t.value(t.operands[3], decider), t.constant(0), PTX_TYPES[decider])
    t.data("SELECT", t.destination(t.operands[0]), a, b, positive, type=PTX_TYPES[name])


def translate_test_property(t: Translation) -> None:
    """Emit ``testp``: a test of a floating-point number."""
    name = t.type_name()
    mode = TESTS[t.modifiers[0].upper()]
    t.data("TESTP", t.destination(t.operands[0]), t.value(t.operands[1], name), type=PTX_TYPES[name], mode=mode)


# ---- moves and conversions


def translate_move(t: Translation) -> None:
    """Emit ``mov``, also from and to vectors."""
    target, source = t.operands
    if t.modifiers[-1] == "b128":
        raise UnsupportedError
    name = t.type_name()
    for operand in (target, source):
        if isinstance(operand, Vector) and len(operand.items) not in (2, 4):
            raise t.malformed(f": has a vector of {len(operand.items)} elements, must have 2 or 4")
    if isinstance(target, Vector):
        _unpack(t, target.items, t.value(source, name), PTX_TYPES[name].width // len(target.items))
    elif isinstance(source, Vector):
        _pack(t, t.destination(target), source.items, PTX_TYPES[name])
    else:
        t.data("MOV", t.destination(target), t.value(source, name), type=PTX_TYPES[name])


def _unpack(t: Translation, targets: Sequence[Operand | None], source: int, width: int) -> None:
    copy = t.temporary()
    t.data("MOV", copy, source)
    for at, target in enumerate(targets):
        if target is not None:
            t.data("BFE", t.destination(target), copy, t.constant(at * width), t.constant(width))


def _pack(t: Translation, dst: int, parts: Sequence[Operand | None], type: PtxType) -> None:
    width = type.width // len(parts)
    part = f"b{width}"
    packed = t.constant(0)
    for at, operand in enumerate(parts):
        step = t.temporary()
        t.data("BFI", step, t.value(operand, part), packed, t.constant(at * width), t.constant(width))
        packed = step
    t.data("MOV", dst, packed, type=type)


def translate_convert(t: Translation) -> None:
    """Emit ``cvt``: a conversion between types."""
    if t.modifiers[-1] == "f32" and t.modifiers[-2] in ("f16x2", "bf16x2", "bf16"):
        _narrow(t, t.modifiers[-2])
        return
    if t.modifiers == ("f32", "bf16"):
        t.data(
            "SHL", t.destination(t.operands[0]), t.value(t.operands[1], "b16"), t.constant(16), type=PTX_TYPES["b32"]
        )
        return
    to, source = PTX_TYPES[t.modifiers[-2]], PTX_TYPES[t.modifiers[-1]]
    dst, a = t.destination(t.operands[0]), t.value(t.operands[1], t.modifiers[-1])
    flags = ["SATURATE"] if t.has("sat") else []
    integral = {name + "i": rounding for name, rounding in ROUNDING_MODIFIERS.items()}
    whole = any(m in integral for m in t.modifiers)
    fields: dict[str, Any] = {"type": to, "from_kind": source.kind, "from_width": source.width, "flags": flags}
    if to.kind != "FLOAT" and source.kind != "FLOAT":
        t.data("CONVERT", dst, a, **fields)
    elif to.kind != "FLOAT":
        t.data("FLOAT_TO_INT", dst, a, rounding=t.pick(integral, "ZERO"), **{**fields, "flags": ()})
    elif source.kind != "FLOAT":
        t.data("INT_TO_FLOAT", dst, a, rounding=t.pick(ROUNDING_MODIFIERS, "NEAREST"), **fields)
    else:
        rounding = t.pick(integral | ROUNDING_MODIFIERS, "NEAREST")
        t.data("FLOAT_TO_FLOAT", dst, a, mode=int(whole), rounding=rounding, **fields)


def _narrow(t: Translation, to: str) -> None:
    """Emit a conversion of one or two single-precision numbers to 16 bits each; the first of two becomes the upper."""
    if set(t.modifiers) - {"rn", "rz", to, "f32"}:
        raise UnsupportedError
    halves = []
    for operand in t.operands[1:]:
        half, source = t.temporary(), t.value(operand, "f32")
        if to.startswith("bf16"):
            round_to_bfloat(t, half, source, nearest=t.has("rn"))
        else:
            rounding = t.pick(ROUNDING_MODIFIERS)
            t.data("FLOAT_TO_FLOAT", half, source, type=PTX_TYPES["f16"], from_kind="FLOAT", rounding=rounding)
        halves.append(half)
    dst = t.destination(t.operands[0])
    if to == "bf16":
        t.data("MOV", dst, halves[0], type=PTX_TYPES["b16"])
    else:
        t.data("BFI", dst, halves[0], halves[1], t.constant(16), t.constant(16), type=PTX_TYPES["b32"])
