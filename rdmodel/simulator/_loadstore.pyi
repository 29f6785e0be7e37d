import numpy as np
from numpy.typing import NDArray

from rdmodel.simulator._partitioned_network import PartitionedNetwork

ROW_WIDTH: int

class LoadStore(PartitionedNetwork):
    recorded: int

    def set_record(self, rows: NDArray[np.int64]) -> None: ...
    def miss_latencies(self) -> list[int]: ...
