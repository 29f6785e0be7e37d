import numpy as np
from numpy.typing import NDArray

from tracegen.formats._trc import AccessGrouper

class LineGrouper(AccessGrouper):
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
