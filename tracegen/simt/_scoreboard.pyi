from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

def pack_lanes(lanes: NDArray[np.uint8], bits: NDArray[np.uint32], active: NDArray[np.uint8]) -> int: ...

class Registers:
    def __init__(self, state: NDArray[np.uint64]) -> None: ...
    def wait(self, warps: NDArray[np.uint8]) -> None: ...
    def issue(
        self,
        bits: NDArray[np.uint32],
        is_load: bool,
        is_barrier: bool,
        sources: Iterable[Any],
        needs: NDArray[np.uint64],
    ) -> None: ...
