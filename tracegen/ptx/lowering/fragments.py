"""Lower ``wmma``: loads and stores of matrix fragments, whose layout in registers is undocumented.

Assumption: a lane accesses the elements that it holds in the fragments of ``mma``. In a tile of eight runs (rows, or
columns for ``.col``), lane t accesses run t / 4 at the four bytes (eight for two accumulators of 32 bits or more side
by side) number t % 4. Accumulators of 32 bits or more whose columns are contiguous are accessed one by one. Where a
matrix has four runs, lane t accesses run t % 4.
"""

from __future__ import annotations

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.lowering.memory_and_shuffles import access_fields, wrapped
from tracegen.ptx.lowering.program import PTX_TYPES
from tracegen.ptx.lowering.translation import Translation, UnsupportedError
from tracegen.ptx.syntax.ast import Operand, Register, Vector

_SHAPES = {
    "m16n16k16": (16, 16, 16), "m8n32k16": (8, 32, 16), "m32n8k16": (32, 8, 16), "m16n16k8": (16, 16, 8),
    "m8n8k4": (8, 8, 4), "m8n8k32": (8, 8, 32), "m8n8k128": (8, 8, 128),
}  # fmt: skip
_ELEMENT_BITS = {
    "f16": 16, "bf16": 16, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "tf32": 32, "f32": 32, "s32": 32, "f64": 64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tile:
    """One access of a warp to a fragment.

    Lane t accesses `bytes` bytes of the run `run` + `runs_per_step` x, at byte `offset` + `bytes_per_step` y. x and y
    are t / 4 and t % 4, or t % 4 and t / 4 if `crossed`.
    """

    run: int
    crossed: bool
    runs_per_step: int
    offset: int
    bytes_per_step: int
    bytes: int


def fragment_tiles(part: str, shape: tuple[int, int, int], bits: int, columns: bool) -> list[Tile]:
    """Return the accesses of a fragment (`part`: a, b, c or d) to a matrix in memory, by rows or by columns."""
    m, n, k = shape
    height, width = {"a": (m, k), "b": (k, n)}.get(part, (m, n))
    runs, length = (width, height) if columns else (height, width)
    row_bytes = length * bits // 8
    if part in "cd" and bits >= 32 and columns:
        # Lane t holds row t / 4 of the columns 2 (t % 4) and 2 (t % 4) + 1, which are runs here.
        return [
            Tile(first + half, True, 2, at * bits // 8, bits // 8, bits // 8)
            for first in range(0, runs, 8)
            for at in range(0, length, 8)
            for half in range(2)
        ]
    each = bits // 4 if part in "cd" and bits >= 32 else max(4, bits // 8)
    if runs % 8:  # the four columns of m8n8k4: a lane has run t % 4
        return [
            Tile(first, True, 1, at, each, each) for first in range(0, runs, 4) for at in range(0, row_bytes, 8 * each)
        ]
    return [
        Tile(first, False, 1, at, each, each) for first in range(0, runs, 8) for at in range(0, row_bytes, 4 * each)
    ]


def translate_fragment(t: Translation) -> None:
    """Emit ``wmma.load``, ``wmma.store`` or ``wmma.mma``."""
    action = t.modifiers[0]
    if action == "mma":
        t.uncomputed()
        return
    sizes = t.pick(_SHAPES)
    bits = _ELEMENT_BITS.get(t.modifiers[-1])
    if action not in ("load", "store") or bits is None or t.modifiers[1] not in ("a", "b", "c", "d"):
        raise UnsupportedError
    operands = list(t.operands)
    fragment = operands.pop(0) if action == "load" else operands.pop(1)
    if not isinstance(fragment, Vector):
        raise UnsupportedError
    tiles = fragment_tiles(t.modifiers[1], sizes, bits, t.has("col"))
    registers = [t.register(item) for item in fragment.items if isinstance(item, Register)]
    stride = _stride(t, operands[1:], t.modifiers[1], sizes, bits)
    if action == "load":
        loaded = [_access(t, tile, operands[0], stride, "LOAD", ()) for tile in tiles]
        t.poison(registers, loaded)
        return
    values = t.temporary()
    t.poison([values], registers)
    for tile in tiles:
        _access(t, tile, operands[0], stride, "STORE", (values,) * max(1, tile.bytes // 8))


def _stride(t: Translation, given: list[Operand], part: str, sizes: tuple[int, int, int], bits: int) -> int:
    """Emit the bytes from one run to the next; without an operand, runs follow each other."""
    m, n, k = sizes
    height, width = {"a": (m, k), "b": (k, n)}.get(part, (m, n))
    slot = t.temporary()
    elements = t.value(given[0], "u32") if given else t.constant(height if t.has("col") else width)
    bytes, wide = t.temporary(), PTX_TYPES["u32"]
    t.data("MUL_LO", bytes, elements, t.constant(bits), type=wide)
    t.data("SHR", slot, bytes, t.constant(3), type=wide)
    return slot


def _access(t: Translation, tile: Tile, address: Operand, stride: int, op: str, values: tuple[int, ...]) -> int:
    """Emit the address of a lane in a tile and its access; return the slot that was loaded."""
    lane, whole = t.constant("%laneid"), PTX_TYPES["u32"]
    quad, inside, run, distance, along = (t.temporary() for _ in range(5))
    t.data("SHR", quad, lane, t.constant(2), type=whole)
    t.data("AND", inside, lane, t.constant(3), type=whole)
    by_run, by_place = (inside, quad) if tile.crossed else (quad, inside)
    t.data("MAD_LO", run, by_run, t.constant(tile.runs_per_step), t.constant(tile.run), type=whole)
    t.data("MUL_WIDE", distance, run, stride, type=whole)
    t.data("MAD_WIDE", along, by_place, t.constant(tile.bytes_per_step), distance, type=whole)
    fields = access_fields(t, address)
    place = t.temporary()
    t.data("ADD", place, fields.pop("slot"), along)
    fields["offset"] = wrapped(fields["offset"] + tile.offset)
    width, count = (64, tile.bytes // 8) if tile.bytes > 8 else (8 * tile.bytes, 1)
    if op == "STORE":
        t.emit(op, src=(place, *values[:count]), width=width, count=count, **fields)
        return place
    parts = tuple(t.temporary() for _ in range(count))
    t.emit(op, dst=parts, src=(place,), width=width, count=count, **fields)
    return parts[0]
