from typing import Any

import numpy as np
from numpy.typing import NDArray

class Log:
    def __init__(
        self, warps: int, tainted: NDArray[np.uint8], unrolled: NDArray[np.int64], loops: int
    ) -> None: ...
    def restart(self) -> None: ...
    def columns(self) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]: ...
