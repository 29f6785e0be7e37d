"""Assemble a CUDA program with NVRTC, which contains the assembler, where no assembler is installed by itself."""

from __future__ import annotations

from base64 import b64decode
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

    def assemble(self, architecture: int) -> tuple[str, bytes]:
        """Return what the assembler says of the kernels, as ``ptxas -v`` does, and the code; empty if it makes none."""
        library = nvrtc.load_nvrtc()
        if library is None:
            return "", b""
        options = [*self.options, nvrtc.ASSEMBLER_MESSAGES]
        result, _ = self.program.compile(library, f"sm_{architecture}", options)
        return ("", b"") if result.ptx is None else (result.log, b64decode(result.code))
