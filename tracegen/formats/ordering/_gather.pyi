from typing import Any

import numpy as np
from numpy.typing import NDArray

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
def permute(
    words: NDArray[np.int64], start: NDArray[np.int64], order: NDArray[np.int64], out: NDArray[np.int64]
) -> None: ...
def unpack(
    words: NDArray[np.int64], lanes: NDArray[np.int64], packed: NDArray[np.uint8], addresses: NDArray[np.int64]
) -> None: ...
