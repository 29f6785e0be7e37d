import numpy as np
from numpy.typing import NDArray

from rdmodel.simulator._hinting_network import HintingNetwork

ROW_WIDTH: int

class LoadStore(HintingNetwork):
    recorded: int

    def set_record(self, rows: NDArray[np.int64]) -> None: ...
    def miss_latencies(self) -> list[int]: ...
