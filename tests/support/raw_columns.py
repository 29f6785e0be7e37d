"""Build the columns of small traces as plain integer arrays, and change one value of them."""

from __future__ import annotations

import numpy as np

from rdmodel.trace import (
    Columns,
    Launch,
    Op,
)

LOAD = {"op": Op.LOAD, "mask": 0b11, "addresses": [0, 4]}


def make_raw(warps: list[list[dict]]) -> dict[str, object]:
    """Return columns as plain integer arrays: three fields by instruction, the rest at their defaults."""
    rows = [row for warp in warps for row in warp]
    lanes = [row["addresses"] for row in rows]
    n = len(rows)
    return {
        "warp_start": np.cumsum([0, *map(len, warps)]),
        "pc": np.arange(n),
        "op": np.array([row["op"] for row in rows], int),
        "space": np.zeros(n, int),
        "size": np.full(n, 4),
        "gap": np.zeros(n, int),
        "needs": np.zeros(n, np.uint64),
        "loop_exit": np.zeros(n, bool),
        "mask": np.array([row["mask"] for row in rows], int),
        "address_start": np.cumsum([0, *map(len, lanes)]),
        "addresses": np.array([address for row in lanes for address in row], int),
    }


def three_warps() -> dict[str, object]:
    """Return two loads, an empty warp, and a load, a barrier and a load."""
    barrier = {"op": Op.BARRIER, "mask": 0xFFFFFFFF, "addresses": []}
    return make_raw([[LOAD, LOAD], [], [LOAD, barrier, LOAD]])


def changed(name: str, row: int, value: object, dtype: object = None) -> Columns:
    raw = three_warps()
    column = np.array(raw[name], dtype)
    column[row] = value
    return Columns(**{**raw, name: column})


def launch(blocks: int = 1, warps: int = 3) -> Launch:
    return Launch(kernel="k", grid=(blocks, 1, 1), block=(32 * warps, 1, 1))
