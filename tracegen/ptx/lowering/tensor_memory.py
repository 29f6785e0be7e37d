"""Lower the instructions of Blackwell's tensor cores (``tcgen05``), whose tensor memory is not modelled.

Tensor memory holds no values here: what is read from it is poisoned. Its addresses are zeros. Products are complete at
once, so that a commit arrives at its mbarrier at once.
"""

from __future__ import annotations

from typing import Any

from tracegen.ptx.isa._code import CLUSTER_RANK_BITS, MBARRIERS
from tracegen.ptx.lowering.memory_and_shuffles import access_fields
from tracegen.ptx.lowering.program import NO_SLOT
from tracegen.ptx.lowering.translation import Translation, UnsupportedError

_WITHOUT_EFFECT = frozenset(
    {"dealloc", "relinquish_alloc_permit", "st", "cp", "shift", "wait::ld", "wait::st", "fence"}
)
"""Actions that change tensor memory alone, or wait for it."""

_DESCRIPTOR = 3
"""Place of the instruction descriptor among the operands of a product."""


def translate_tensor_memory(t: Translation) -> None:
    """Emit an instruction of ``tcgen05``."""
    action = t.modifiers[0]
    if action in _WITHOUT_EFFECT or action.startswith("fence::"):
        return
    if action == "mma":
        # The step is executed nowhere, but counted: its source has the shape of the product.
        t.emit("POISON", dst=(NO_SLOT,), src=(t.value(t.operands[_DESCRIPTOR], "b32"),), **t.guard())
    elif action == "alloc":
        fields = access_fields(t, t.operands[0], "SHARED" if _is_shared(t) else "GENERIC")
        t.emit("STORE", src=(fields.pop("slot"), t.constant(0)), width=32, **fields)
    elif action == "ld":
        t.uncomputed()
    elif action == "commit":
        fields = access_fields(t, t.operands[0], "SHARED")
        slot, offset = fields["slot"], fields["offset"]
        if t.has("multicast::cluster"):
            _commit_to_many(t, slot, offset)
        else:
            _arrive(t, slot, offset, **t.guard())
    else:
        raise UnsupportedError


_MOST_RANKS = 16
"""Bits of a mask of the blocks of a cluster."""


def _arrive(t: Translation, slot: int, offset: int, **fields: Any) -> None:
    src = slot, NO_SLOT, NO_SLOT
    t.emit("MBAR", dst=(NO_SLOT,), src=src, mode=MBARRIERS["MBAR_ARRIVE"], offset=offset, **fields)


def _commit_to_many(t: Translation, slot: int, offset: int) -> None:
    """Emit arrivals at the mbarriers at the same place of all blocks of a mask."""
    mask, own = t.value(t.operands[1], "b16"), t.temporary()
    t.data("AND", own, slot, t.constant((1 << CLUSTER_RANK_BITS) - 1))
    for rank in range(_MOST_RANKS):
        bit, place = t.temporary(), t.temporary()
        t.data("BFE", bit, mask, t.constant(rank), t.constant(1))
        t.data("OR", place, own, t.constant(rank << CLUSTER_RANK_BITS))
        _arrive(t, place, offset, guard=t.both(bit))


def _is_shared(t: Translation) -> bool:
    return any(modifier.startswith("shared") for modifier in t.modifiers)
