"""Lower asynchronous copies, the barriers that they complete, and tensor maps.

Copies are executed at once, in the order of the program. What waits for them, waits for the loads that they made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracegen.ptx.isa._code import BOXES, BULK_COPIES, COMPARISONS, MBARRIERS, TENSOR_MAP
from tracegen.ptx.lowering.memory_and_shuffles import access_fields, wrapped
from tracegen.ptx.lowering.program import NO_SLOT, PTX_TYPES, Step, type_bytes
from tracegen.ptx.lowering.translation import Translation, UnsupportedError
from tracegen.ptx.syntax.ast import Address, Integer, Name, Operand, Register, Vector

_GROUPS = 16
"""Groups of copies that a thread can wait for one by one; older ones count as one group."""

_PREDICATE = PTX_TYPES["pred"]


def translate_copy(t: Translation) -> None:
    """Emit ``cp.async`` and its groups, bulk copies included."""
    if t.modifiers[:1] != ("async",) and t.modifiers[:2] != ("reduce", "async"):
        raise UnsupportedError
    if t.has("bulk"):
        _translate_bulk(t)
    elif t.has("commit_group"):
        _commit(t)
    elif t.has("wait_group"):
        count = t.operands[0]
        if not isinstance(count, Integer):
            raise UnsupportedError
        _wait(t, min(max(0, count.value), _GROUPS - 1))
    elif t.has("wait_all"):
        t.emit("WAIT", src=(_group(t, -1),))
        _wait(t, 0)
    elif t.has("mbarrier"):
        _arrive_after_copies(t)
    else:
        _copy_words(t)


# ---- copies of 4, 8 or 16 bytes per thread


def is_copy_step(step: Step) -> bool:
    """Return whether a step is part of such a copy, or puts it into a group: only waits for groups wait for it."""
    return step.origin.opcode == "cp" and "bulk" not in step.origin.modifiers and step.op != "WAIT"


def is_wait_step(step: Step) -> bool:
    """Return whether a step waits for groups of such copies."""
    return step.origin.opcode == "cp" and step.op == "WAIT"


def _group(t: Translation, number: int) -> int:
    """Return the slot of the loads of a group: -1 is open, 0 is the last one that was closed."""
    return t.slot("", f"#group{number}")


def _commit(t: Translation) -> None:
    last = _group(t, _GROUPS - 1)
    t.data("OR", last, last, _group(t, _GROUPS - 2))
    for number in range(_GROUPS - 2, -1, -1):
        t.data("MOV", _group(t, number), _group(t, number - 1))
    t.data("MOV", _group(t, -1), t.constant(0))


def _wait(t: Translation, pending: int) -> None:
    for number in range(pending, _GROUPS):
        t.emit("WAIT", src=(_group(t, number),))


def _copy_words(t: Translation) -> None:
    """Emit a load of global memory and a store to shared memory that does not wait for it.

    A copy of fewer bytes than it writes counts as a full one, unless it reads none.
    """
    target, source, size, *more = t.operands[: -1 if t.has("L2::cache_hint") else None]
    if not isinstance(size, Integer) or size.value not in (4, 8, 16):
        raise t.malformed(": must copy 4, 8 or 16 bytes")
    parts = tuple(t.temporary() for _ in range(size.value // 4))
    from_fields, to_fields = access_fields(t, source, "GLOBAL"), access_fields(t, target, "SHARED")
    from_slot, to_slot = from_fields.pop("slot"), to_fields.pop("slot")
    if more:
        for part in parts:
            t.data("MOV", part, t.constant(0))
        from_fields["guard"] = t.both(_reads(t, more[0]))
        from_fields["flags"] -= {"NEGATED"}
    t.emit("LOAD", dst=parts, src=(from_slot,), width=32, count=len(parts), **from_fields)
    to_fields["flags"] |= {"ASYNC"}
    t.emit("STORE", src=(to_slot, *parts), width=32, count=len(parts), **to_fields)
    loads = _group(t, -1)
    t.data("OR", loads, loads, parts[0])


def _reads(t: Translation, size: Operand) -> int:
    """Emit the predicate of the lanes that read anything: by the bytes to read, or by a predicate that says not to."""
    slot, ignores = t.temporary(), isinstance(size, Register) and t.width_of(size) == 8
    if ignores:
        t.data("XOR", slot, t.value(size, "pred"), t.constant(1), type=_PREDICATE)
    else:
        t.data("COMPARE", slot, t.value(size, "u32"), t.constant(0), type=PTX_TYPES["u32"], mode=COMPARISONS["NE"])
    return slot


# ---- mbarriers


def _bulk_loads(t: Translation) -> int:
    return t.slot("", "#bulk")


def _address(t: Translation, operand: Operand) -> int:
    """Return the slot of an address with its offset."""
    fields = access_fields(t, operand, "SHARED")
    if not fields["offset"]:
        return int(fields["slot"])
    slot = t.temporary()
    type = PTX_TYPES["u32" if "NARROW" in fields["flags"] else "u64"]
    t.data("ADD", slot, fields["slot"], t.constant(fields["offset"]), type=type)
    return slot


def _use(t: Translation, mode: str, *src: int, dst: int = NO_SLOT) -> None:
    t.emit("MBAR", dst=(dst,), src=src, mode=MBARRIERS[f"MBAR_{mode}"], **t.guard())


def translate_mbarrier(t: Translation) -> None:
    """Emit an operation on an mbarrier."""
    action, operands = t.modifiers[0], list(t.operands)
    if action == "pending_count":
        width = t.constant(20)
        t.data("BFE", t.destination(operands[0]), t.value(operands[1], "b64"), t.constant(0), width)
        return
    if action in ("test_wait", "try_wait"):
        mode = "TEST_PARITY" if t.has("parity") else "TEST"
        state = t.value(operands[2], "u32" if t.has("parity") else "b64")
        _use(t, mode, _address(t, operands[1]), state, NO_SLOT, _bulk_loads(t), dst=t.destination(operands[0]))
        return
    target = NO_SLOT if isinstance(operands[0], Address) else t.destination(operands.pop(0))
    where = _address(t, operands[0])
    amount = t.value(operands[1], "u32") if len(operands) > 1 else NO_SLOT
    if action in ("init", "inval"):
        _use(t, action.upper(), where, amount)
    elif action in ("expect_tx", "complete_tx"):
        _use(t, action[:-3].upper(), where, amount)
    elif action in ("arrive", "arrive_drop"):
        mode = "DROP" if action == "arrive_drop" else "ARRIVE"
        counts = (NO_SLOT, amount) if t.has("expect_tx") else (amount, NO_SLOT)
        _use(t, mode, where, *counts, dst=target)
    else:
        raise UnsupportedError


def _arrive_after_copies(t: Translation) -> None:
    """Emit ``cp.async.mbarrier.arrive``, whose copies are complete; without ``.noinc`` it changes no count."""
    t.data("OR", _bulk_loads(t), _bulk_loads(t), _group(t, -1))
    if t.has("noinc"):
        _use(t, "ARRIVE", _address(t, t.operands[0]), NO_SLOT, NO_SLOT)


def translate_signalling(t: Translation, rule: Callable[[Translation], None]) -> None:
    """Emit a store or an update; ``.async`` completes its bytes at an mbarrier, its third operand."""
    rule(t)
    if t.has("async"):
        if not t.has("mbarrier::complete_tx::bytes"):
            return  # a store that no mbarrier waits for
        length = next((int(m[1:]) for m in t.modifiers if m in ("v2", "v4")), 1)
        size = length * type_bytes(t.modifiers[-1])
        _use(t, "COMPLETE", _address(t, t.operands[2]), t.constant(size))


# ---- requests for the launch of another cluster


def translate_cluster_launch(t: Translation) -> None:
    """Emit ``clusterlaunchcontrol``: no block takes over the work of another one, as if all were running already."""
    if t.has("try_cancel"):
        if t.has("multicast::cluster::all"):
            raise UnsupportedError
        fields, zero = access_fields(t, t.operands[0], "SHARED"), t.constant(0)
        t.emit("STORE", src=(fields.pop("slot"), zero, zero), width=64, count=2, **fields)
        _use(t, "COMPLETE", _address(t, t.operands[1]), t.constant(_ANSWER_BYTES))
    elif t.has("is_canceled"):
        t.data("MOV", t.destination(t.operands[0]), t.constant(0), type=_PREDICATE)
    else:
        t.uncomputed()


_ANSWER_BYTES = 16


# ---- bulk copies and tensor maps


def _translate_bulk(t: Translation) -> None:
    if t.has("commit_group") or t.has("wait_group"):
        t.emit("WAIT", src=(NO_SLOT,))  # no access of a trace waits for stores, but warps do
        return
    if t.has("prefetch"):
        return  # it goes to the L2
    spaces = [m.split("::")[0] for m in t.modifiers if m.split("::")[0] in ("global", "shared")]
    operands = list(t.operands)
    if spaces == ["shared", "shared"]:
        _copy_within_cluster(t, operands)
        return
    if sorted(spaces) != ["global", "shared"]:
        raise UnsupportedError
    loads = spaces[0] == "shared"
    if t.has("tensor"):
        _copy_box(t, operands, loads)
        return
    target, source, size, *more = operands
    fields = access_fields(t, source if loads else target, "GLOBAL")
    shared = _address(t, target if loads else source)
    ignored = [t.value(more.pop(0), "u32") for _ in range(2)] if t.has("ignore_oob") else []
    barrier = _address(t, more.pop(0)) if loads else NO_SLOT
    src = fields.pop("slot"), shared, barrier, t.value(size, "u32"), *ignored
    reason = f"must ignore 0 to {_MOST_IGNORED} bytes on each side"
    _emit_bulk(t, loads, src, _mask(t, more), reason, offset=fields["offset"])


_MOST_IGNORED = 15


def _copy_within_cluster(t: Translation, operands: list[Operand]) -> None:
    target, source, size, barrier = operands
    src = _address(t, target), _address(t, source), _address(t, barrier), t.value(size, "u32")
    mode = BULK_COPIES["BULK_UPDATE" if t.has("reduce") else "BULK_SHARED"]
    for op in ("MOVE_BULK", "COPY_BULK"):
        t.emit(op, src=src, mode=mode, count=0, space="SHARED", **t.guard())


def translate_clearing(t: Translation) -> None:
    """Emit ``st.bulk``, which fills shared memory with zeros."""
    target, size, _ = t.operands
    src = _address(t, target), NO_SLOT, NO_SLOT, t.value(size, "u64")
    t.emit("MOVE_BULK", src=src, mode=BULK_COPIES["BULK_CLEAR"], count=0, space="SHARED", **t.guard())


def _mask(t: Translation, operands: list[Operand]) -> int:
    """Return the slot of a mask, if any: of the blocks that a load reaches, or of the bytes that a store writes.

    Of `operands`, a load has the mask before the cache policy, a store after it.
    """
    if t.has("multicast::cluster"):
        return t.value(operands[0], "b16")
    return t.value(operands[-1], "b16") if t.has("cp_mask") else NO_SLOT


_FORMS = {
    "im2col": "BOX_IM2COL",
    "im2col_no_offs": "BOX_IM2COL",
    "tile::gather4": "BOX_ROWS",
    "tile::scatter4": "BOX_ROWS",
}
"""Parts of tensors that are no boxes, by modifier."""

_GATHERED = 4
"""Rows that one copy gathers or scatters."""


def _copy_box(t: Translation, operands: list[Operand], loads: bool) -> None:
    shared = operands.pop(0) if loads else None
    where, corner, *more = operands
    if not isinstance(corner, Vector) or not isinstance(where, Address):
        raise UnsupportedError
    if any(m.startswith("im2col::w") for m in t.modifiers):
        raise UnsupportedError("pixels along the width alone, and their halo, are not followed")
    form = t.pick(_FORMS, "BOX_TILE")
    rank = int(t.pick({f"{d}d": d for d in range(1, 6)}))
    if len(corner.items) != (1 + _GATHERED if form == "BOX_ROWS" else rank):
        raise t.malformed(f": has {len(corner.items)} coordinates")
    fields = access_fields(t, where, "GLOBAL")
    coordinates = [t.value(o, "s32") for o in corner.items]
    slot = _address(t, shared if shared is not None else more[0])
    barrier = _address(t, more.pop(0)) if loads else NO_SLOT
    offsets = []
    if form == "BOX_IM2COL":
        given = more.pop(0) if loads else Vector(())
        if not isinstance(given, Vector):
            raise UnsupportedError
        if loads and len(given.items) != rank - 2:
            raise t.malformed(f": has {len(given.items)} offsets")
        offsets = [t.value(o, "u16") for o in given.items]
    in_parameter = isinstance(where.base, Name) and where.base.name in t.scope.parameters
    src = (fields.pop("slot"), slot, barrier, *coordinates, *(5 - len(coordinates)) * [NO_SLOT], *offsets)
    mask = _mask(t, more) if loads else NO_SLOT
    space = "CONST" if in_parameter else "GLOBAL"
    reason = "the tensor map describes no tensor of this rank with whole elements, plain layout and such boxes"
    fields = {"offset": fields["offset"], "count": rank, "space": space, "from_width": BOXES[form]}
    _emit_bulk(t, loads, src, mask, reason, **fields)


def _emit_bulk(t: Translation, loads: bool, src: tuple[int, ...], mask: int, reason: str, **fields: Any) -> None:
    """Emit the step that moves the data, and the one that is recorded and completes the bytes.

    `reason` tells why a copy stops that is not allowed.
    """
    mode = "BULK_LOAD" if loads else ("BULK_REDUCE" if t.has("reduce") else "BULK_STORE")
    for op, dst in (("MOVE_BULK", ()), ("COPY_BULK", (_bulk_loads(t),) if loads else ())):
        t.emit(
            op, dst=dst, src=(*src, *(11 - len(src)) * [NO_SLOT], mask), mode=BULK_COPIES[mode],
            reason=f"{'.'.join((t.instruction.opcode, *t.modifiers))}: {reason}", **{"count": 0, **fields}, **t.guard(),
        )  # fmt: skip


_MAP_FIELDS = {
    "global_address": ("MAP_ADDRESS", 64),
    "rank": ("MAP_RANK", 32),
    "elemtype": ("MAP_TYPE", 8),
    "interleave_layout": ("MAP_INTERLEAVE", 8),
    "swizzle_mode": ("MAP_SWIZZLE", 8),
    "fill_mode": ("MAP_FILL", 8),
    "global_dim": ("MAP_DIMS", 32),
    "box_dim": ("MAP_BOX", 32),
    "element_stride": ("MAP_STEPS", 32),
    "global_stride": ("MAP_STRIDES", 64),
}
"""Place of each field of a tensor map, and its bits."""

_ARRAY_FIELDS = ("global_dim", "box_dim", "element_stride", "global_stride")


def translate_tensor_map(t: Translation) -> None:
    """Emit ``tensormap.replace``, which stores one field, or ``tensormap.cp_fenceproxy``, which copies a tensor map."""
    if t.has("cp_fenceproxy"):
        _copy_map(t)
        return
    field = next((m for m in t.modifiers if m in _MAP_FIELDS), None)
    if field is None or not t.has("replace"):
        raise UnsupportedError
    place, width = TENSOR_MAP[_MAP_FIELDS[field][0]], _MAP_FIELDS[field][1]
    where, *more = t.operands
    if field in _ARRAY_FIELDS:
        index = more.pop(0)
        if not isinstance(index, Integer) or not 0 <= index.value < 5:
            raise t.malformed(": must have an index of 0 to 4")
        place += index.value * width // 8
    fields = access_fields(t, where, "SHARED" if any(m.startswith("shared") for m in t.modifiers) else "GENERIC")
    if t.has("global"):
        fields["space"] = "GLOBAL"
    fields["offset"] = wrapped(fields["offset"] + place)
    value = t.value(more[0], "b64" if width == 64 else "b32")
    t.emit("STORE", src=(fields.pop("slot"), value), width=width, **fields)


def _copy_map(t: Translation) -> None:
    """Emit a copy of 128 bytes from shared to global memory by the lanes of a warp, 4 bytes each."""
    part = t.temporary()
    distance = t.temporary()
    t.data("SHL", distance, t.constant("%laneid"), t.constant(2))
    for op, operand, space in (("LOAD", t.operands[1], "SHARED"), ("STORE", t.operands[0], "GLOBAL")):
        fields = access_fields(t, operand, space)
        place = t.temporary()
        t.data("ADD", place, fields.pop("slot"), distance)
        slots = {"dst": (part,), "src": (place,)} if op == "LOAD" else {"src": (place, part)}
        t.emit(op, width=32, **slots, **fields)
