"""Read the `needs` masks of instructions, for the references of both engines."""

from __future__ import annotations

NEEDS_BITS = 64
"""Bits of an instruction's `needs`; an instruction needs every load that lies further back."""


def needs_load(needs: int, distance: int) -> bool:
    """Return whether an instruction with this mask needs the load `distance` memory instructions before it."""
    return distance > NEEDS_BITS or bool(needs >> (distance - 1) & 1)
