import numpy as np
from numpy.typing import NDArray

class Renderer:
    out: NDArray[np.uint8]
    reduced_needs: int
    extra_waits: int
    added_fillers: int
    def __init__(self, room: int) -> None: ...
    def open_warp(self) -> None: ...
    def render(
        self,
        pc: NDArray[np.int32],
        op: NDArray[np.uint8],
        space: NDArray[np.uint8],
        size: NDArray[np.uint8],
        gap: NDArray[np.int32],
        needs: NDArray[np.uint64],
        mask: NDArray[np.uint32],
        address_start: NDArray[np.int64],
        addresses: NDArray[np.int64],
        cache_op: NDArray[np.uint8] | None,
        row: int,
        end: int,
    ) -> tuple[int, int, int]: ...
