"""Lower arithmetic and bit instructions of PTX to steps."""

from __future__ import annotations

from collections.abc import Sequence

from tracegen.ptx.isa._code import PERMUTATIONS
from tracegen.ptx.lowering.narrow_floats import multiply_add_to_odd, round_to_bfloat, widen_bfloat, widen_half
from tracegen.ptx.lowering.program import NO_SLOT, PTX_TYPES, PtxType
from tracegen.ptx.lowering.translation import Translation, UnsupportedError
from tracegen.ptx.syntax.ast import Integer

ROUNDING_MODIFIERS = {"rn": "NEAREST", "rz": "ZERO", "rm": "DOWN", "rp": "UP"}
"""Rounding modes by PTX modifier."""

INTEGER_OPCODES = {
    "add": "ADD",
    "sub": "SUB",
    "div": "DIV",
    "rem": "REM",
    "abs": "ABS",
    "neg": "NEG",
    "min": "MIN",
    "max": "MAX",
    "and": "AND",
    "or": "OR",
    "xor": "XOR",
    "not": "NOT",
    "cnot": "CNOT",
    "shl": "SHL",
    "shr": "SHR",
    "sad": "SAD",
    "bfe": "BFE",
    "bfi": "BFI",
    "brev": "BREV",
    "clz": "CLZ",
    "popc": "POPC",
    "bfind": "BFIND",
}
"""Integer operations by PTX opcode."""

FLOAT_OPCODES = {
    "add": "FADD",
    "sub": "FSUB",
    "mul": "FMUL",
    "fma": "FMA",
    "mad": "FMA",
    "div": "FDIV",
    "abs": "FABS",
    "neg": "FNEG",
    "min": "FMIN",
    "max": "FMAX",
    "sqrt": "FSQRT",
    "rsqrt": "FRSQRT",
    "rcp": "FRCP",
    "ex2": "FEX2",
    "lg2": "FLG2",
    "sin": "FSIN",
    "cos": "FCOS",
    "tanh": "FTANH",
    "copysign": "COPYSIGN",
}
"""Floating-point operations by PTX opcode."""


def translate_arithmetic(t: Translation) -> None:
    """Emit an integer or floating-point instruction with one result."""
    opcode = t.instruction.opcode
    if opcode in ("min", "max") and len(t.operands) > 3:
        raise UnsupportedError
    last = t.modifiers[-1] if t.modifiers else ""
    if opcode in FLOAT_OPCODES and last in _PACKED:
        _packed_floats(t, *_PACKED[last])
        return
    if opcode in FLOAT_OPCODES and last == "bf16":
        sources = [t.value(o, "b16") for o in t.operands[1:]]
        _bfloat_step(t, FLOAT_OPCODES[opcode], t.destination(t.operands[0]), sources)
        return
    name = t.type_name()
    type = PTX_TYPES[name]
    sources = [t.value(o, name) for o in t.operands[1:]]
    if type.kind == "FLOAT":
        _float_step(t, FLOAT_OPCODES[opcode], t.destination(t.operands[0]), sources, type)
        return
    flags = ["SPREAD"] if t.has("shiftamt") else []
    if opcode not in INTEGER_OPCODES or {"cc", "relu", "sat"} & set(t.modifiers):
        raise UnsupportedError
    t.data(INTEGER_OPCODES[opcode], t.destination(t.operands[0]), *sources, type=type, flags=flags)


def _float_step(t: Translation, op: str, dst: int, sources: Sequence[int], type: PtxType) -> None:
    """Emit a floating-point step; half precision is computed in single (fma: double) precision, then rounded."""
    flags, rounding = _float_flags(t), t.pick(ROUNDING_MODIFIERS, "NEAREST")
    if type.width != 16:
        t.data(op, dst, *sources, type=type, flags=flags, rounding=rounding)
        return
    wide = PTX_TYPES["f64" if op == "FMA" else "f32"]
    wider = [widen_half(t, source, wide) for source in sources]
    result = t.temporary()
    t.data(op, result, *wider, type=wide, flags=flags)
    t.data("FLOAT_TO_FLOAT", dst, result, type=type, from_kind="FLOAT", from_width=wide.width, rounding=rounding)


def _bfloat_step(t: Translation, op: str, dst: int, sources: Sequence[int]) -> None:
    """Emit a step on bfloat16, computed in single precision and rounded to nearest even."""
    flags = _float_flags(t)
    singles = [widen_bfloat(t, source) for source in sources]
    if op == "FMA":
        result = multiply_add_to_odd(t, singles)
    else:
        result = t.temporary()
        t.data(op, result, *singles, type=PTX_TYPES["f32"], flags=flags)
    round_to_bfloat(t, dst, result)


def _float_flags(t: Translation) -> list[str]:
    if {"relu", "xorsign"} & set(t.modifiers):
        raise UnsupportedError
    return [flag for name, flag in (("sat", "SATURATE"), ("NaN", "SPREAD")) if t.has(name)]


_PACKED = {"f16x2": ("f16", 16), "bf16x2": ("bf16", 16), "f32x2": ("f32", 32)}
"""Types of two packed numbers: the type of each, and its bits."""


