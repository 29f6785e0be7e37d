"""Comparisons, selections, moves and conversions of PTX as steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracegen.ptx.isa._code import COMPARISONS, TESTS
from tracegen.ptx.lowering.arithmetic import ROUNDINGS, widened
from tracegen.ptx.lowering.program import TYPES, Type
from tracegen.ptx.lowering.translation import Translation, UnsupportedError
from tracegen.ptx.syntax.ast import Operand, Pair, Register, Vector

_UNSIGNED_COMPARISONS = {"lo": "LT", "ls": "LE", "hi": "GT", "hs": "GE"}


def compare(t: Translation, dst: int, how: str, a: int, b: int, type: Type) -> None:
    """Emit a comparison into a predicate."""
    if type.kind == "FLOAT":
        if type.width == 16:
            a, b, type = widened(t, a, TYPES["f32"]), widened(t, b, TYPES["f32"]), TYPES["f32"]
        t.data("FCOMPARE", dst, a, b, type=type, mode=COMPARISONS[how])
    else:
        t.data("COMPARE", dst, a, b, type=type, mode=COMPARISONS[how])


def _comparison(t: Translation) -> tuple[str, str | None]:
    """Return the comparison and what combines it with a predicate."""
    how = t.modifiers[0]
    boolean = t.modifiers[1] if len(t.modifiers) > 1 and t.modifiers[1] in ("and", "or", "xor") else None
    return _UNSIGNED_COMPARISONS.get(how, how.upper()), boolean


def _compared(t: Translation, which: int = -1) -> tuple[int, int]:
    """Emit the comparison of set and setp; return the slots of its result and of the result for the second target."""
    how, boolean = _comparison(t)
    name = t.type_name(which)
    result = t.temporary()
    a, b = (t.value(o, name) for o in t.operands[1:3])
    compare(t, result, how, a, b, TYPES[name])
    inverse = t.temporary()
    t.data("XOR", inverse, result, t.constant(1), type=TYPES["pred"])
    if boolean is not None:
        other = t.value(t.operands[3], "pred")
        t.data(boolean.upper(), result, result, other, type=TYPES["pred"])
        t.data(boolean.upper(), inverse, inverse, other, type=TYPES["pred"])
    return result, inverse


def translate_set_predicate(t: Translation) -> None:
    """Emit setp."""
    target = t.operands[0]
    how, boolean = _comparison(t)
    if boolean is None and isinstance(target, Register):
        name = t.type_name()
        a, b = (t.value(o, name) for o in t.operands[1:3])
        compare(t, t.destination(target), how, a, b, TYPES[name])
        return
    result, inverse = _compared(t)
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    t.data("MOV", t.destination(first), result, type=TYPES["pred"])
    if second is not None:
        t.data("MOV", t.destination(second), inverse, type=TYPES["pred"])


def translate_set(t: Translation) -> None:
    """Emit set: a comparison into a register."""
    result, _ = _compared(t)
    true = 0x3F800000 if t.type_name(-2) == "f32" else 0xFFFFFFFF
    t.data("SELECT", t.destination(t.operands[0]), t.constant(true), t.constant(0), result, type=TYPES["b32"])


def translate_select(t: Translation) -> None:
    """Emit selp."""
    name = t.type_name()
    a, b = (t.value(o, name) for o in t.operands[1:3])
    chosen = t.value(t.operands[3], "pred")
    t.data("SELECT", t.destination(t.operands[0]), a, b, chosen, type=TYPES[name])


def translate_select_by_sign(t: Translation) -> None:
    """Emit slct."""
    name, decider = t.type_name(-2), t.type_name()
    a, b = (t.value(o, name) for o in t.operands[1:3])
    positive = t.temporary()
    compare(t, positive, "GE", t.value(t.operands[3], decider), t.constant(0), TYPES[decider])
    t.data("SELECT", t.destination(t.operands[0]), a, b, positive, type=TYPES[name])


def translate_test_property(t: Translation) -> None:
    """Emit testp."""
    name = t.type_name()
    mode = TESTS[t.modifiers[0].upper()]
    t.data("TESTP", t.destination(t.operands[0]), t.value(t.operands[1], name), type=TYPES[name], mode=mode)


# ---- moves and conversions


def translate_move(t: Translation) -> None:
    """Emit mov, also from and to vectors."""
    target, source = t.operands
    if t.modifiers[-1] == "b128":
        raise UnsupportedError
    name = t.type_name()
    if isinstance(target, Vector):
        _unpack(t, target.items, t.value(source, name), TYPES[name].width // len(target.items))
    elif isinstance(source, Vector):
        _pack(t, t.destination(target), source.items, TYPES[name])
    else:
        t.data("MOV", t.destination(target), t.value(source, name), type=TYPES[name])


def _unpack(t: Translation, targets: Sequence[Operand | None], source: int, width: int) -> None:
    copy = t.temporary()
    t.data("MOV", copy, source)
    for at, target in enumerate(targets):
        if target is not None:
            t.data("BFE", t.destination(target), copy, t.constant(at * width), t.constant(width))


def _pack(t: Translation, dst: int, parts: Sequence[Operand | None], type: Type) -> None:
    width = type.width // len(parts)
    part = f"b{width}"
    packed = t.constant(0)
    for at, operand in enumerate(parts):
        step = t.temporary()
        t.data("BFI", step, t.value(operand, part), packed, t.constant(at * width), t.constant(width))
        packed = step
    t.data("MOV", dst, packed, type=type)


def translate_convert(t: Translation) -> None:
    """Emit cvt."""
    to, source = TYPES[t.modifiers[-2]], TYPES[t.modifiers[-1]]
    dst, a = t.destination(t.operands[0]), t.value(t.operands[1], t.modifiers[-1])
    flags = ["SATURATE"] if t.has("sat") else []
    integral = {name + "i": rounding for name, rounding in ROUNDINGS.items()}
    whole = any(m in integral for m in t.modifiers)
    fields: dict[str, Any] = {"type": to, "from_kind": source.kind, "from_width": source.width, "flags": flags}
    if to.kind != "FLOAT" and source.kind != "FLOAT":
        t.data("CONVERT", dst, a, **fields)
    elif to.kind != "FLOAT":
        t.data("FLOAT_TO_INT", dst, a, rounding=t.pick(integral, "ZERO"), **{**fields, "flags": ()})
    elif source.kind != "FLOAT":
        t.data("INT_TO_FLOAT", dst, a, rounding=t.pick(ROUNDINGS, "NEAREST"), **fields)
    else:
        rounding = t.pick(integral | ROUNDINGS, "NEAREST")
        t.data("FLOAT_TO_FLOAT", dst, a, mode=int(whole), rounding=rounding, **fields)
