"""Present traces: the properties of a launch for notebooks, and instructions as columns of a data frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.text import shape_text, size_text
from rdmodel.trace.columns import Columns, Op, Program, Space
from rdmodel.trace.expansion import expand
from rdmodel.trace.launch import Launch

NO_ADDRESS = -1
"""Address of an instruction without active lanes, such as a barrier."""

OPS = np.array([op.name.lower() for op in Op], object)
SPACES = np.array([space.name.lower() for space in Space], object)
"""Names of operations and memory spaces, by their codes."""


def launch_rows(launch: Launch, held: int, params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the shape and the resources of a launch, its arrays and its parameters in one row.

    `held` is the number of blocks in the trace.
    """
    row: dict[str, Any] = {
        "grid": shape_text(launch.grid),
        "block": shape_text(launch.block),
        "blocks in the trace": held,
        "warps per block": launch.block_warps,
        "shared memory": size_text(launch.shared_memory),
        **({"registers": launch.registers} if launch.registers else {}),
    }
    row |= {f"array {array.name}": f"{size_text(array.bytes)} at {array.base:#x}" for array in launch.arrays}
    return [row | {f"parameter {name}": value for name, value in params.items()}]


def instruction_columns(
    make_block: Callable[[int], Columns | Program], block_warps: int, blocks: Iterable[int]
) -> dict[str, NDArray[Any]]:
    """Return the instructions of some blocks as columns of equal length, one row per warp instruction.

    `address` is that of the lowest active lane. O(instructions + active lanes).
    """
    parts = [_block_columns(make_block(block), block, block_warps) for block in blocks]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def _block_columns(content: Columns | Program, block: int, block_warps: int) -> dict[str, NDArray[Any]]:
    columns = content if isinstance(content, Columns) else expand(content, block_warps)
    lanes = np.diff(columns.address_start)
    address = np.full(len(columns), NO_ADDRESS)
    address[lanes > 0] = columns.addresses[columns.address_start[:-1][lanes > 0]]
    return {
        "block": np.full(len(columns), block),
        "warp": np.repeat(np.arange(columns.warps), np.diff(columns.warp_start)),
        "pc": columns.pc,
        "op": OPS[columns.op],
        "space": SPACES[columns.space],
        "size": columns.size,
        "lanes": lanes,
        "address": address,
        "gap": columns.gap,
    }
