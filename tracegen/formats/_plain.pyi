import numpy as np
from numpy.typing import NDArray

from tracegen.formats.compressed import Text

class Scanner:
    def __init__(
        self,
        form: int,
        roles: NDArray[np.int8],
        naming: int,
        block_threads: int,
        threads: int,
        last_address: int,
        longest: int,
        widest: int,
        default_size: int,
    ) -> None: ...
    @property
    def lines(self) -> int: ...
    def leave_out(self, accesses: NDArray[np.int64], n: int) -> int: ...
    def scan(self, text: Text, at: int, accesses: NDArray[np.int64], n: int) -> tuple[int, int, int, int]: ...
