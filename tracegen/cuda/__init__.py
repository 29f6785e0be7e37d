"""Trace CUDA kernels without a GPU: compile CUDA C++ to PTX (extra ``cuda``) and execute the PTX.

>>> from tracegen import cuda
>>> double = ".version 8.0 .target sm_80 .address_size 64 .visible .entry double(.param .u64 x) {"
>>> double += " .reg .b64 %rd<3>; .reg .b32 %r<3>; ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x;"
>>> double += " mad.wide.u32 %rd2, %r1, 4, %rd1; ld.global.u32 %r2, [%rd2]; add.u32 %r2, %r2, %r2;"
>>> double += " st.global.u32 [%rd2], %r2; ret; }"
>>> len(cuda.trace(double, "double", grid=2, block=64, args=["int[64]"]))
8
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rdmodel.errors import ConfigError
from tracegen.cuda.arguments import contained_arrays, parse_argument, parse_arguments
from tracegen.cuda.compiler import CompileError, Defines, compile
from tracegen.cuda.launchfile import read_launch_file
from tracegen.cuda.session import MAX_INSTRUCTIONS, Arguments, LaunchShape, PreparedLaunch, Session
from tracegen.cuda.tiled_program import TiledProgram
from tracegen.cuda.variables import merge_variables, split_symbols
from tracegen.ptx.emulator.emulated_trace import EmulatedTrace
from tracegen.unrolling import DEFAULT_UNROLL, Unroll

__all__ = [
    "CompileError",
    "EmulatedTrace",
    "TiledProgram",
    "compile",
    "launches",
    "parse_argument",
    "parse_arguments",
    "trace",
]


def trace(
    source: str | Path,
    kernel: str | None,
    grid: LaunchShape,
    block: LaunchShape | None,
    args: Arguments,
    *,
    shared: int = 0,
    cluster: LaunchShape | None = None,
    check: bool = False,
    blocks: Sequence[int] | None = None,
    defines: Defines = (),
    includes: Sequence[str | Path] = (),
    options: Sequence[str] = (),
    architecture: str | None = None,
    compiler: str = "auto",
    base: int | None = None,
    variables: Mapping[str, Any] | None = None,
    max_instructions: int = MAX_INSTRUCTIONS,
    unroll: Unroll = DEFAULT_UNROLL,
    capability: tuple[int, int] | None = None,
) -> EmulatedTrace:
    """Trace a launch of a kernel in a ``.cu`` or ``.ptx`` file, or in a string of CUDA C++ or PTX.

    Parameters
    ----------
    source
        A file, or a string that holds code.
    kernel
        Name of the kernel in the source, ``scale<float>`` for a template (None: the only kernel).
    grid, block
        Blocks of the grid and threads of a block: one to three numbers (x, y, z). `block` may be None if the PTX
        requires a block (``.reqntid``).
    args
        Arguments in order, or by the names of the parameters: NumPy arrays for pointers, numbers, or texts as on the
        command line (``"float[1024]:random:1"``, see `tracegen.cuda.arguments`). The argument ``symbol:NAME`` is the
        variable NAME, as in `variables`.
    shared
        Bytes of dynamic shared memory.
    cluster
        Blocks of a cluster: one to three numbers (x, y, z). If it is None, it is that of the kernel
        (``__cluster_dims__``), or else of one block.
    check
        Whether all blocks are executed now. The arrays then hold the results; otherwise they do not change.
    blocks
        Ids of the blocks in the trace (None: all).
    defines, includes, options, architecture, compiler
        As in `compile`.
    base
        Address of the first array; the others follow in order (None: 2^28).
    variables
        Contents of ``__constant__`` and ``__device__`` variables by name, as numbers, arrays or texts. Other variables
        have their initial values, or zeros.
    max_instructions
        Maximum number of warp instructions that a block may execute.
    unroll
        How often the assembler unrolls an innermost loop that the PTX leaves rolled. The loads of an unrolled body, as
        of any basic block, issue together, and the next block waits for those that this one computes with. ``"none"``:
        blocks do not wait for each other.
    capability
        Compute capability of the GPU, such as (8, 0), for which the source is compiled if neither `architecture` nor
        `options` name an architecture.

    Returns
    -------
    EmulatedTrace
        A trace that executes each block on demand. Its `notes` tell which parts of the kernel are executed differently
        than on a GPU, such as addresses that depend on constant memory that was not filled.

    Raises
    ------
    CompileError
        If the compiler rejects the source.
    ConfigError
        If the kernel is unknown, an argument does not fit its parameter, or `unroll` is invalid.
    LaunchError
        If the shape cannot be launched.
    TraceError
        If a block accesses memory outside every array, or reaches an instruction that cannot be executed. It is
        raised when the block is executed, and names the PTX line.
    """
    args, symbols = split_symbols(args) if isinstance(args, Mapping) else (args, {})
    session = Session(
        source,
        kernels=[kernel] if kernel else [],
        defines=defines,
        includes=includes,
        options=options,
        architecture=architecture,
        capability=capability,
        compiler=compiler,
        base=base,
        variables=merge_variables(variables or {}, symbols),
    )
    launch = session.prepare(
        kernel, grid, block, args, shared=shared, cluster=cluster, max_instructions=max_instructions, unroll=unroll
    )
    result = session.trace(launch, blocks)
    if check:
        session.execute(launch)
    return result


def launches(
    path: str | Path,
    *,
    base: int | None = None,
    max_instructions: int = MAX_INSTRUCTIONS,
    unroll: Unroll = None,
    capability: tuple[int, int] | None = None,
) -> Iterator[EmulatedTrace]:
    """Yield the trace of every launch in a launch file, in order.

    Each launch works on the arrays and variables that the launches before it have left. A launch is executed in full
    only if the accesses of a later launch depend on data. All launches are checked before the first trace is yielded.

    Parameters
    ----------
    path
        A launch file, see `tracegen.cuda.launchfile`.
    base
        Address of the first array (None: 2^28).
    max_instructions
        Maximum number of warp instructions that a block may execute.
    unroll
        As in `trace`, for the launches that do not say it themselves.
    capability
        As in `trace`, for a file that names no architecture.

    Yields
    ------
    EmulatedTrace
        The trace of one launch, which executes each block on demand.

    Raises
    ------
    CompileError, ConfigError, LaunchError, TraceError
        As in `trace`; `ConfigError` also for an invalid field of the file.
    """
    file = read_launch_file(path)
    kernels = [plan.kernel for plan in file.launches if plan.kernel]
    session = Session(
        file.source,
        kernels=kernels,
        defines=file.defines,
        includes=file.includes,
        options=file.options,
        architecture=file.architecture,
        capability=capability,
        base=base,
        variables=file.variables,
    )
    prepared = []
    used: set[str] = set()
    for plan in file.launches:
        args, shared_names = file.arguments(plan, session.parameters(session.find_kernel(plan.kernel)))
        used |= shared_names
        prepared.append(
            session.prepare(
                plan.kernel,
                plan.grid,
                plan.block,
                args,
                shared=plan.shared,
                cluster=plan.cluster,
                max_instructions=max_instructions,
                unroll=unroll if plan.unroll is None else plan.unroll,
                variables=plan.variables,
            )
        )
    in_launches = [value for plan in file.launches for value in plan.args.values()]
    variables = [*file.variables.values(), *(value for plan in file.launches for value in plan.variables.values())]
    contained = contained_arrays([*file.args.values(), *in_launches, *variables])
    referenced = {id(value) for value in (*in_launches, *contained)}
    unused = [
        name
        for name, value in file.args.items()
        if name not in used and not isinstance(value, int) and id(value) not in referenced
    ]
    if unused:
        raise ConfigError(f"{path}: args: {unused[0]}: must be the name of a parameter of a launch")
    return _trace_in_order(session, prepared)


def _trace_in_order(session: Session, prepared: Sequence[PreparedLaunch]) -> Iterator[EmulatedTrace]:
    dependent = [session.depends_on_data(launch) for launch in prepared]
    for at, launch in enumerate(prepared):
        session.fill(launch.contents)
        yield session.trace(launch)
        if any(dependent[at + 1 :]):
            session.execute(launch)
