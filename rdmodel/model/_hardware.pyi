from array import array

import numpy as np
from numpy.typing import NDArray

from rdmodel.model._core import Core

class HardwareCore(Core):
    def put_choices(self, draws: NDArray[np.float64] | array[float]) -> None: ...
