import numpy as np
from numpy.typing import NDArray

class SharedCache:
    reads: int
    hits: int
    writes: int
    write_hits: int
    write_backs: int

    def __init__(self, *, sets: int, ways: int) -> None: ...
    def request(self, lines: NDArray[np.int64], writes: NDArray[np.uint8]) -> None: ...
    def dirty(self) -> int: ...
