from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracegen.formats.compressed import Text

def parse(
    text: Text,
    at: int,
    block_id: int,
    warps: int,
    needs: int,
    last_address: int,
    longest: int,
    names: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    kinds: NDArray[np.uint8],
    opcodes: int,
    records: NDArray[np.int64],
    rows: NDArray[Any],
    row: int,
    words: NDArray[np.int64],
    used: int,
    last_lanes: int,
    drops_lanes: bool,
    dropped: NDArray[np.int64],
) -> tuple[int, int, int, int, int]: ...
