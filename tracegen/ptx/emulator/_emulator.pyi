from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracegen.ptx.emulator._bulk_copy_steps import BulkCopySteps
from tracegen.ptx.emulator._events import Events
from tracegen.ptx.emulator._log import Log
from tracegen.ptx.emulator._places import Places
from tracegen.ptx.emulator._poison import Poison
from tracegen.ptx.emulator._threads import Status as Status

class Emulator(BulkCopySteps):
    executed: int
    def __init__(
        self,
        code: NDArray[Any],
        registers: NDArray[np.uint64],
        variables: int,
        targets: NDArray[np.int64],
        places: Places,
        log: Log,
        events: Events,
        poison: Poison,
        regions: NDArray[np.int64],
        loops: NDArray[np.int64],
        counts: NDArray[np.int64],
        strict: bool,
        max_instructions: int,
        max_bytes: int,
    ) -> None: ...
    def restart(self, entry: int, local_base: int, records: bool) -> None: ...
    def run(self, steps: int) -> int: ...
