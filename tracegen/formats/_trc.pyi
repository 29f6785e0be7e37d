from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tracegen.formats.compressed import Text

def parse(
    text: Text,
    at: int,
    threads: int,
    last_address: int,
    longest: int,
    accesses: NDArray[np.int64],
    n: int,
) -> tuple[int, int, int, int]: ...
def sort(accesses: NDArray[np.int64], room: NDArray[np.int64]) -> bool: ...

class AccessGrouper:
    def __init__(
        self, accesses: NDArray[np.int64], block_threads: int, give_back: Callable[[], None] | None = None
    ) -> None: ...

class Grouper(AccessGrouper):
    def fill(
        self,
        warp: NDArray[np.int64],
        pc: NDArray[np.int32],
        op: NDArray[np.uint8],
        size: NDArray[np.uint8],
        mask: NDArray[np.uint32],
        addresses: NDArray[np.int64],
    ) -> tuple[int, int]: ...

def render(
    thread: NDArray[np.int64],
    store: NDArray[np.uint8],
    address: NDArray[np.int64],
    size: NDArray[np.uint8],
    out: NDArray[np.uint8],
) -> int: ...
