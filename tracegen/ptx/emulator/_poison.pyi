import numpy as np
from numpy.typing import NDArray

from tracegen.ptx.emulator._places import Places

class Poison:
    shared_bits: NDArray[np.uint8]
    def __init__(self, slots: int, threads: int, variables: int, places: Places, local: int, shared: int) -> None: ...
    def join(self, peers: NDArray[np.uint64]) -> None: ...
    def bind(self, cells: NDArray[np.uint64]) -> None: ...