def _packed_floats(t: Translation, name: str, bits: int) -> None:
    """Emit a step for each of two numbers in a register."""
    dst, whole, op = t.destination(t.operands[0]), f"b{2 * bits}", FLOAT_OPCODES[t.instruction.opcode]
    sources = [t.value(o, whole) for o in t.operands[1:]]
    shifted = [t.temporary() for _ in sources]
    for source, slot in zip(sources, shifted, strict=True):
        t.data("SHR", slot, source, t.constant(bits), type=PTX_TYPES[whole])
    low, high = t.temporary(), t.temporary()
    for result, numbers in ((low, sources), (high, shifted)):
        if name == "bf16":
            _bfloat_step(t, op, result, numbers)
        else:
            _float_step(t, op, result, numbers, PTX_TYPES[name])
    t.data("BFI", dst, high, low, t.constant(bits), t.constant(bits), type=PTX_TYPES[whole])


def translate_bit_mask(t: Translation) -> None:
    """Emit ``bmsk``: ones from a position on, as many as the width says, inserted into zeros."""
    position, width = (_bounded(t, t.value(o, "b32")) for o in t.operands[1:])
    ones = t.constant(0xFFFFFFFF)
    t.data("BFI", t.destination(t.operands[0]), ones, t.constant(0), position, width, type=PTX_TYPES["b32"])


def translate_extend(t: Translation) -> None:
    """Emit ``szext``: the lowest bits of a number, extended by zeros or their sign, as a bit field from 0 on."""
    name = t.type_name()
    value, width = t.value(t.operands[1], name), _bounded(t, t.value(t.operands[2], "u32"))
    t.data("BFE", t.destination(t.operands[0]), value, t.constant(0), width, type=PTX_TYPES[name])


def _bounded(t: Translation, source: int) -> int:
    """Return a slot with a position or a width in 32 bits, of which bit fields take 8 bits: ``.clamp`` or ``.wrap``."""
    slot = t.temporary()
    if t.has("wrap"):
        t.data("AND", slot, source, t.constant(31), type=PTX_TYPES["b32"])
    else:
        t.data("MIN", slot, source, t.constant(32), type=PTX_TYPES["u32"])
    return slot


def translate_multiply(t: Translation) -> None:
    """Emit ``mul`` or ``mad``, with or without carries."""
    name = t.modifiers[-1]
    type = PTX_TYPES.get(name, PTX_TYPES["f16"])
    if type.kind == "FLOAT":
        translate_arithmetic(t)
        return
    if t.has("sat"):
        raise UnsupportedError
    part = t.pick({"lo": "LO", "hi": "HI", "wide": "WIDE"})
    dst = t.destination(t.operands[0])
    a, b, *rest = (t.value(o, name) for o in t.operands[1:])
    carries = t.has("cc") or t.instruction.opcode == "madc"
    if not rest:
        t.data(f"MUL_{part}", dst, a, b, type=type)
    elif part != "HI" and not carries:
        t.data(f"MAD_{part}", dst, a, b, rest[0], type=type)
    else:
        product = t.temporary()
        t.data(f"MUL_{part}", product, a, b, type=type)
        _add(t, dst, product, rest[0], type, subtract=False)


def _add(t: Translation, dst: int, a: int, b: int, type: PtxType, *, subtract: bool) -> None:
    """Emit an addition or subtraction with carry-in (opcode ends in c) and carry-out (``.cc``)."""
    register = t.slot(t.scope.function.name, "#carry")
    carry = register if t.instruction.opcode.endswith("c") else t.constant(0)
    out = t.temporary() if t.has("cc") else NO_SLOT
    if out != NO_SLOT:
        t.data("BORROW" if subtract else "CARRY", out, a, b, carry, type=type)
    t.data("SUB_BORROW" if subtract else "ADD_CARRY", dst, a, b, carry, type=type)
    if out != NO_SLOT:
        t.data("MOV", register, out, type=PTX_TYPES["pred"])


def translate_add_or_subtract(t: Translation) -> None:
    """Emit an addition or subtraction, with or without carries."""
    opcode = t.instruction.opcode
    if not (t.has("cc") or opcode.endswith("c")):
        translate_arithmetic(t)
        return
    name = t.type_name()
    a, b = (t.value(o, name) for o in t.operands[1:])
    _add(t, t.destination(t.operands[0]), a, b, PTX_TYPES[name], subtract=opcode.startswith("sub"))


def translate_funnel_shift(t: Translation) -> None:
    """Emit ``shf``: a shift across two registers."""
    op = "SHF_L" if t.has("l") else "SHF_R"
    flags = ["SPREAD"] if t.has("wrap") else []
    sources = [t.value(o, "b32") for o in t.operands[1:]]
    t.data(op, t.destination(t.operands[0]), *sources, type=PTX_TYPES["b32"], flags=flags)


def translate_permute(t: Translation) -> None:
    """Emit ``prmt``: a permutation of bytes."""
    mode = t.pick({name[5:].lower(): number for name, number in PERMUTATIONS.items()}, PERMUTATIONS["PRMT_INDEX"])
    sources = [t.value(o, "b32") for o in t.operands[1:]]
    t.data("PRMT", t.destination(t.operands[0]), *sources, type=PTX_TYPES["b32"], mode=mode)


def translate_lop3(t: Translation) -> None:
    """Emit ``lop3``: a logical function of three registers, given as a table."""
    table = t.operands[4]
    if not isinstance(table, Integer) or len(t.operands) != 5:
        raise UnsupportedError
    sources = [t.value(o, "b32") for o in t.operands[1:4]]
    t.data("LOP3", t.destination(t.operands[0]), *sources, type=PTX_TYPES["b32"], mode=table.value & 255)
