import numpy as np
from numpy.typing import NDArray

from tracegen.ptx.emulator._places import Places

class Poison:
    def __init__(self, slots: int, threads: int, variables: int, places: Places, local: int, shared: int) -> None: ...
    def bind(self, cells: NDArray[np.uint64]) -> None: ...
