import numpy as np
from numpy.typing import NDArray

def find_moves(
    base: NDArray[np.int64],
    wanted: NDArray[np.int64],
    blocks: NDArray[np.int64],
    moves: NDArray[np.int64],
    fits: NDArray[np.uint8],
) -> None: ...
