"""Names and files to values: the GPU that is meant, and the traces that a name or a file stands for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tracegen
from rdmodel import presets
from rdmodel.cli.arguments import extent_options, kernel_parameters, machine_assignments
from rdmodel.cli.memory_limit import UNBOUNDED, Budget, budget_of
from rdmodel.errors import ConfigError, TraceError, suggestion, unknown
from rdmodel.gpu.config import GPU
from rdmodel.gpu.overrides import override
from rdmodel.model.dealing import modelled_blocks
from rdmodel.model.options import Options
from rdmodel.trace import Trace
from tracegen import formats
from tracegen.formats import Listed
from tracegen.formats.compressed import COMPRESSED_EXTENSIONS
from tracegen.generated import GeneratedTrace
from tracegen.kernel_library.registry import REGISTRY, spec_of
from tracegen.kernel_library.suites import SUITES, TILED

PROGRAMS = (".cu", ".ptx")
"""Endings of files that hold kernels, not traces."""

LAUNCH_FILE = ".toml"
AFFINE_FILE = ".json"
KERNEL_OPTIONS = ["param", "base"]
COMPILE_OPTIONS = ["define", "include", "architecture", "compiler"]
PROGRAM_OPTIONS = ["kernel", "grid", "arg", "shared", *COMPILE_OPTIONS]
SUITE_REFUSES = ["param", "block", "launch", "input_format", *PROGRAM_OPTIONS]


def machine(arguments: argparse.Namespace) -> GPU:
    """Return the GPU that the arguments name, with all their changes."""
    gpu = presets.gpu(arguments.gpu)
    changes = machine_assignments(arguments)
    return override(gpu, changes) if changes else gpu


def open_sources(source: str, arguments: argparse.Namespace, budget: Budget = UNBOUNDED) -> Iterator[Trace]:
    """Yield the traces of a kernel's name or a file, which may hold several launches; reading it keeps to `budget`."""
    path = Path(source)
    if arguments.input_format is not None and path.exists():
        yield _recorded(source, arguments, budget)
    elif path.suffix == LAUNCH_FILE and path.exists():
        yield from _launch_file(source, arguments)
    elif path.suffix in PROGRAMS and path.exists():
        yield _of_program(source, arguments)
    elif path.suffix == AFFINE_FILE and path.is_file():
        yield _of_affine(source, arguments)
    elif path.exists():
        yield _recorded(source, arguments, budget)
    elif "/" in source or path.suffix in _suffixes():
        raise TraceError(f"{source}: no such file")
    else:
        _check_name(source)
        refuse(source, "a kernel that comes with rdmodel", arguments, ["launch", "input_format", *PROGRAM_OPTIONS])
        yield _of_name(source, arguments)


def open_suite(suite: str, names: Sequence[str], arguments: argparse.Namespace) -> list[Trace]:
    """Return the kernels of a suite at its sizes, or those of them that are named."""
    kernels = SUITES[suite]
    refuse(f"--suite {suite}", "a suite, which says the sizes itself", arguments, SUITE_REFUSES)
    for name in names:
        if name not in kernels:
            raise ConfigError(unknown(f"kernel of the suite {suite}:", name, kernels))
    sizes: Mapping[str, Mapping[str, Any]] = {name: kernels[name] for name in names or kernels}
    return [tracegen.kernel(name, base=arguments.base, **sizes[name]) for name in sizes]


def open_source(source: str, arguments: argparse.Namespace, budget: Budget = UNBOUNDED) -> Trace:
    """Return the one trace of a kernel's name or a file; raise `ConfigError` if there are several."""
    traces = list(open_sources(source, arguments, budget))
    if len(traces) > 1:
        raise ConfigError(f"{source}: holds {len(traces)} launches; --launch N picks one")
    return traces[0]


def open_modelled(source: str, arguments: argparse.Namespace, budget: Budget, everything: bool = False) -> Trace:
    """Return the trace of a file as it is, that of a kernel cut to the blocks that predict would model."""
    trace = open_source(source, arguments, budget)
    if everything or isinstance(trace, formats.RecordedTrace) or type(trace) is Trace:
        return trace
    options = Options(**extent_options(arguments)).resolve(machine(arguments))
    return _cut(trace, modelled_blocks(trace.launch, options))


def _cut(trace: Trace, blocks: Sequence[int]) -> Trace:
    """Return a trace that is made on demand with only some of its blocks."""
    if isinstance(trace, GeneratedTrace):
        return trace.cut(blocks)
    from tracegen.cuda import EmulatedTrace

    assert isinstance(trace, EmulatedTrace)
    cut = type(trace)(trace.launched, blocks)
    cut.launch = trace.launch
    return cut


