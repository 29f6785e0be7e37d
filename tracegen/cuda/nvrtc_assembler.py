"""Assemble a CUDA program with NVRTC, which contains the assembler, where no assembler is installed by itself."""

from __future__ import annotations

from collections.abc import Sequence

from rdmodel.common.late_dataclass import dataclass
from tracegen.cuda import nvrtc
from tracegen.cuda.nvrtc_program import NvrtcProgram


@dataclass(frozen=True, slots=True)
class NvrtcAssembler:
    """Compiles a program once more, with the same `options`, down to machine code."""

    program: NvrtcProgram
    options: Sequence[str]

    def architectures(self) -> frozenset[int]:
        """Return the architectures for which NVRTC makes code, such as 80."""
        library = nvrtc.load_nvrtc()
        return frozenset() if library is None else frozenset(library.architectures())

    def messages(self, architecture: int) -> str:
        """Return what the assembler says of the kernels, as ``ptxas -v`` does; empty if it makes no code."""
        library = nvrtc.load_nvrtc()
        if library is None:
            return ""
        options = [*self.options, "--ptxas-options=-v"]
        result, _ = self.program.compile(library, f"sm_{architecture}", options)
        return "" if result.ptx is None else result.log
