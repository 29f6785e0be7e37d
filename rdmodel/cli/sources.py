"""Open the traces that a kernel name, a suite or a file stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tracegen
from rdmodel.cli.kernel_parameters import AFFINE_SUFFIX, applicable_pairs, kernel_parameters, refuse_repeated
from rdmodel.cli.memory_limit import UNBOUNDED, Budget
from rdmodel.cli.option_values import SourceOptions, lowest_capability
from rdmodel.cli.output import print_note
from rdmodel.cli.register_notes import print_registers
from rdmodel.errors import ConfigError, TraceError, suggestion, unknown
from rdmodel.gpu.config import GPU
from rdmodel.gpu.register_use import with_registers
from rdmodel.model.dealing import modelled_blocks
from rdmodel.model.options import Options
from rdmodel.trace import Trace
from rdmodel.trace.part import PartialTrace
from tracegen import formats
from tracegen.formats import LaunchEntry
from tracegen.formats.names import COMPRESSED_EXTENSIONS, EXTENSIONS
from tracegen.generated import GeneratedTrace
from tracegen.kernel_library.registry import kernel_names, spec_of
from tracegen.kernel_library.suites import SUITES
from tracegen.recording.files import is_recording

PROGRAM_SUFFIXES = (".cu", ".cuh", ".ptx")
"""Suffixes of files with kernels to run, as opposed to traces."""

LAUNCH_SUFFIX = ".toml"
"""Suffix of files with launches of CUDA programs."""

KERNEL_OPTIONS = ["param", "base", "unroll"]
COMPILE_OPTIONS = ["define", "include", "architecture", "compiler", "option"]
PROGRAM_OPTIONS = ["kernel", "grid", "arg", "shared", "cluster", *COMPILE_OPTIONS]
SUITE_REFUSES = ["param", "block", "launch", "input_format", *PROGRAM_OPTIONS]
"""Fields of `SourceOptions`: those of kernels, of compilers, of CUDA programs, and those that a suite does not take."""


def open_sources(source: str, options: SourceOptions, budget: Budget = UNBOUNDED) -> Iterator[Trace]:
    """Yield the traces of a kernel name or a file, which may hold several launches; `budget` bounds the reading."""
    for trace in _open(source, options, budget):
        if options.registers is not None:
            trace, use = with_registers(trace, options.target, options.registers)
            print_registers(trace.launch.kernel, use)
        yield trace


def _open(source: str, options: SourceOptions, budget: Budget) -> Iterator[Trace]:
    path = Path(source)
    if source == formats.STDIN_NAME or (options.input_format is not None and path.exists()):
        yield _read_trace(source, options, budget)
    elif path.suffix == LAUNCH_SUFFIX and path.exists():
        yield from _run_launch_file(source, options)
    elif path.suffix in PROGRAM_SUFFIXES and path.exists():
        yield _run_program(source, options)
    elif path.suffix == AFFINE_SUFFIX and path.is_file():
        yield _load_affine(source, options)
    elif is_recording(path):
        yield from _replay(source, options)
    elif path.exists():
        yield _read_trace(source, options, budget)
    elif "/" in source or path.suffix in _suffixes():
        raise TraceError(f"{source}: no such file")
    else:
        _check_name(source)
        refuse(source, "a kernel that comes with rdmodel", options, ["launch", "input_format", *PROGRAM_OPTIONS])
        yield _make_kernel(source, options)


def open_all(sources: Iterable[str], options: SourceOptions) -> Iterator[Trace]:
    """Yield the traces of several kernel names or files."""
    for source in sources:
        yield from open_sources(source, options)


def open_suite(suite: str, names: Sequence[str], options: SourceOptions) -> list[Trace]:
    """Return the traces of a suite at its own sizes: of the kernels in `names`, or of all if there are none."""
    kernels = SUITES[suite]
    refuse(f"--suite {suite}", "a suite, which has its own sizes", options, SUITE_REFUSES)
    for name in names:
        if name not in kernels:
            raise ConfigError(unknown(f"kernel of the suite {suite}:", name, kernels))
    sizes: Mapping[str, Mapping[str, Any]] = {name: kernels[name] for name in names or kernels}
    return [tracegen.kernel(name, base=options.base, unroll=options.unroll, **sizes[name]) for name in sizes]


def open_source(source: str, options: SourceOptions, budget: Budget = UNBOUNDED) -> Trace:
    """Return the only trace of a kernel name or a file; raise `ConfigError` if there are several."""
    if is_recording(Path(source)) and options.launch is None:
        _refuse_several(source, options)
    traces = list(open_sources(source, options, budget))
    if len(traces) > 1:
        raise ConfigError(f"{source}: holds {len(traces)} launches; --launch N picks one")
    return traces[0]


def is_recorded(trace: Trace) -> bool:
    """Tell whether a trace was read from a file, as opposed to one that makes its blocks on demand."""
    return isinstance(trace, formats.RecordedTrace) or type(trace) is Trace


def cut_to_modelled(trace: Trace, gpu: GPU, extent: Mapping[str, Any]) -> Trace:
    """Return a trace that makes only the blocks that `predict` models on `gpu` with the options in `extent`."""
    blocks = modelled_blocks(trace.launch, Options(**extent).resolve(gpu))
    if isinstance(trace, GeneratedTrace):
        return trace.cut(blocks)
    if is_recorded(trace):
        return PartialTrace(trace, blocks)
    from tracegen.cuda import EmulatedTrace

    assert isinstance(trace, EmulatedTrace)
    cut = type(trace)(trace.launched, blocks)
    cut.launch = trace.launch
    return cut


def open_launches(source: str, options: SourceOptions) -> tuple[str, tuple[LaunchEntry, ...]]:
    """Return the format of a trace file of another tool, and the launches in it."""
    if not Path(source).exists():
        raise TraceError(f"{source}: no such file; --launches lists the launches of a file")
    if is_recording(Path(source)):
        from tracegen.recording.replay import list_launches

        return "recording", list_launches(source, options.kernel)
    form = _format(source, options)
    launches = formats.launches(source, format=form.name, kernel=options.kernel, block=options.block)
    return form.name, launches


def refuse(source: str, description: str, options: SourceOptions, names: Iterable[str]) -> None:
    """Raise `ConfigError` if one of the options in `names` is given, which a source of this kind does not take."""
    for name in names:
        if getattr(options, name) not in (None, ()):
            raise ConfigError(f"--{name.replace('_', '-')}: {source} is {description}; it takes no such option")


# ---- kernels


def _check_name(source: str) -> None:
    """Raise `ConfigError` unless `source` names a kernel."""
    known = kernel_names()
    if source not in known and not suggestion(source, known):
        raise ConfigError(f"{source}: is neither a file nor a kernel of rdmodel (rdmodel kernels lists them)")
    spec_of(source)


def _make_kernel(name: str, options: SourceOptions) -> Trace:
    """Return the trace of a kernel that comes with rdmodel."""
    spec = spec_of(name)
    pairs = applicable_pairs(name, {*spec.sizes, *spec.inputs}, options.param, options.sources)
    params: dict[str, Any] = kernel_parameters(pairs, spec.sizes)
    return tracegen.kernel(name, block=options.block, base=options.base, unroll=options.unroll, **params)


def _load_affine(source: str, options: SourceOptions) -> Trace:
    """Return the trace of an affine kernel in a JSON file."""
    refuse(source, "an affine kernel", options, ["launch", *PROGRAM_OPTIONS])
    kernel = tracegen.load_affine(Path(source))
    pairs = applicable_pairs(source, kernel.parameters, options.param, options.sources)
    params: dict[str, Any] = kernel_parameters(pairs, kernel.parameters)
    return tracegen.AffineTrace(kernel, params, block=options.block, base=options.base, unroll=options.unroll)


def _run_program(source: str, options: SourceOptions) -> Trace:
    """Return the trace of one launch of a kernel in a CUDA or PTX file."""
    from tracegen import cuda

    refuse(source, "a CUDA program", options, ["param", "launch"])
    if options.grid is None:
        raise ConfigError(f"--grid: is missing; {source} needs --grid X,Y,Z and --block X,Y,Z")
    trace = cuda.trace(
        Path(source),
        options.kernel,
        options.grid,
        options.block,
        dict(refuse_repeated("--arg", options.arg)),
        shared=options.shared or 0,
        cluster=options.cluster,
        defines=options.define,
        includes=options.include,
        options=options.option,
        architecture=options.architecture,
        capability=lowest_capability(options.gpus),
        compiler=options.compiler or "auto",
        base=options.base,
        max_instructions=options.max_instructions,
        unroll=options.unroll,
    )
    _report_notes(trace.notes)
    return trace


def _run_launch_file(source: str, options: SourceOptions) -> Iterator[Trace]:
    """Yield the traces of the launches in a launch file, or of the one that ``--launch`` picks."""
    from tracegen import cuda

    refuse(source, "a launch file, which has its own sizes", options, ["param", "block", *PROGRAM_OPTIONS])
    number, told = 0, set[str]()
    traces = cuda.launches(
        source,
        base=options.base,
        max_instructions=options.max_instructions,
        unroll=options.unroll,
        capability=lowest_capability(options.gpus),
    )
    for number, trace in enumerate(traces, 1):
        if options.launch in (None, number):
            _report_notes(note for note in trace.notes if note not in told)
            told |= {*trace.notes}
            yield trace
    if options.launch is not None and not 1 <= options.launch <= number:
        raise ConfigError(f"launch={options.launch}: {source} holds launches 1 to {number}")


def _replay(source: str, options: SourceOptions) -> Iterator[Trace]:
    """Yield the traces of the launches of a recording, or of those that ``--kernel`` or ``--launch`` picks."""
    from tracegen.recording import replay

    names = ("param", "base", "block", "grid", "arg", "shared", "cluster", *COMPILE_OPTIONS)
    refuse(source, "a recording, which has its own launches", options, names)
    if options.launch is not None and options.kernel is not None:
        raise ConfigError("--launch: cannot be combined with --kernel; give one of them")
    yield from replay.launches(
        source,
        options.kernel,
        number=options.launch,
        max_instructions=options.max_instructions,
        unroll=options.unroll,
        lenient=options.lenient,
    )


def _refuse_several(source: str, options: SourceOptions) -> None:
    """Raise `ConfigError` if a recording has several launches that the options pick."""
    _, entries = open_launches(source, options)
    if len(entries) > 1:
        raise ConfigError(
            f"{source}: holds {len(entries)} launches; --launch N or --kernel NAME picks one (rdmodel info {source} "
            "lists them)"
        )


# ---- trace files


def _read_trace(source: str, options: SourceOptions, budget: Budget) -> Trace:
    """Return the trace in a file or folder."""
    form = _format(source, options)
    names = [*KERNEL_OPTIONS, "block", "launch", *PROGRAM_OPTIONS]
    refuse(source, "a recorded trace", options, [name for name in names if name not in form.takes])
    budget.admit_reading(Path(source), form.memory)
    chosen = {name: getattr(options, name) for name in ("kernel", "block", "grid") if name in form.takes}
    trace = formats.read(source, format=form.name, lenient=options.lenient, **chosen)
    if isinstance(trace, formats.RecordedTrace):
        _report_notes(trace.notes)
    _report_skipped(trace)
    return trace


def _format(source: str, options: SourceOptions) -> formats.Format:
    chosen = options.input_format
    return formats.recognise(source) if chosen is None else formats.FORMATS[chosen]


def _suffixes() -> set[str]:
    """Return the suffixes that mark a name as that of a file."""
    return {*EXTENSIONS.values(), *COMPRESSED_EXTENSIONS, *PROGRAM_SUFFIXES, LAUNCH_SUFFIX, AFFINE_SUFFIX}


def _report_notes(notes: Iterable[str]) -> None:
    """Report on stderr how the trace of a program may differ from that on a GPU, and what a reader has ignored."""
    for note in notes:
        print_note(note)


def _report_skipped(trace: Trace) -> None:
    """Report on stderr what a lenient reading has skipped."""
    skipped = trace.skipped if isinstance(trace, formats.RecordedTrace) else formats.Skipped()
    for example in skipped.examples:
        print_note(f"skipped: {example}")
    if skipped.lines:
        print_note(f"bad lines skipped: {skipped.lines:,}")
    if skipped.blocks:
        print_note(f"blocks without records (assumed to access no memory): {skipped.blocks:,}")
    if skipped.warps:
        print_note(f"warps without records (assumed to access no memory): {skipped.warps:,}")
    if skipped.lanes:
        print_note(f"lane accesses of threads that no block has, left out: {skipped.lanes:,}")
