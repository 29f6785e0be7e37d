from typing import Any

import numpy as np
from numpy.typing import NDArray

COUNTS: int

def append_rows(
    block: NDArray[np.int64],
    warp: NDArray[np.int64],
    slots: int,
    pc: NDArray[np.int32],
    op: NDArray[np.uint8],
    space: NDArray[np.uint8],
    size: NDArray[np.uint8],
    gap: NDArray[np.int32],
    needs: NDArray[np.uint64],
    loop_exit: NDArray[np.uint8],
    mask: NDArray[np.uint32],
    cache_op: NDArray[np.uint8] | None,
    addresses: NDArray[np.int64],
    first: int,
    lane: int,
    rows: NDArray[Any],
    row: int,
    words: NDArray[np.int64],
    used: int,
) -> tuple[int, int, int, int]: ...
def sort(
    rows: NDArray[Any], start: NDArray[np.int64], order: NDArray[np.uint32], counts: NDArray[np.int64]
) -> None: ...
def select(
    rows: NDArray[Any],
    words: NDArray[np.int64],
    start: NDArray[np.int64],
    order: NDArray[np.uint32],
    first: int,
    out_rows: NDArray[Any],
    out_words: NDArray[np.int64],
) -> tuple[int, int]: ...
def index_blocks(
    rows: NDArray[Any], slots: int, entries: NDArray[Any], count: int, row: int, word: int
) -> tuple[int, int, int]: ...
def unpack_block(
    rows: NDArray[Any],
    words: NDArray[np.int64],
    first_key: int,
    slots: int,
    ranked: bool,
    warp_start: NDArray[np.int64],
    pc: NDArray[np.int32],
    op: NDArray[np.uint8],
    space: NDArray[np.uint8],
    size: NDArray[np.uint8],
    gap: NDArray[np.int32],
    needs: NDArray[np.uint64],
    loop_exit: NDArray[np.uint8],
    mask: NDArray[np.uint32],
    address_start: NDArray[np.int64],
    addresses: NDArray[np.int64],
    cache_op: NDArray[np.uint8] | None,
) -> None: ...
def unpack(
    words: NDArray[np.int64], lanes: NDArray[np.int64], packed: NDArray[np.uint8], addresses: NDArray[np.int64]
) -> None: ...
