import numpy as np
from numpy.typing import NDArray

def count_wavefronts(
    addresses: NDArray[np.int64],
    masks: NDArray[np.uint32],
    sizes: NDArray[np.uint8],
    each: NDArray[np.uint8],
    result: NDArray[np.int64],
) -> None: ...
