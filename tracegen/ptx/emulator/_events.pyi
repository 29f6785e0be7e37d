import numpy as np
from numpy.typing import NDArray

FIELDS: tuple[str, ...]

class Events:
    entries: int
    def restart(self) -> None: ...
    def table(self) -> NDArray[np.int64]: ...
