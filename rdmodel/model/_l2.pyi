import numpy as np
from numpy.typing import NDArray

class CountedCache:
    def counts(self, period: int) -> dict[str, int]: ...
    def dirty(self) -> int: ...

class SharedCache(CountedCache):
    def __init__(self, *, sets: int, ways: int, dirty_ways: int = -1) -> None: ...
    def request(self, lines: NDArray[np.int64], kinds: NDArray[np.uint8]) -> None: ...

class SectoredCache(CountedCache):
    def __init__(
        self, *, units: int, partitions: int, ways: int, fetch: int, hashed: bool, dirty_ways: int = -1
    ) -> None: ...
    def request(
        self,
        lines: NDArray[np.int64],
        sectors: NDArray[np.uint32],
        full: NDArray[np.uint32],
        kinds: NDArray[np.uint8],
        sides: NDArray[np.int64],
    ) -> None: ...

class Supply:
    def __init__(
        self,
        op: NDArray[np.uint8],
        count: NDArray[np.int32],
        lines: NDArray[np.int64],
        sectors: NDArray[np.uint32],
        full: NDArray[np.uint32],
    ) -> None: ...

class Warmer:
    def __init__(self, cache: CountedCache, *, sms: int, entries: int, old: bool = False) -> None: ...
    def empty_share(self) -> float: ...
    def send(self, sm: int, side: int, supply: Supply, n: int) -> None: ...
