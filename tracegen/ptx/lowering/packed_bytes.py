"""Lower instructions on packed bytes: ``dp4a``, ``dp2a``, and sums of absolute differences (``vabsdiff4``)."""

from __future__ import annotations

from tracegen.ptx.lowering.program import PTX_TYPES
from tracegen.ptx.lowering.translation import Translation, UnsupportedError

_BYTE_BITS = 8


def translate_dot_product(t: Translation) -> None:
    """Emit ``dp4a`` and ``dp2a``: products of four bytes, or of two halves and two bytes, added to a number."""
    halves = t.instruction.opcode == "dp2a"
    width, first = (2 * _BYTE_BITS, 2 if t.has("hi") else 0) if halves else (_BYTE_BITS, 0)
    places = [(i * width, (first + i) * _BYTE_BITS) for i in range(2 if halves else 4)]
    _accumulate(t, "MAD_LO", places, width)


def translate_absolute_differences(t: Translation) -> None:
    """Emit ``vabsdiff4.add``: the absolute differences of four bytes, added to a number."""
    if not t.has("add") or t.has("sat"):
        raise UnsupportedError
    _accumulate(t, "SAD", [(i * _BYTE_BITS, i * _BYTE_BITS) for i in range(4)], _BYTE_BITS)


def _accumulate(t: Translation, op: str, places: list[tuple[int, int]], width: int) -> None:
    """Combine parts of two registers, and add them to a third; `places` has their first bits, and `width` their bits.

    Parts of the second register are bytes.
    """
    types = [PTX_TYPES[name] for name in t.modifiers if name in ("u32", "s32")][-2:]
    if len(types) < 2:
        raise UnsupportedError
    destination = t.destination(t.operands[0])
    a, b, total = (t.value(operand, "b32") for operand in t.operands[1:])
    for number, (place_in_a, place_in_b) in enumerate(places, 1):
        x, y = t.temporary(), t.temporary()
        t.data("BFE", x, a, t.constant(place_in_a), t.constant(width), type=types[0])
        t.data("BFE", y, b, t.constant(place_in_b), t.constant(_BYTE_BITS), type=types[1])
        following = destination if number == len(places) else t.temporary()
        t.data(op, following, x, y, total, type=PTX_TYPES["s32"])
        total = following
