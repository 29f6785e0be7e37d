"""Lower memory accesses, shuffles, votes and barriers of PTX to steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracegen.ptx.isa._code import ATOMICS, BARRIERS, COMPARISONS, MATCHES, MEMORY_SPACES, SHUFFLES, VOTES, WINDOW_BITS
from tracegen.ptx.lowering.program import NO_SLOT, PTX_TYPES, ParameterPart, PtxType
from tracegen.ptx.lowering.translation import Translation, UnsupportedError
from tracegen.ptx.syntax.ast import Address, Name, Operand, Pair, Register, Vector

_SPACE_MODIFIERS = {"global": "GLOBAL", "local": "LOCAL", "shared": "SHARED", "const": "CONST", "param": "FRAME"}


_VECTOR_LENGTHS = {"v2": 2, "v4": 4, "v8": 8}
"""Elements of a vector, by modifier."""


def _space(t: Translation) -> str:
    return next(
        (_SPACE_MODIFIERS[m.split("::")[0]] for m in t.modifiers if m.split("::")[0] in _SPACE_MODIFIERS), "GENERIC"
    )


def _access(t: Translation, operand: Operand) -> dict[str, Any]:
    """Return the fields of a step that accesses an address."""
    if not isinstance(operand, Address):
        raise UnsupportedError
    guard, space, base = t.guard(), _space(t), operand.base
    # Addresses are computed modulo 2^64, so an offset may be written with either sign.
    offset, slot = (operand.offset + (1 << 63)) % (1 << 64) - (1 << 63), t.constant(0)
    if isinstance(base, Register):
        slot = t.register(base)
        if t.width_of(base) == 32:
            guard["flags"].add("NARROW")
    elif isinstance(base, Name):
        slot = t.constant(t.place(base.name))
    if space == "FRAME" and t.scope.parameters and (isinstance(base, Register) or _is_parameter(t, base)):
        space = "CONST"
    return {**guard, "space": space, "offset": offset, "slot": slot}


def _is_parameter(t: Translation, base: object) -> bool:
    return isinstance(base, Name) and base.name in t.scope.parameters


def _elements(t: Translation, operand: Operand) -> tuple[Operand | None, ...]:
    """Return the registers of a load or store, as many as its modifier says."""
    length = t.pick(_VECTOR_LENGTHS, 1)
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if isinstance(operand, Vector) and (len(items) != length or length == 1):
        raise t.malformed(f": has a vector of {len(items)} elements, must have {length if length > 1 else 'none'}")
    if len(items) != length:
        raise UnsupportedError  # a register of a vector type
    return items


def _memory_type(t: Translation) -> tuple[PtxType, str]:
    name = t.type_name()
    if name == "pred":
        raise UnsupportedError
    return PTX_TYPES[name], name


def translate_load(t: Translation) -> None:
    """Emit ``ld``; a load from a parameter of the kernel becomes a move."""
    type, _ = _memory_type(t)
    targets = _elements(t, t.operands[0])
    where = t.operands[1]
    if len(targets) > 4 or len(targets) * type.width > 128:
        raise UnsupportedError
    if isinstance(where, Address) and _is_parameter(t, where.base) and _space(t) == "FRAME":
        _load_parameter(t, targets, where, type)
        return
    fields = _access(t, where)
    slot = fields.pop("slot")
    dst = tuple(NO_SLOT if target is None else t.destination(target) for target in targets)
    t.emit("LOAD", dst=dst, src=(slot,), kind=type.kind, width=type.width, count=len(dst), **fields)


def _load_parameter(t: Translation, targets: Sequence[Operand | None], where: Address, type: PtxType) -> None:
    """Emit moves from a parameter of the kernel, which is a constant of the launch."""
    assert isinstance(where.base, Name)
    t.counted = False
    offset = t.scope.parameters[where.base.name] + where.offset
    for at, target in enumerate(targets):
        part = ParameterPart(offset + at * type.width // 8, type.width // 8, type.kind == "SIGNED")
        if target is not None:
            t.data("MOV", t.destination(target), t.constant(part))


def translate_store(t: Translation) -> None:
    """Emit ``st``: a store."""
    if t.has("async"):
        raise UnsupportedError
    type, name = _memory_type(t)
    sources = tuple(t.value(o, name) for o in _elements(t, t.operands[1]))
    if len(sources) > 4 or len(sources) * type.width > 128:
        raise UnsupportedError
    fields = _access(t, t.operands[0])
    slot = fields.pop("slot")
    t.emit("STORE", src=(slot, *sources), kind=type.kind, width=type.width, count=len(sources), **fields)


def translate_atomic(t: Translation) -> None:
    """Emit ``atom`` or ``red``: an atomic update."""
    type, name = _memory_type(t)
    operation = t.pick({n[7:].lower(): number for n, number in ATOMICS.items()})
    if type.kind == "FLOAT" and (type.width == 16 or operation > ATOMICS["ATOMIC_MAX"]):
        raise UnsupportedError
    operands = list(t.operands)
    dst: tuple[int, ...] = ()
    if t.instruction.opcode == "atom":
        target = operands.pop(0)
        if not (isinstance(target, Register) and target.name == "_"):
            dst = (t.destination(target),)
    where, *values = operands
    fields = _access(t, where)
    src = (fields.pop("slot"), *(t.value(v, name) for v in values))
    t.emit("ATOM", dst=dst, src=src, kind=type.kind, width=type.width, mode=operation, **fields)


# ---- addresses of other spaces


def translate_convert_address(t: Translation) -> None:
    """Emit ``cvta``: convert an address to or from generic addressing."""
    space = _space(t)
    dst, a = t.destination(t.operands[0]), t.value(t.operands[1], "u64")
    if space in ("LOCAL", "SHARED"):
        window = t.constant(MEMORY_SPACES[space] << WINDOW_BITS)
        t.data("SUB" if t.has("to") else "ADD", dst, a, window)
    else:
        t.counted = False
        t.data("MOV", dst, a)


def translate_is_space(t: Translation) -> None:
    """Emit ``isspacep``: test the space of a generic address."""
    space = _space(t)
    if space not in ("GLOBAL", "LOCAL", "SHARED"):
        raise UnsupportedError
    window = t.temporary()
    t.data("SHR", window, t.value(t.operands[1], "u64"), t.constant(WINDOW_BITS))
    number = t.constant(MEMORY_SPACES[space])
    t.data("COMPARE", t.destination(t.operands[0]), window, number, mode=COMPARISONS["EQ"])


# ---- between lanes


def _destination_pair(target: Operand) -> tuple[Operand | None, Operand | None]:
    return (target.first, target.second) if isinstance(target, Pair) else (target, None)


def translate_shuffle(t: Translation) -> None:
    """Emit ``shfl``: a shuffle between lanes."""
    mode = t.pick({name[5:].lower(): number for name, number in SHUFFLES.items()})
    first, second = _destination_pair(t.operands[0])
    dst = (t.destination(first), t.destination(second))
    src = tuple(t.value(o, "b32") for o in t.operands[1:4])
    t.emit("SHFL", dst=dst, src=src, mode=mode, **t.guard())


def translate_vote(t: Translation) -> None:
    """Emit ``vote``."""
    mode = t.pick({name[5:].lower(): number for name, number in VOTES.items()})
    source = t.value(t.operands[1], "pred")
    t.emit("VOTE", dst=(t.destination(t.operands[0]),), src=(source,), mode=mode, **t.guard())


def translate_match(t: Translation) -> None:
    """Emit ``match``."""
    mode = t.pick({name[6:].lower(): number for name, number in MATCHES.items()})
    first, second = _destination_pair(t.operands[0])
    name = t.type_name()
    dst = (t.destination(first), t.destination(second))
    t.emit("MATCH", dst=dst, src=(t.value(t.operands[1], name),), width=PTX_TYPES[name].width, mode=mode, **t.guard())


def translate_active_mask(t: Translation) -> None:
    """Emit ``activemask``."""
    t.emit("ACTIVEMASK", dst=(t.destination(t.operands[0]),), **t.guard())


def translate_barrier(t: Translation) -> None:
    """Emit a barrier of the block; a barrier of one warp has no effect."""
    if t.has("warp"):
        return
    if t.has("cluster"):
        raise UnsupportedError
    operands = list(t.operands)
    dst: tuple[int, ...] = ()
    predicate, kind = NO_SLOT, "BAR_ARRIVE" if t.has("arrive") else "BAR_SYNC"
    if t.has("red"):
        kind = t.pick({"popc": "BAR_POPC", "and": "BAR_AND", "or": "BAR_OR"})
        dst, predicate = (t.destination(operands.pop(0)),), t.value(operands.pop(), "pred")
    number = t.value(operands[0], "u32") if operands else t.constant(0)
    count = t.value(operands[1], "u32") if len(operands) > 1 else NO_SLOT
    t.emit("BAR", dst=dst, src=(number, count, predicate), mode=BARRIERS[kind])
