"""Real CUDA kernels as traces, without a GPU: CUDA C++ to PTX (extra ``cuda``), PTX to what each warp asks of memory.

>>> from tracegen import cuda
>>> double = ".version 8.0 .target sm_80 .address_size 64 .visible .entry double(.param .u64 x) {"
>>> double += " .reg .b64 %rd<3>; .reg .b32 %r<3>; ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x;"
>>> double += " mad.wide.u32 %rd2, %r1, 4, %rd1; ld.global.u32 %r2, [%rd2]; add.u32 %r2, %r2, %r2;"
>>> double += " st.global.u32 [%rd2], %r2; ret; }"
>>> len(cuda.trace(double, "double", grid=2, block=64, args=["int[64]"]))
8
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rdmodel.errors import ConfigError
from tracegen.cuda.arguments import parse_argument, parse_arguments
from tracegen.cuda.compiler import CompileError, Defines, compile
from tracegen.cuda.launchfile import read_launch_file
from tracegen.cuda.session import MAX_INSTRUCTIONS, Arguments, Call, Session, Shape
from tracegen.ptx.emulator.machine import EmulatedTrace

__all__ = ["CompileError", "EmulatedTrace", "compile", "launches", "parse_argument", "parse_arguments", "trace"]


def trace(
    source: str | Path,
    kernel: str | None,
    grid: Shape,
    block: Shape,
    args: Arguments,
    *,
    shared: int = 0,
    check: bool = False,
    blocks: Sequence[int] | None = None,
    defines: Defines = (),
    includes: Sequence[str | Path] = (),
    options: Sequence[str] = (),
    architecture: str | None = None,
    compiler: str = "auto",
    base: int | None = None,
    max_instructions: int = MAX_INSTRUCTIONS,
) -> EmulatedTrace:
    """Return the trace of a kernel in a ``.cu`` or ``.ptx`` file, or in a string of CUDA C++ or PTX.

    `kernel` is its name in the source (``scale<float>`` for a template; None: the only one), `grid` and `block` as in
    the launch, `shared` the bytes of dynamic shared memory. `args` are the arguments in order, or by the names of the
    parameters: NumPy arrays for pointers (lying in memory in that order, from `base` on), numbers, or texts as on the
    command line (``"float[1024]:random:1"``; see `tracegen.cuda.arguments`). With `check`, all blocks are executed and
    the arrays hold the results; otherwise arrays do not change. `blocks` are the ids of the blocks that the trace holds
    (None: all). `defines`, `includes`, `options`, `architecture` and `compiler` as in `compile`. A block that executes
    more than `max_instructions` warp instructions is an error.

    Raises `CompileError`, `ConfigError` for a kernel or an argument that does not fit, `LaunchError` for a shape that
    cannot be launched, and `TraceError`, when a block is executed, for an access outside every array and for what the
    emulator cannot do; the message names the place.
    """
    session = Session(
        source,
        kernels=[kernel] if kernel else [],
        defines=defines,
        includes=includes,
        options=options,
        architecture=architecture,
        compiler=compiler,
        base=base,
    )
    call = session.call(kernel, grid, block, args, shared=shared, max_instructions=max_instructions)
    made = session.trace(call, blocks)
    if check:
        session.execute(call)
    return made


def launches(
    path: str | Path, *, base: int | None = None, max_instructions: int = MAX_INSTRUCTIONS
) -> Iterator[EmulatedTrace]:
    """Yield the trace of every launch in a launch file (`tracegen.cuda.launchfile`), in order.

    Each launch finds the arrays as the launches before it have left them; a launch is executed in full only if what a
    later one asks of memory depends on data. Raises what `trace` and `read_launch_file` raise, for all launches before
    the first is yielded.
    """
    file = read_launch_file(path)
    kernels = [plan.kernel for plan in file.launches if plan.kernel]
    session = Session(file.source, kernels=kernels, defines=file.defines, includes=file.includes, base=base)
    calls = []
    used: set[str] = set()
    for plan in file.launches:
        args, taken = file.arguments(plan, session.parameters(session.find(plan.kernel)))
        used |= taken
        calls.append(
            session.call(
                plan.kernel, plan.grid, plan.block, args, shared=plan.shared, max_instructions=max_instructions
            )
        )
    unused = [name for name, value in file.args.items() if name not in used and not isinstance(value, int)]
    if unused:
        raise ConfigError(f"{path}: args: {unused[0]}: no launch has a parameter of that name")
    return _in_order(session, calls)


def _in_order(session: Session, calls: Sequence[Call]) -> Iterator[EmulatedTrace]:
    dependent = [session.depends_on_data(call) for call in calls]
    for at, call in enumerate(calls):
        yield session.trace(call)
        if any(dependent[at + 1 :]):
            session.execute(call)
