"""Count the wavefronts of shared memory bank by bank: the oracle of `rdmodel.trace.banks`."""

from __future__ import annotations

from collections import defaultdict


def naive_wavefronts(addresses: dict[int, int], size: int, atomic: bool) -> tuple[int, int]:
    """Return the wavefronts and the groups of one access: `addresses` maps active lanes to bytes."""
    width = 32 if size <= 4 else 16 if size <= 8 else 8
    agree = [all(addresses.get(lane ^ bit, at) == at for lane, at in addresses.items()) for bit in (1, 2)]
    if size > 4 and not atomic and any(agree):
        width *= 2
    total = groups = 0
    for first in range(0, 32, width):
        banks = defaultdict(list)
        for lane, address in addresses.items():
            if first <= lane < first + width:
                for word in range(address // 4, (address + size - 1) // 4 + 1):
                    banks[word % 32].append(word)
        groups += bool(banks)
        total += max((len(words) if atomic else len(set(words)) for words in banks.values()), default=0)
    return total, groups
