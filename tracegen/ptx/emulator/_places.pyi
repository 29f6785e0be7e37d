import numpy as np
from numpy.typing import NDArray

class Places:
    def __init__(
        self, local: NDArray[np.uint8], local_bytes: int, shared: NDArray[np.uint8], shared_bytes: int
    ) -> None: ...
    def bind(self, bases: NDArray[np.uint64], sizes: NDArray[np.uint64], hosts: NDArray[np.uint64]) -> None: ...
