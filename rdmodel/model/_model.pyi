from array import array

import numpy as np
from numpy.typing import NDArray

from rdmodel.model._core import DONE as DONE
from rdmodel.model._core import WANT_BLOCK as WANT_BLOCK
from rdmodel.model._core import WANT_CHOICES as WANT_CHOICES
from rdmodel.model._core import WANT_CHUNK as WANT_CHUNK
from rdmodel.model._core import WANT_LATENCIES as WANT_LATENCIES
from rdmodel.model._core import Core as Core

class PaperCore(Core): ...

class HardwareCore(Core):
    def put_choices(self, draws: NDArray[np.float64] | array[float]) -> None: ...
