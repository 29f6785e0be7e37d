"""Compile CUDA C++ to PTX with NVRTC (extra ``cuda``) or an installed ``nvcc``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.nvcc_options import read_nvcc_options
from rdmodel.errors import ConfigError, TraceError, unknown
from tracegen.cuda import nvrtc
from tracegen.cuda.mangled_parameters import parameter_types
from tracegen.cuda.missing_headers import describe_missing, nearby_folders
from tracegen.cuda.names import find_kernel
from tracegen.cuda.nvcc import compile_with_nvcc, installed_nvcc
from tracegen.cuda.nvrtc_assembler import NvrtcAssembler
from tracegen.cuda.nvrtc_program import NvrtcProgram
from tracegen.cuda.signatures import Signature, find_launched_kernels, signatures
from tracegen.cuda.source import Source, project_sources, read_source
from tracegen.cuda.structures import Structure, structures, vector_types

_SIGNS_OF_A_NEWER_GPU = ("is undefined", "has no member", "no suitable conversion", "no suitable user-defined")
"""Parts of messages about what the headers of the compiler declare for some GPUs only."""

DEFAULT_ARCHITECTURE = 75
"""Default virtual architecture: the oldest of current compilers. A compiler without it uses its own oldest."""

COMPILERS = ("auto", "nvrtc", "nvcc")
"""Choices of `compiler`."""

Defines = Mapping[str, object] | Sequence[str]
"""Macros: names with values, or texts ``NAME=VALUE``."""


class CompileError(TraceError):
    """The compiler rejected the source; the message is its output, with escapes for unprintable characters."""

    verbatim = True


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A compiled program: its `ptx`, and the data to find kernels in it by their names in the source.

    `notes` are sentences about the compilation, such as the headers that were not found. `assembler` turns the program
    into machine code; None: it needs an assembler that is installed by itself.
    """

    ptx: str
    name: str
    lowered: Mapping[str, str]
    signatures: Sequence[Signature] = ()
    launched: Sequence[str] = ()
    notes: Sequence[str] = ()
    structures: Mapping[str, Structure] = field(default_factory=dict)
    assembler: NvrtcAssembler | None = None

    def find(self, kernels: Sequence[str], wanted: str | None) -> str:
        """Return the PTX name of the kernel `wanted`, a name in the source; raises `ConfigError` if there is none."""
        template = next((s for s in self.signatures if s.template and s.name == wanted), None)
        instances = [
            name for name in self.launched if name.partition("<")[0].rpartition("::")[2] == wanted and "<" in name
        ]
        if template and not any(_has_name(kernel, template.name) for kernel in kernels):
            example = " or ".join(instances) or f"{wanted}<float>"
            raise ConfigError(f"kernel {wanted!r} is a template: name it with template arguments, such as {example}")
        try:
            return find_kernel(
                kernels, wanted, lowered=self.lowered, hints=[s.name for s in self.signatures if s.template]
            )
        except ConfigError as error:
            raise ConfigError(f"{self.name}: {error}") from None

    def parameters(self, kernel: str, count: int) -> tuple[str | None, ...]:
        """Return the source names of the `count` parameters of a PTX kernel; None for an unknown name."""
        candidates = {s.parameters for s in self._signatures_of(kernel, count)}
        return candidates.pop() if len(candidates) == 1 else (None,) * count

    def parameter_types(self, kernel: str, count: int) -> tuple[str | None, ...]:
        """Return the C++ types of the `count` parameters of a PTX kernel; None for an unknown type.

        The types are those in the mangled name. A kernel that is ``extern "C"`` has those in the source.
        """
        mangled = parameter_types(kernel)
        if mangled is not None and len(mangled) == count:
            return tuple(mangled)
        candidates = {s.types for s in self._signatures_of(kernel, count)}
        return candidates.pop() if len(candidates) == 1 else (None,) * count

    def _signatures_of(self, kernel: str, count: int) -> list[Signature]:
        return [s for s in self.signatures if len(s.parameters) == count and _has_name(kernel, s.name)]


def compile(
    source: str | Path,
    *,
    defines: Defines = (),
    includes: Sequence[str | Path] = (),
    options: Sequence[str] = (),
    architecture: str | None = None,
    compiler: str = "auto",
) -> str:
    """Compile a CUDA file, or a string of CUDA C++, to PTX; host code is removed first.

    Parameters
    ----------
    source
        A file, or a string that holds code. PTX is returned unchanged.
    defines
        Macros: ``{"N": 512}`` or ``["N=512"]``.
    includes
        Folders for ``#include``.
    options
        Options of nvcc, such as ``-use_fast_math`` and ``-arch=sm_90``. Those that concern the host, files or later
        tools have no effect; unknown ones are passed on to the compiler.
    architecture
        Virtual architecture; default ``compute_75``.
    compiler
        ``nvrtc``, ``nvcc`` or ``auto``: NVRTC if it is installed, else nvcc.

    Returns
    -------
    str
        The PTX.

    Raises
    ------
    CompileError
        If the compiler rejects the source; the message is its log, with escapes for unprintable characters.
    ConfigError
        If there is no compiler.
    TraceError
        If a file cannot be read.
    """
    return compile_program(
        read_source(source),
        defines=defines,
        includes=includes,
        options=options,
        architecture=architecture,
        compiler=compiler,
    ).ptx


