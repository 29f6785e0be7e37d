from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

class LineGrouper:
    def __init__(
        self, accesses: NDArray[np.int64], block_threads: int, give_back: Callable[[], None] | None = None
    ) -> None: ...
    def fill(
        self,
        warp: NDArray[np.int64],
        pc: NDArray[np.int32],
        gap: NDArray[np.int32],
        op: NDArray[np.uint8],
        size: NDArray[np.uint8],
        mask: NDArray[np.uint32],
        addresses: NDArray[np.int64],
    ) -> tuple[int, int]: ...
