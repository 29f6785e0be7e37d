"""Spread the lines of the L2 over slices and sets, as `L2Config.index` says (docs/model.md, section 14)."""

from __future__ import annotations

from rdmodel.common.late_dataclass import dataclass
from rdmodel.gpu.config import GPU


@dataclass(frozen=True, slots=True)
class L2Layout:
    """The slice and the set of every line: a line is in unit u, one of `slices` x `sets` = `odd` x 2^`bits`.

    Its slice is u mod `slices`, its set there u / `slices`, rounded down. Without a hash, u is the line modulo the
    number of units. With one, the groups of `bits` bits of the line are xored; the remainder of the line / 2^`bits` by
    `odd` follows above them.
    """

    slices: int
    sets: int
    hashed: bool

    @property
    def units(self) -> int:
        """Number of sets in all slices."""
        return self.slices * self.sets

    @property
    def bits(self) -> int:
        """Exponent of the largest power of two that divides the number of units."""
        return (self.units & -self.units).bit_length() - 1

    @property
    def odd(self) -> int:
        """Odd part of the number of units."""
        return self.units >> self.bits

    def unit_of(self, line: int) -> int:
        """Return the unit of a line."""
        if not self.hashed:
            return line % self.units
        fold, rest = 0, line if self.bits else 0
        while rest:
            fold ^= rest & ((1 << self.bits) - 1)
            rest >>= self.bits
        return ((line >> self.bits) % self.odd << self.bits) + fold

    def slice_of(self, line: int) -> int:
        """Return the slice of a line."""
        return self.unit_of(line) % self.slices

    def set_of(self, line: int) -> int:
        """Return the set of a line in its slice."""
        return self.unit_of(line) // self.slices

    def number_of(self, line: int) -> int:
        """Return the number of a line among those of its slice, by which it is placed in DRAM."""
        return line // self.units * self.sets + self.set_of(line)


def l2_layout(gpu: GPU) -> L2Layout:
    """Return the layout of a GPU's L2."""
    return L2Layout(gpu.l2.slices, gpu.l2.sets(gpu.l1.line), gpu.l2.index == "hash")
