import numpy as np
from numpy.typing import NDArray

def pack(
    addresses: NDArray[np.int64], lanes: NDArray[np.int64], words: NDArray[np.int64], packed: NDArray[np.uint8]
) -> int: ...
def permute(
    words: NDArray[np.int64], start: NDArray[np.int64], order: NDArray[np.int64], out: NDArray[np.int64]
) -> None: ...
def unpack(
    words: NDArray[np.int64], lanes: NDArray[np.int64], packed: NDArray[np.uint8], addresses: NDArray[np.int64]
) -> None: ...
