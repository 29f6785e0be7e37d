import numpy as np
from numpy.typing import NDArray

def add_dimension(index: NDArray[np.int64], distance: int, extent: int, address: NDArray[np.int64]) -> bool: ...
