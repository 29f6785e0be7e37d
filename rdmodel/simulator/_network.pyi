from typing import Any

FAIL_NAMES: tuple[str, ...]
SLICE_FAIL_NAMES: tuple[str, ...]

class Network:
    now: int

    def slice_counters(self, i: int) -> dict[str, Any]: ...
    def channel_counters(self, i: int) -> dict[str, Any]: ...
    def events(self) -> list[tuple[int, ...]]: ...
