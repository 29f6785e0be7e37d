"""Lower memory accesses, shuffles, votes and barriers of PTX to steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracegen.ptx.isa._code import (
    ATOMICS,
    BARRIERS,
    CLUSTER_RANK_BITS,
    COMPARISONS,
    MATCHES,
    MEMORY_SPACES,
    REDUCTIONS,
    SHUFFLES,
    VOTES,
    WINDOW_BITS,
)
from tracegen.ptx.lowering.program import NO_SLOT, PTX_TYPES, ParameterPart, PtxType
from tracegen.ptx.lowering.translation import Translation, UnsupportedError
from tracegen.ptx.syntax.ast import Address, Name, Operand, Register, Vector

_SPACE_MODIFIERS = {"global": "GLOBAL", "local": "LOCAL", "shared": "SHARED", "const": "CONST", "param": "FRAME"}


CLUSTER_BARRIER = 16
"""Number of the barrier of a cluster."""

_MAX_RANK = 0xFF
"""Largest rank of a block that an address has room for."""

_LAST_FLOAT_UPDATE = ATOMICS["ATOMIC_MAX"]

_MAX_ACCESS_BITS = 128
"""Largest access of a lane in a trace."""

_MAX_ELEMENTS = 4
"""Most registers of one access."""

_VECTOR_LENGTHS = {"v2": 2, "v4": 4, "v8": 8}
"""Elements of a vector, by modifier."""


def _space(t: Translation) -> str:
    return next(
        (_SPACE_MODIFIERS[m.split("::")[0]] for m in t.modifiers if m.split("::")[0] in _SPACE_MODIFIERS), "GENERIC"
    )


def wrapped(offset: int) -> int:
    """Return an offset as a signed number: addresses are computed modulo 2^64, so it may have either sign."""
    return (offset + (1 << 63)) % (1 << 64) - (1 << 63)


def access_fields(t: Translation, operand: Operand, space: str = "") -> dict[str, Any]:
    """Return the fields of a step that accesses an address (in `space`, or in that of the modifiers), and its slot."""
    if not isinstance(operand, Address):
        raise UnsupportedError
    guard, base = t.guard(), operand.base
    space = space or _space(t)
    if space == "LOCAL" and t.keeps_arrays:
        space, t.counted = "KEPT", False  # a move between registers, which register allocation removes
    offset, slot = wrapped(operand.offset), t.constant(0)
    if isinstance(base, Register):
        slot = t.register(base)
        if t.width_of(base) == 32:
            guard["flags"].add("NARROW")
    elif isinstance(base, Name):
        slot = t.address_of(base.name)
    if space == "FRAME" and t.scope.parameters and (isinstance(base, Register) or _is_parameter(t, base)):
        space = "CONST"
    return {**guard, "space": space, "offset": offset, "slot": slot}


def _is_parameter(t: Translation, base: object) -> bool:
    return isinstance(base, Name) and base.name in t.scope.parameters


def _elements(t: Translation, operand: Operand) -> tuple[Operand | None, ...]:
    """Return the registers of a load or store, as many as its modifier says."""
    length = t.pick(_VECTOR_LENGTHS, 1)
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if isinstance(operand, Vector) and len(items) != length:
        raise t.malformed(f": has a vector of {len(items)} elements, must have {length}")
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
    if t.has("b128"):
        _load_without_value(t)
        return
    type, _ = _memory_type(t)
    targets = _elements(t, t.operands[0])
    where = t.operands[1]
    pieces = _pieces(targets, type)
    if isinstance(where, Address) and _is_parameter(t, where.base) and _space(t) == "FRAME":
        _load_parameter(t, targets, where, type)
        return
    if isinstance(where, Address) and isinstance(where.base, Name) and where.base.name in t.references:
        # The address of a reference is its handle; machine code has the handle as a constant.
        t.counted = False
        t.data("MOV", t.destination(targets[0]), t.constant(t.place(where.base.name)))
        return
    slot = access_fields(t, where)["slot"]
    whole = tuple(NO_SLOT if target is None else t.destination(target) for target in targets)
    if len(pieces) > 1 and slot in whole:
        address = t.temporary()
        t.data("MOV", address, slot)
        slot = address
    for at, piece in enumerate(pieces):
        fields = {**access_fields(t, where), "slot": slot}
        _emit_piece(t, "LOAD", fields, at, type, dst=whole[piece])


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
    if t.has("b128"):
        _store_without_value(t)
        return
    type, name = _memory_type(t)
    sources = tuple(t.value(o, name) for o in _elements(t, t.operands[1]))
    for at, piece in enumerate(_pieces(sources, type)):
        _emit_piece(t, "STORE", access_fields(t, t.operands[0]), at, type, sources[piece])


def _pieces(elements: Sequence[object], type: PtxType) -> list[slice]:
    """Return the elements of each access: vectors of 32 bytes are accessed as two of 16."""
    bits, half = len(elements) * type.width, len(elements) // 2
    if bits == 2 * _MAX_ACCESS_BITS and half <= _MAX_ELEMENTS:
        return [slice(half), slice(half, None)]
    if bits > _MAX_ACCESS_BITS or len(elements) > _MAX_ELEMENTS:
        raise UnsupportedError
    return [slice(None)]


def _emit_piece(
    t: Translation, op: str, fields: dict[str, Any], at: int, type: PtxType, values: tuple[int, ...] = (), **more: Any
) -> None:
    """Emit an access to the piece number `at` of a vector."""
    slot = fields.pop("slot")
    fields["offset"] = wrapped(fields["offset"] + at * _MAX_ACCESS_BITS // 8)
    count = len(values) or len(more["dst"])
    t.emit(op, src=(slot, *values), kind=type.kind, width=type.width, count=count, **more, **fields)


def _load_without_value(t: Translation) -> None:
    """Emit a load of 16 bytes into a register of as many, which holds no value here."""
    parts = (t.temporary(), t.temporary())
    fields = access_fields(t, t.operands[1])
    t.emit("LOAD", dst=parts, src=(fields.pop("slot"),), width=64, count=2, **fields)
    t.poison(t.registers_of(t.operands[0]), parts)


def _store_without_value(t: Translation) -> None:
    stored = (t.temporary(), t.temporary())
    t.poison(stored, t.registers_of(t.operands[1]))
    fields = access_fields(t, t.operands[0])
    t.emit("STORE", src=(fields.pop("slot"), *stored), width=64, count=2, **fields)


def _updated_type(t: Translation) -> str:
    """Return the type of an atomic, which stands behind the operation or, for vectors, also before it."""
    return next((m for m in reversed(t.modifiers) if m in PTX_TYPES or m in _PACKED_BITS), "")


_PACKED_BITS = {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32": 32, "f64": 64, "b128": 128}
"""Bits of the elements of atomics that are recorded, but not computed."""


def translate_atomic(t: Translation) -> None:
    """Emit ``atom`` or ``red``: an atomic update."""
    operation = t.pick({n[7:].lower(): number for n, number in ATOMICS.items()})
    operands = list(t.operands)
    target: Operand | None = None
    if t.instruction.opcode == "atom":
        target = operands.pop(0)
        target = None if getattr(target, "name", "") == "_" else target
    where, *values = operands[: 3 if t.has("cas") else 2]
    type = PTX_TYPES.get(_updated_type(t))
    floats = type is None or type.kind == "FLOAT"
    if type is None or t.has_any(_VECTOR_LENGTHS) or (floats and (type.width == 16 or operation > _LAST_FLOAT_UPDATE)):
        update_without_values(t, target, where, values)
        return
    type, name = _memory_type(t)
    dst = () if target is None else (t.destination(target),)
    fields = access_fields(t, where)
    src = (fields.pop("slot"), *(t.value(v, name) for v in values))
    t.emit("ATOM", dst=dst, src=src, kind=type.kind, width=type.width, mode=operation, **fields)


def update_without_values(t: Translation, target: Operand | None, where: Operand, values: Sequence[Operand]) -> None:
    """Emit an atomic whose access is recorded, and which leaves no value in the memory."""
    length, bits = t.pick(_VECTOR_LENGTHS, 1), _PACKED_BITS[_updated_type(t)]
    if length * bits > _MAX_ACCESS_BITS:
        raise UnsupportedError
    width = min(64, length * bits)
    count = length * bits // width
    sources = [s for v in values for s in t.registers_of(v)]
    stored = tuple(t.temporary() for _ in range(count))
    t.poison(stored, sources)
    targets = t.registers_of(target)
    fields = access_fields(t, where)
    old = t.temporary()
    t.emit(
        "ATOM", dst=(old,) if target is not None else (), src=(fields.pop("slot"), *stored), width=width, count=count,
        mode=ATOMICS["ATOMIC_EXCH"], **fields,
    )  # fmt: skip
    if targets:
        t.poison(targets, [old])


def translate_multimem(t: Translation) -> None:
    """Emit ``multimem``: an access to the copies of several GPUs counts as one to an array."""
    action = t.modifiers[0]
    if action == "st":
        translate_store(t)
    elif action == "red":
        update_without_values(t, None, t.operands[0], t.operands[1:2])
    elif action == "ld_reduce":
        length, bits = t.pick(_VECTOR_LENGTHS, 1), _PACKED_BITS[t.modifiers[-1]]
        width = min(64, length * bits)
        fields = access_fields(t, t.operands[1])
        parts = tuple(t.temporary() for _ in range(length * bits // width))
        t.emit("LOAD", dst=parts, src=(fields.pop("slot"),), width=width, count=len(parts), **fields)
        t.poison(t.registers_of(t.operands[0]), parts)
    else:
        raise UnsupportedError


# ---- clusters: an address in shared memory has the rank of its block


def translate_map_address(t: Translation) -> None:
    """Emit ``mapa``: the address of the same place in the shared memory of another block."""
    own, other = t.temporary(), t.temporary()
    rank, dst = t.value(t.operands[2], "u32"), t.destination(t.operands[0])
    t.data("AND", own, t.value(t.operands[1], "u64"), t.constant(~(_MAX_RANK << CLUSTER_RANK_BITS)))
    t.data("SHL", other, rank, t.constant(CLUSTER_RANK_BITS))
    t.data("OR", dst, own, other)


def translate_get_rank(t: Translation) -> None:
    """Emit ``getctarank``: the rank of the block that an address belongs to."""
    dst, bits = t.destination(t.operands[0]), t.constant(_MAX_RANK.bit_length())
    t.data("BFE", dst, t.value(t.operands[1], "u64"), t.constant(CLUSTER_RANK_BITS), bits)


def translate_policy(t: Translation) -> None:
    """Emit ``createpolicy``: a cache policy is opaque."""
    t.data("MOV", t.destination(t.operands[0]), t.constant(0))


# ---- addresses of other spaces


def translate_convert_address(t: Translation) -> None:
    """Emit ``cvta``: convert an address to or from generic addressing."""
    space = _space(t)
    dst, a = t.destination(t.operands[0]), t.value(t.operands[1], "u64")
    if space in ("LOCAL", "SHARED"):
        window = t.constant(MEMORY_SPACES[space] << WINDOW_BITS)
        t.data("SUB" if t.has("to") else "ADD", dst, a, window)
    elif t.has("param") and not t.has("to"):
        # An address of the parameter space may have passed through 32 bits; the base has more. Its half is shifted,
        # as a constant would count as a pointer to the first parameter.
        upper = t.temporary()
        t.data("SHL", upper, t.constant(t.scope.parameter_base >> 32), t.constant(32))
        t.data("OR", dst, a, upper)
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


def translate_shuffle(t: Translation) -> None:
    """Emit ``shfl``: a shuffle between lanes."""
    mode = t.pick({name[5:].lower(): number for name, number in SHUFFLES.items()})
    first, second = t.pair(t.operands[0])
    dst = (t.destination(first), t.destination(second))
    src = tuple(t.value(o, "b32") for o in t.operands[1:4])
    t.emit("SHFL", dst=dst, src=src, mode=mode, **t.guard())


def translate_reduction(t: Translation) -> None:
    """Emit ``redux``: a reduction over the lanes of a warp."""
    name = t.type_name()
    if PTX_TYPES[name].width != 32 or PTX_TYPES[name].kind == "FLOAT":
        raise UnsupportedError
    mode = t.pick({n[6:].lower(): number for n, number in REDUCTIONS.items()})
    source = t.value(t.operands[1], name)
    t.emit(
        "REDUX", dst=(t.destination(t.operands[0]),), src=(source,), kind=PTX_TYPES[name].kind, mode=mode, **t.guard()
    )


def translate_vote(t: Translation) -> None:
    """Emit ``vote``."""
    mode = t.pick({name[5:].lower(): number for name, number in VOTES.items()})
    source = t.value(t.operands[1], "pred")
    t.emit("VOTE", dst=(t.destination(t.operands[0]),), src=(source,), mode=mode, **t.guard())


def translate_match(t: Translation) -> None:
    """Emit ``match``."""
    mode = t.pick({name[6:].lower(): number for name, number in MATCHES.items()})
    first, second = t.pair(t.operands[0])
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
        mode = BARRIERS["BAR_ARRIVE" if t.has("arrive") else "BAR_SYNC"]
        t.emit("BAR", src=(t.constant(CLUSTER_BARRIER), NO_SLOT, NO_SLOT), mode=mode, count=CLUSTER_BARRIER)
        return
    operands = list(t.operands)
    dst: tuple[int, ...] = ()
    predicate, kind = NO_SLOT, "BAR_ARRIVE" if t.has("arrive") else "BAR_SYNC"
    if t.has("red"):
        kind = t.pick({"popc": "BAR_POPC", "and": "BAR_AND", "or": "BAR_OR"})
        dst, predicate = (t.destination(operands.pop(0)),), t.value(operands.pop(), "pred")
    number = t.value(operands[0], "u32") if operands else t.constant(0)
    count = t.value(operands[1], "u32") if len(operands) > 1 else NO_SLOT
    t.emit("BAR", dst=dst, src=(number, count, predicate), mode=BARRIERS[kind])
