import numpy as np
from numpy.typing import NDArray

def parse(
    text: bytes,
    at: int,
    block_id: int,
    warps: int,
    last_address: int,
    longest: int,
    names: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    kinds: NDArray[np.uint8],
    opcodes: int,
    records: NDArray[np.int64],
    block: NDArray[np.int64],
    warp: NDArray[np.int64],
    pc: NDArray[np.int32],
    op: NDArray[np.uint8],
    space: NDArray[np.uint8],
    size: NDArray[np.uint8],
    mask: NDArray[np.uint32],
    addresses: NDArray[np.int64],
    rows: int,
    used: int,
    last_lanes: int,
    drops_lanes: bool,
    dropped: NDArray[np.int64],
) -> tuple[int, int, int, int, int]: ...
