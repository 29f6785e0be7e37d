"""Tell which set gives up data that belong to no set, for the references of both engines."""

from __future__ import annotations

from collections.abc import Iterator


def sets_in_turn(placed: int, sets: int) -> Iterator[int]:
    """Yield each set once after `placed` lines have got data: the bits of a count in reverse (docs/gpus.md)."""
    bits = (sets - 1).bit_length()
    for count in range(placed, placed + sets):
        yield int(f"{count % sets:0{bits}b}"[::-1], 2) if bits else 0
