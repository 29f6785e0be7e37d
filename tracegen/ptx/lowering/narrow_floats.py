"""Emit conversions of floating-point numbers of 16 bits to wider ones, and back."""

from __future__ import annotations

from collections.abc import Sequence

from tracegen.ptx.isa._code import COMPARISONS, TESTS
from tracegen.ptx.lowering.program import PTX_TYPES, PtxType
from tracegen.ptx.lowering.translation import Translation


def widen_half(t: Translation, half: int, wide: PtxType) -> int:
    """Emit the conversion of a half-precision slot to a wider type; return the new slot."""
    slot = t.temporary()
    t.data("FLOAT_TO_FLOAT", slot, half, type=wide, from_kind="FLOAT", from_width=16)
    return slot


def widen_bfloat(t: Translation, half: int) -> int:
    """Emit the conversion of a bfloat16 slot, the upper half of the bits, to single precision; return the new slot."""
    slot = t.temporary()
    t.data("SHL", slot, half, t.constant(16), type=PTX_TYPES["b32"])
    return slot


def round_to_bfloat(t: Translation, dst: int, source: int, *, nearest: bool = True) -> None:
    """Emit a conversion from single precision to bfloat16: to nearest even, or to zero."""
    whole, upper = PTX_TYPES["b32"], source
    if nearest:
        odd, last, more, upper = (t.temporary() for _ in range(4))
        t.data("SHR", odd, source, t.constant(16), type=whole)
        t.data("AND", last, odd, t.constant(1), type=whole)
        t.data("ADD", more, last, t.constant(0x7FFF), type=whole)
        t.data("ADD", upper, source, more, type=whole)
    rounded, nan = t.temporary(), t.temporary()
    t.data("SHR", rounded, upper, t.constant(16), type=whole)
    t.data("TESTP", nan, source, type=PTX_TYPES["f32"], mode=TESTS["NOTANUMBER"])
    t.data("SELECT", dst, t.constant(0x7FFF), rounded, nan, type=whole)


def multiply_add_to_odd(t: Translation, singles: Sequence[int]) -> int:
    """Emit an ``fma`` in single precision that rounds to odd; return the new slot.

    The last bit of a result that is not exact is 1, so that a further rounding is that of the exact number.
    """
    toward_zero, down, up, inexact, odd = (t.temporary() for _ in range(5))
    single = PTX_TYPES["f32"]
    for slot, rounding in ((toward_zero, "ZERO"), (down, "DOWN"), (up, "UP")):
        t.data("FMA", slot, *singles, type=single, rounding=rounding)
    t.data("FCOMPARE", inexact, down, up, type=single, mode=COMPARISONS["NE"])
    t.data("OR", odd, toward_zero, inexact, type=PTX_TYPES["b32"])
    return odd
