FAIL_NAMES: tuple[str, ...]
SLICE_FAIL_NAMES: tuple[str, ...]

class Network:
    now: int
