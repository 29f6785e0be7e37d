from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracegen.ptx.emulator._log import Log
from tracegen.ptx.emulator._places import Places
from tracegen.ptx.emulator._poison import Poison

class Status(IntEnum):
    UNFINISHED = 0
    FINISHED = 1
    OUTSIDE = 2
    TOO_LONG = 3
    DEADLOCK = 4
    TRAPPED = 5
    NO_MEMORY = 6
    UNCOMPUTED = 7

class Emulator:
    step: int
    thread: int
    address: int
    slot: int
    instructions: int
    executed: int
    changes_copies: bool
    def __init__(
        self,
        code: NDArray[Any],
        registers: NDArray[np.uint64],
        variables: int,
        targets: NDArray[np.int64],
        places: Places,
        log: Log,
        poison: Poison,
        regions: NDArray[np.int64],
        loops: NDArray[np.int64],
        counts: NDArray[np.int64],
        strict: bool,
        max_instructions: int,
        max_bytes: int,
    ) -> None: ...
    def bind_textures(self, table: NDArray[np.int64]) -> None: ...
    def join(self, signals: NDArray[np.int64], rank: int) -> None: ...
    def missing(self) -> tuple[int, int]: ...
    def open_cluster_barrier(self) -> None: ...
    def restart(self, entry: int, local_base: int, records: bool) -> None: ...
    def run(self, steps: int) -> int: ...
    def waiting(self) -> list[tuple[int, int, int]]: ...