def _check_name(source: str) -> None:
    """Raise `ConfigError` for what is neither a file nor a kernel's name."""
    known = [*REGISTRY, *TILED]
    if source not in known and not suggestion(source, known):
        raise ConfigError(f"{source}: no such file, nor a kernel that comes with rdmodel (rdmodel kernels lists them)")
    spec_of(source)


def _of_name(name: str, arguments: argparse.Namespace) -> Trace:
    """Return the trace of a kernel that comes with rdmodel."""
    params: dict[str, Any] = kernel_parameters(arguments.param, spec_of(name).sizes)
    return tracegen.kernel(name, block=arguments.block, base=arguments.base, **params)


def _of_affine(source: str, arguments: argparse.Namespace) -> Trace:
    """Return the trace of an affine kernel in a JSON file."""
    refuse(source, "an affine kernel", arguments, ["launch", *PROGRAM_OPTIONS])
    kernel = tracegen.load_affine(Path(source))
    params: dict[str, Any] = kernel_parameters(arguments.param, kernel.parameters)
    return tracegen.AffineTrace(kernel, params, block=arguments.block, base=arguments.base)


def open_launches(source: str, arguments: argparse.Namespace) -> tuple[str, tuple[Listed, ...]]:
    """Return the format of a file of another tool, and the launches that it holds."""
    if not Path(source).exists():
        raise TraceError(f"{source}: no such file; --launches lists what a file holds")
    form = _format(source, arguments)
    with budget_of(arguments):
        return form.name, formats.launches(source, format=form.name, kernel=arguments.kernel, block=arguments.block)


def _recorded(source: str, arguments: argparse.Namespace, budget: Budget) -> Trace:
    """Return the trace in a file or folder."""
    form = _format(source, arguments)
    options = [*KERNEL_OPTIONS, "block", "launch", *PROGRAM_OPTIONS]
    refuse(source, "a recorded trace", arguments, [option for option in options if option not in form.takes])
    budget.admit_reading(Path(source), form.memory)
    trace = formats.read(
        source, format=form.name, lenient=arguments.lenient, kernel=arguments.kernel, block=arguments.block
    )
    _tell_skipped(trace)
    return trace


def _format(source: str, arguments: argparse.Namespace) -> formats.Format:
    chosen = arguments.input_format
    return formats.recognise(source) if chosen is None else formats.FORMATS[chosen]


def _of_program(source: str, arguments: argparse.Namespace) -> Trace:
    """Return the trace of one launch of a kernel in a CUDA or PTX file."""
    from tracegen import cuda

    refuse(source, "a CUDA program", arguments, ["param", "launch"])
    for option in ("grid", "block"):
        if getattr(arguments, option) is None:
            raise ConfigError(f"--{option}: is missing; {source} needs --grid X,Y,Z and --block X,Y,Z")
    return cuda.trace(
        Path(source),
        arguments.kernel,
        arguments.grid,
        arguments.block,
        dict(arguments.arg),
        shared=arguments.shared or 0,
        defines=arguments.define,
        includes=arguments.include,
        architecture=arguments.architecture,
        compiler=arguments.compiler or "auto",
        base=arguments.base,
        max_instructions=arguments.max_instructions,
    )


def _launch_file(source: str, arguments: argparse.Namespace) -> Iterator[Trace]:
    """Yield the traces of the launches in a launch file, or of the one that is asked for."""
    from tracegen import cuda

    refuse(source, "a launch file, which says it itself", arguments, ["param", "block", *PROGRAM_OPTIONS])
    number = 0
    made = cuda.launches(source, base=arguments.base, max_instructions=arguments.max_instructions)
    for number, trace in enumerate(made, 1):
        if arguments.launch in (None, number):
            yield trace
    if arguments.launch is not None and not 1 <= arguments.launch <= number:
        raise ConfigError(f"launch={arguments.launch}: {source} holds launches 1 to {number}")


def refuse(source: str, what: str, arguments: argparse.Namespace, options: Sequence[str]) -> None:
    """Raise `ConfigError` for an option on the command line that a source of this kind has no use for."""
    for option in options:
        if getattr(arguments, option) not in (None, []):
            raise ConfigError(f"--{option.replace('_', '-')}: {source} is {what}; it takes no such option")


def _suffixes() -> set[str]:
    extensions = {form.extension for form in formats.FORMATS.values() if form.extension}
    return extensions | {*PROGRAMS, LAUNCH_FILE, AFFINE_FILE, *COMPRESSED_EXTENSIONS}


def _tell_skipped(trace: Trace) -> None:
    skipped = trace.skipped if isinstance(trace, formats.RecordedTrace) else formats.Skipped()
    for example in skipped.examples:
        print(f"rdmodel: skipped: {example}", file=sys.stderr)
    if skipped.lines:
        print(f"rdmodel: bad lines skipped: {skipped.lines:,}", file=sys.stderr)
    if skipped.blocks:
        print(f"rdmodel: blocks without records, taken to access nothing: {skipped.blocks:,}", file=sys.stderr)
