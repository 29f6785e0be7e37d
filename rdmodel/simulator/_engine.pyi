from collections.abc import Mapping
from typing import Any

from rdmodel.policies import IndexCode
from rdmodel.policies.base import Kind, Settings
from rdmodel.simulator._feeding import Feeding
from rdmodel.simulator._loadstore import ROW_WIDTH as ROW_WIDTH

DONE: int
WANT_CHUNK: int
WANT_BLOCK: int
PAUSE: int
WANT_DRAIN: int
STUCK: int
FAULT: int
REQUEST_BYTES: int

class Machine(Feeding):
    last_end: int
    subject_sm: int
    subject: int

    def __init__(
        self,
        *,
        sms: int | None,
        slots: int,
        block_warps: int,
        max_lines: int,
        core: Mapping[str, int],
        l1: Mapping[str, Any],
        index: IndexCode,
        crossbar: Mapping[str, int],
        l2: Mapping[str, Any],
        dram: Mapping[str, int],
        clock: int,
        ideal: int,
        log: bool,
        policies: Mapping[Kind, Settings],
    ) -> None: ...
    def take_lines(self, previous: Machine) -> None: ...
    def begin_block(self, sm: int, slot: int, block: int) -> None: ...
    def start_block(self, sm: int, slot: int) -> None: ...
    def decline_block(self, sm: int, slot: int) -> None: ...
    def run(self, cycles: int) -> int: ...
    def sm_counters(self, i: int) -> dict[str, Any]: ...