def compile_program(
    source: Source,
    *,
    defines: Defines = (),
    includes: Sequence[str | Path] = (),
    options: Sequence[str] = (),
    architecture: str | None = None,
    compiler: str = "auto",
    kernels: Sequence[str] = (),
    capability: tuple[int, int] | None = None,
) -> CompiledProgram:
    """Compile a source as `compile` does; `kernels` with template arguments are instantiated.

    If neither `architecture` nor `options` name an architecture, it is the newest one that NVRTC has up to the compute
    `capability`, such as (8, 6), or its oldest. nvcc then compiles for ``compute_75``.
    """
    if compiler not in COMPILERS:
        raise ConfigError(unknown("compiler", compiler, COMPILERS))
    if source.is_ptx:
        return CompiledProgram(source.text, source.name, {})
    folders = [part for folder in includes for part in _folders(folder)]
    macros = _macros(defines)
    project = project_sources(source, folders)
    instances = [kernel for kernel in dict.fromkeys(kernels) if "<" in kernel]
    library = nvrtc.load_nvrtc() if compiler != "nvcc" else None
    missing: Sequence[str] = ()
    notes: list[str] = []
    assembler: NvrtcAssembler | None = None
    asked = read_nvcc_options(options)
    if library is not None:
        chosen = architecture or _supported(asked.architecture, library)
        by_default = not chosen and (capability is None or asked.architecture is not None)
        newest = DEFAULT_ARCHITECTURE if by_default or capability is None else _number_of(capability)
        target = chosen or _newest_up_to(newest, library)
        if asked.dlcm:
            notes.append(f"-dlcm={asked.dlcm} is for the assembler; give it to the GPU: --dlcm {asked.dlcm}, l1.dlcm")
        program = NvrtcProgram(source, project, macros, folders, instances)
        result, missing = program.compile(library, target, asked.passed)
        nearby = nearby_folders(missing, source) if result.ptx is None else []
        if nearby:
            with_nearby = project_sources(source, [*folders, *nearby])
            second = NvrtcProgram(source, with_nearby, macros, [*folders, *nearby], instances)
            second_result, still_missing = second.compile(library, target, asked.passed)
            if second_result.ptx is not None:
                result, missing, project, program = second_result, still_missing, with_nearby, second
                notes.append(f"headers were found in {', '.join(map(_relative, nearby))}, as if given with -I")
        assembler = NvrtcAssembler(program, asked.passed)
    elif compiler == "nvcc" or (compiler == "auto" and installed_nvcc() is not None):
        chosen = architecture or asked.architecture
        by_default = not chosen
        target = chosen or f"compute_{DEFAULT_ARCHITECTURE}"
        result = compile_with_nvcc(source, macros, folders, options, target, instances)
    else:
        raise ConfigError(f"{source.name}: no CUDA compiler found; install one with: pip install 'rdmodel[cuda]'")
    if result.ptx is None:
        hints = [describe_missing(missing, failed=True)] if missing else []
        if by_default and any(sign in result.log for sign in _SIGNS_OF_A_NEWER_GPU):
            hints.append(f"compiled for {target}; -arch=sm_90, for example, compiles for a newer GPU")
        raise CompileError("\n".join([result.log, *hints]))
    texts = [source.text, *(part.text for part in project.values())]
    found_signatures = [s for text in texts for s in signatures(text)]
    # The compiler writes the absolute path of the file; messages use the name that the user gave.
    ptx = result.ptx.replace(f'"{Path.cwd() / source.name}"', f'"{source.name}"')
    if missing:
        notes.append(describe_missing(missing, failed=False))
    launched = find_launched_kernels(source.text)
    layouts = {**vector_types(), **structures(texts)}
    named = [f"{source.name}: {note}" for note in notes]
    return CompiledProgram(ptx, source.name, result.lowered, found_signatures, launched, named, layouts, assembler)


def _relative(folder: Path) -> str:
    return os.path.relpath(folder)


def _supported(target: str | None, library: nvrtc.Nvrtc) -> str | None:
    """Return an architecture that options ask for; None for one that the compiler does not have any more."""
    number = (target or "").removeprefix("compute_").rstrip("af")
    return target if number.isdecimal() and int(number) in library.architectures() else None


def _number_of(capability: tuple[int, int]) -> int:
    """Return the number in the name of an architecture: 86 for (8, 6)."""
    return 10 * capability[0] + capability[1]


def _newest_up_to(number: int, library: nvrtc.Nvrtc) -> str:
    """Return the newest virtual architecture up to a number, such as 80, that a compiler has, or else its oldest."""
    architectures = library.architectures()
    return f"compute_{max((each for each in architectures if each <= number), default=min(architectures))}"


def _has_name(kernel: str, name: str) -> bool:
    """Return whether a PTX kernel has this unqualified name in the source."""
    try:
        return find_kernel([kernel], name) == kernel
    except ConfigError:
        return False


def _folders(folder: str | Path) -> list[Path]:
    """Return a folder of headers and its part with NVIDIA's C++ libraries, which nvcc searches, too, if it exists."""
    path = Path(folder)
    if not path.is_dir():
        raise ConfigError(f"include {str(folder)!r}: must be an existing folder")
    return [part for part in (path, path / "cccl") if part.is_dir()]


def _macros(defines: Defines) -> list[str]:
    given = [f"{name}={value}" for name, value in defines.items()] if isinstance(defines, Mapping) else list(defines)
    for macro in given:
        if not re.fullmatch(r"[A-Za-z_]\w*(\([\w, ]*\))?(=.*)?", macro, re.DOTALL):
            raise ConfigError(f"define {macro!r}: must be NAME or NAME=VALUE")
    return given
