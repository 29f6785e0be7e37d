"""Lower instructions on matrices that a warp holds together: products have no values, loads and stores are exact.

Lane t of a warp holds, of a matrix of 8 rows of 16 bytes, the four bytes at row t / 4 and byte 4 (t % 4).
"""

from __future__ import annotations

from tracegen.ptx.isa._code import COMPARISONS, SHUFFLES
from tracegen.ptx.lowering.memory_and_shuffles import access_fields
from tracegen.ptx.lowering.program import NO_SLOT, PTX_TYPES
from tracegen.ptx.lowering.translation import Translation, UnsupportedError
from tracegen.ptx.syntax.ast import Operand, Vector

_MATRIX_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
_INDEX_CLAMP = 31
"""Last operand of a shuffle by lane number within a warp."""


def translate_product(t: Translation) -> None:
    """Emit ``mma``, ``wmma.mma`` or ``wgmma.mma_async``: the products are not computed."""
    if t.instruction.opcode == "wgmma" and not t.has("mma_async"):
        # Fences and groups of asynchronous products order no access of a trace, but take time.
        t.emit("WAIT", src=(NO_SLOT,))
        return
    t.uncomputed()


# ---- matrices in shared memory


_BYTE_ROWS = {"m16n16": 16, "m8n16": 8, "m16n8": 8}
"""Rows of 16 bytes of matrices whose elements have 8 bits or less, by shape."""


def _matrices(t: Translation) -> int:
    if not t.has("m8n8") or t.modifiers[-1] != "b16":
        raise UnsupportedError
    return int(t.pick(_MATRIX_COUNTS))


def _byte_rows(t: Translation) -> int:
    """Return the rows of matrices of bytes, one address each; 0: the elements have 16 bits."""
    return int(t.pick(_BYTE_ROWS, 0)) * int(t.pick(_MATRIX_COUNTS))


