"""Collect the work of a block while its kernel function runs: declared arithmetic, accesses and loops.

Integer instructions of indices and loops are estimated unless the kernel declares its own: one for each index of an
access, one for a condition, two for an iteration of a loop. Compilers unroll loops whose addresses advance by
constants (here by `DEFAULT_UNROLL`), and advance an address once for all iterations of which it is in reach; an
address that moves further is advanced in each.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError, unknown
from rdmodel.trace import WARP, Op, Space, Work
from rdmodel.trace.banks import count_wavefronts
from rdmodel.trace.work import INSTRUCTION_CLASSES

REACH = 16
"""Bytes by which an address moves from one element to the next."""

PRECISIONS = {"float32": "fp32", "float64": "fp64", "float16": "fp16"}
"""Precisions of `declared_arithmetic` by the name of the type."""

MAX_OPERATIONS = 1 << 20
"""Largest number of operations of one declaration."""

_SPACES = {Space.GLOBAL: "global", Space.LOCAL: "local", Space.CONSTANT: "constant", Space.TEXTURE: "texture"}
_VERBS = {Op.LOAD: "load", Op.STORE: "store", Op.ATOMIC: "atomic"}

Lanes = NDArray[np.bool_]


def declared_arithmetic(flops: int, ints: int, special: int, type: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return the instructions by class, and the operations by name, of declared arithmetic.

    Two floating-point operations are a multiply-add; an odd one is an addition. Raises `TraceError` for a number that
    is not a whole one from 0 to 2^20, and for an unknown type.
    """
    for name, number in (("flops", flops), ("ints", ints), ("special", special)):
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_OPERATIONS:
            raise TraceError(f"{name} {number!r:.60}: must be a whole number from 0 to 2^20")
    if not isinstance(type, str) or type not in PRECISIONS:
        raise TraceError(unknown("type", f"{type!s:.60}", PRECISIONS))
    precision = PRECISIONS[type]
    pairs, single = divmod(flops, 2)
    return (
        {precision: pairs + single, "int": ints, "special": special},
        {f"{precision}_fma": pairs, f"{precision}_add": single, "int": ints},
    )


def advance(step: int, shared: bool, unrolled: int) -> float:
    """Return the additions per iteration to an address that moves by `step` bytes in a loop; 0 if it does not move."""
    if step == 0:
        return 0
    return 1 / unrolled if shared or abs(step) <= REACH else 1


def access_class(op: Op, space: Space) -> str:
    """Return the class of an instruction that accesses memory."""
    name = f"{_VERBS[op]}_{_SPACES[space]}"
    return name if name in INSTRUCTION_CLASSES else f"{_VERBS[op]}_global"


class WorkCounter:
    """The counts of one block. `add` counts an instruction for the warps of some lanes, a number of times."""

    def __init__(self) -> None:
        self.declared = self.declared_integers = False
        self._counts: defaultdict[tuple[str, str], float] = defaultdict(float)

    def add(self, name: str, lanes: Lanes, times: float = 1) -> None:
        """Count an instruction of a class."""
        self._counts["instructions", name] += times * int(lanes.reshape(-1, WARP).any(axis=1).sum())

    def compute(self, classes: dict[str, int], operations: dict[str, int], lanes: Lanes, times: float = 1) -> None:
        """Count declared arithmetic."""
        self.declared = True
        self.declared_integers = self.declared_integers or classes["int"] > 0
        for name, number in classes.items():
            self.add(name, lanes, times * number)
        for name, number in operations.items():
            self._counts["operations", name] += times * number * int(lanes.sum())

    def derive(self, integers: float, lanes: Lanes, times: float = 1) -> None:
        """Count integer instructions that the kernel does not declare."""
        self._counts["derived", "int"] += times * integers * int(lanes.reshape(-1, WARP).any(axis=1).sum())
        self._counts["derived", "lanes"] += times * integers * int(lanes.sum())

    def share(
        self, op: Op, size: int, addresses: Any, lanes: Lanes, *, step: int = 0, trips: int = 1, times: float = 1
    ) -> None:
        """Count an access to shared memory a number of times; `step` is its advance in bytes in each of `trips` trips.

        Addresses that move by whole words keep their conflicts; others have them again after four trips.
        """
        self.declared = True
        name = f"{_VERBS[op]}_shared"
        self.add(name, lanes, times)
        masks = np.packbits(lanes.reshape(-1, WARP), axis=1, bitorder="little").view(np.uint32).ravel()
        first = np.broadcast_to(np.asarray(addresses), lanes.shape)
        phases = 4 if step % 4 and trips >= 4 else 1
        for phase in range(phases):
            moved = (first + phase * step).reshape(-1, WARP)
            found = count_wavefronts(moved, masks, size, op == Op.ATOMIC).sum(axis=0)
            self._counts["shared_wavefronts", name] += times / phases * int(found[0])
            self._counts["shared_groups", name] += times / phases * int(found[1])

    def begin(self) -> dict[tuple[str, str], float]:
        """Return the present counts, for `repeat`."""
        return dict(self._counts)

    def repeat(self, before: dict[tuple[str, str], float], times: int) -> None:
        """Count everything since `begin` as often as a loop repeats it."""
        for key, number in self._counts.items():
            done = before.get(key, 0)
            self._counts[key] = done + times * (number - done)

    def work(self, warps: int) -> Work:
        """Return the work of the block."""
        parts: dict[str, dict[str, int]] = {}
        for (kind, name), number in self._counts.items():
            parts.setdefault(kind, {})[name] = round(number)
        derived = parts.pop("derived", {})
        if derived and not self.declared_integers:
            for kind, name in (("instructions", "int"), ("operations", "lanes")):
                counts = parts.setdefault(kind, {})
                counts["int"] = counts.get("int", 0) + derived[name]
        return Work(blocks=1, warps=warps, **parts)  # type: ignore[arg-type]
