import numpy as np
from numpy.typing import NDArray

def parse(
    text: bytes,
    at: int,
    threads: int,
    last_address: int,
    longest: int,
    thread: NDArray[np.int64],
    address: NDArray[np.int64],
    kind: NDArray[np.uint8],
    n: int,
) -> tuple[int, int, int, int]: ...
def group(
    thread: NDArray[np.int64],
    address: NDArray[np.int64],
    kind: NDArray[np.uint8],
    block_threads: int,
    warp: NDArray[np.int64],
    length: NDArray[np.int64],
    pc: NDArray[np.int32],
    op: NDArray[np.uint8],
    size: NDArray[np.uint8],
    mask: NDArray[np.uint32],
    address_start: NDArray[np.int64],
    addresses: NDArray[np.int64],
) -> tuple[int, int]: ...
def render(
    thread: NDArray[np.int64],
    store: NDArray[np.uint8],
    address: NDArray[np.int64],
    size: NDArray[np.uint8],
    out: NDArray[np.uint8],
) -> int: ...
