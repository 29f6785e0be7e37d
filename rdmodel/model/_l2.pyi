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

class SectoredCache:
    reads: int
    hits: int
    writes: int
    write_hits: int
    write_backs: int
    dram_read_sectors: int
    partition_sectors: int

    def __init__(self, *, units: int, partitions: int, ways: int, fetch: int, hashed: bool) -> None: ...
    def request(
        self,
        lines: NDArray[np.int64],
        sectors: NDArray[np.uint32],
        full: NDArray[np.uint32],
        writes: NDArray[np.uint8],
        sides: NDArray[np.int64],
    ) -> None: ...
    def dirty(self) -> int: ...