def _items(t: Translation, operand: Operand, count: int) -> tuple[Operand | None, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise t.malformed(f": has a vector of {len(items)} elements, must have {count}")
    return items


def _row_addresses(t: Translation, address: Operand, rows: int) -> int:
    """Emit an access that checks the 16-byte rows that the first lanes address; return the slot of the addresses."""
    fields = access_fields(t, address, "SHARED")
    slot = t.temporary()
    t.data("ADD", slot, fields["slot"], t.constant(fields["offset"]), type=PTX_TYPES["u32"])
    used = t.temporary()
    t.data("COMPARE", used, t.constant("%laneid"), t.constant(rows), mode=COMPARISONS["LT"])
    guard = t.both(used)
    parts = tuple(t.temporary() for _ in range(4))
    t.emit("LOAD", dst=parts, src=(slot,), width=32, count=4, space="SHARED", guard=guard, flags={"NARROW"})
    return slot


def _in_lane(t: Translation, op: str, a: int, b: int) -> int:
    slot = t.temporary()
    t.data(op, slot, a, b, type=PTX_TYPES["u32"])
    return slot


def _from_lane(t: Translation, source: int, lane: int) -> int:
    """Emit a shuffle of a 32-bit slot from the lane in another slot."""
    slot = t.temporary()
    t.emit(
        "SHFL",
        dst=(slot, NO_SLOT),
        src=(source, lane, t.constant(_INDEX_CLAMP)),
        mode=SHUFFLES["SHFL_IDX"],
        **t.guard(),
    )
    return slot


def _element_places(t: Translation, rows: int, matrix: int, transposed: bool) -> list[int]:
    """Emit the addresses of a lane's elements of a matrix: one of 32 bits, or two of 16 bits if it is transposed."""
    lane = t.constant("%laneid")
    major = _in_lane(t, "SHR", lane, t.constant(2))
    minor = _in_lane(t, "AND", lane, t.constant(3))
    first = t.constant(8 * matrix)
    if not transposed:
        row = _from_lane(t, rows, _in_lane(t, "ADD", major, first))
        return [_in_lane(t, "ADD", row, _in_lane(t, "SHL", minor, t.constant(2)))]
    places = []
    for half in range(2):
        number = _in_lane(t, "ADD", _in_lane(t, "SHL", minor, t.constant(1)), t.constant(8 * matrix + half))
        row = _from_lane(t, rows, number)
        places.append(_in_lane(t, "ADD", row, _in_lane(t, "SHL", major, t.constant(1))))
    return places


def translate_load_matrix(t: Translation) -> None:
    """Emit ``ldmatrix``: each lane loads its elements of one to four matrices from rows that other lanes address.

    Matrices of bytes are loaded without values.
    """
    if byte_rows := _byte_rows(t):
        _row_addresses(t, t.operands[1], byte_rows)
        t.uncomputed()
        return
    count = _matrices(t)
    targets = _items(t, t.operands[0], count)
    rows = _row_addresses(t, t.operands[1], 8 * count)
    loaded = []
    for matrix in range(count):
        places = _element_places(t, rows, matrix, t.has("trans"))
        width = 32 // len(places)
        parts = [t.temporary() for _ in places]
        for place, part in zip(places, parts, strict=True):
            fields = {**t.guard(), "space": "SHARED", "width": width}
            fields["flags"] = {*fields["flags"], "NARROW", "LAZY"}
            t.emit("LOAD", dst=(part,), src=(place,), **fields)
        if len(parts) == 2:
            both = t.temporary()
            t.data("BFI", both, parts[1], parts[0], t.constant(16), t.constant(16), type=PTX_TYPES["b32"])
            parts = [both]
        loaded.append(parts[0])
    for target, part in zip(targets, loaded, strict=True):  # a target may be the address
        t.data("MOV", t.destination(target), part, type=PTX_TYPES["b32"])


def translate_store_matrix(t: Translation) -> None:
    """Emit ``stmatrix``: each lane stores its elements of matrices to rows that other lanes address.

    Matrices of bytes leave rows without values.
    """
    if byte_rows := _byte_rows(t):
        rows = _row_addresses(t, t.operands[0], byte_rows)
        value, used = t.temporary(), t.temporary()
        t.poison([value], t.registers_of(t.operands[1]))
        t.data("COMPARE", used, t.constant("%laneid"), t.constant(byte_rows), mode=COMPARISONS["LT"])
        t.emit(
            "STORE",
            src=(rows, value, value, value, value),
            width=32,
            count=4,
            space="SHARED",
            guard=t.both(used),
            flags={"NARROW", "LAZY"},
        )
        return
    count = _matrices(t)
    sources = [t.value(o, "b32") for o in _items(t, t.operands[1], count)]
    rows = _row_addresses(t, t.operands[0], 8 * count)
    for matrix, source in enumerate(sources):
        places = _element_places(t, rows, matrix, t.has("trans"))
        for half, place in enumerate(places):
            part = source if half == 0 else _in_lane(t, "SHR", source, t.constant(16))
            fields = {**t.guard(), "space": "SHARED", "width": 32 // len(places)}
            fields["flags"] = {*fields["flags"], "NARROW", "LAZY"}
            t.emit("STORE", src=(place, part), **fields)


def translate_move_matrix(t: Translation) -> None:
    """Emit ``movmatrix``: transpose a matrix of 16-bit elements between the lanes."""
    if not t.has("m8n8") or t.modifiers[-1] != "b16" or not t.has("trans"):
        raise UnsupportedError
    source, lane = t.value(t.operands[1], "b32"), t.constant("%laneid")
    column = _in_lane(t, "SHR", lane, t.constant(2))
    shift = _in_lane(t, "SHL", _in_lane(t, "AND", column, t.constant(1)), t.constant(4))
    halves = []
    for half in range(2):
        row = _in_lane(t, "SHL", _in_lane(t, "AND", lane, t.constant(3)), t.constant(3))
        first = _in_lane(t, "ADD", row, t.constant(4 * half))
        number = _in_lane(t, "ADD", first, _in_lane(t, "SHR", column, t.constant(1)))
        halves.append(_in_lane(t, "SHR", _from_lane(t, source, number), shift))
    low = _in_lane(t, "AND", halves[0], t.constant(0xFFFF))
    t.data("BFI", t.destination(t.operands[0]), halves[1], low, t.constant(16), t.constant(16), type=PTX_TYPES["b32"])


# ---- votes of a warp


def translate_elect(t: Translation) -> None:
    """Emit ``elect.sync``: the first active lane is elected."""
    first, second = t.pair(t.operands[0])
    active, lanes, number = t.temporary(), t.temporary(), t.temporary()
    t.emit("ACTIVEMASK", dst=(active,), **t.guard())
    t.data("AND", lanes, active, t.value(t.operands[1], "b32"), type=PTX_TYPES["b32"])
    mirrored = t.temporary()
    t.data("BREV", mirrored, lanes, type=PTX_TYPES["b32"])
    t.data("CLZ", number, mirrored, type=PTX_TYPES["b32"])
    t.data("MOV", t.destination(first), number, type=PTX_TYPES["b32"])
    lane = t.constant("%laneid")
    t.data("COMPARE", t.destination(second), lane, number, type=PTX_TYPES["u32"], mode=COMPARISONS["EQ"])
