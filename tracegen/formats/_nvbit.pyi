from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracegen.formats.compressed import Text

def parse(
    text: Text,
    at: int,
    wanted: int,
    shift: int,
    announced: NDArray[np.int64],
    grid: NDArray[np.int64],
    slots: int,
    needs: int,
    last_address: int,
    longest: int,
    names: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    kinds: NDArray[np.uint8],
    opcodes: int,
    rows: NDArray[Any],
    row: int,
    words: NDArray[np.int64],
    used: int,
    threads: int,
    drops_lanes: bool,
    dropped: NDArray[np.int64],
) -> tuple[int, int, int, int, int]: ...
def read_words(text: Text, digits: int, by_hand: bool) -> tuple[list[int], int, int]: ...
