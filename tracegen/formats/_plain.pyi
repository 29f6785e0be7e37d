from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

class Scanner:
    def __init__(
        self,
        form: int,
        roles: NDArray[np.int8],
        naming: int,
        block_threads: int,
        threads: int,
        last_address: int,
        longest: int,
        widest: int,
        default_size: int,
    ) -> None: ...
    @property
    def lines(self) -> int: ...
    def leave_out(self, accesses: NDArray[np.int64], n: int) -> int: ...
    def scan(self, text: bytes, at: int, accesses: NDArray[np.int64], n: int) -> tuple[int, int, int, int]: ...

class Grouper:
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
