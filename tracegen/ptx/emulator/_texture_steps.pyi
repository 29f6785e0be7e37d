import numpy as np
from numpy.typing import NDArray

from tracegen.ptx.emulator._memory_steps import MemorySteps

class TextureSteps(MemorySteps):
    def bind_textures(self, table: NDArray[np.int64]) -> None: ...
