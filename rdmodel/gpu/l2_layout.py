"""Spread the lines of the L2 over slices and sets, as `L2Config.index` says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU
from rdmodel.policies import IndexCode, Pric
from rdmodel.policies.index import KIND_MODULO, evaluate

SPARE_FOLD_BITS = 3
"""Bits by which folds are wider than a number of slices that is no power of two, so that their remainders are even."""


@dataclass(frozen=True, slots=True)
class L2Layout:
    """The slice and the set of every line.

    A line is the `place`-th of its row of `slices` lines: line = row x `slices` + place. With "linear", `place` is the
    slice and row mod `sets` the set. With "hash", the bits of the row are cut into fields of `fold_bits` bits, which
    are xored. The slice is the sum (for a power of two the xor) of place and fold, mod `slices`, so the lines of a row
    still lie in different slices. The set is the row modulo an irreducible polynomial over GF(2) (`Pric`).

    `fold_bits` is 0 for "linear" and for one slice; `set_code` maps rows to sets.
    """

    slices: int
    fold_bits: int
    set_code: IndexCode

    def slice_of(self, lines: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the slice, 0 to `slices` - 1, of every line; shape and dtype of `lines`."""
        rows, places = np.divmod(lines, self.slices)
        if not self.fold_bits:
            return places
        folds = np.zeros_like(rows)
        rest = rows.astype(np.uint64)
        while rest.any():
            folds ^= (rest & np.uint64((1 << self.fold_bits) - 1)).astype(np.int64)
            rest = rest >> np.uint64(self.fold_bits)
        return places ^ folds if self.is_power else (places + folds) % self.slices

    def set_of(self, lines: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the set of every line in its slice; shape and dtype of `lines`."""
        return evaluate(self.set_code, lines // self.slices)

    @property
    def is_power(self) -> bool:
        """Whether the number of slices is a power of two."""
        return self.slices & (self.slices - 1) == 0


def l2_layout(gpu: GPU) -> L2Layout:
    """Return the layout of a GPU's L2; raise `ConfigError` for a hash of sets whose number is not a power of two."""
    slices, sets = gpu.l2.slices, gpu.l2.sets(gpu.l1.line)
    if gpu.l2.index == "linear":
        return L2Layout(slices, 0, IndexCode(KIND_MODULO, sets, modulus=sets))
    if sets & (sets - 1):
        raise ConfigError(f"l2.index='hash': the number of sets of a slice must be a power of two, not {sets}")
    bits = (slices - 1).bit_length()
    fold_bits = bits if slices & (slices - 1) == 0 else bits + SPARE_FOLD_BITS
    return L2Layout(slices, fold_bits, Pric().compile(sets, gpu.l1.line))
