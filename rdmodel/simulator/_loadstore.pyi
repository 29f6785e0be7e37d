import numpy as np
from numpy.typing import NDArray

from rdmodel.simulator._sectored_network import SectoredNetwork

ROW_WIDTH: int

class LoadStore(SectoredNetwork):
    recorded: int

    def set_record(self, rows: NDArray[np.int64]) -> None: ...
    def miss_latencies(self) -> list[int]: ...
