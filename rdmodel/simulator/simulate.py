"""Simulate kernel launches on the event-driven machine of docs/machine.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rdmodel import presets
from rdmodel.common.checks import MAX_DRAM_BANKS, MAX_L2_SLICES, check_flag, check_int
from rdmodel.common.memory import require_room
from rdmodel.common.progress import Progress
from rdmodel.errors import ConfigError
from rdmodel.execution.memory_need import MACHINE_SET_BYTES
from rdmodel.gpu.carveout import fit_to_launch
from rdmodel.gpu.config import GPU
from rdmodel.results.simulation import Simulation
from rdmodel.simulator.launch_sequence import run_launches
from rdmodel.simulator.machine_run import Observer, Request
from rdmodel.simulator.options import SimulationOptions, configure
from rdmodel.trace import Trace
from rdmodel.trace.check import check_trace
from rdmodel.trace.coalescing import SECTOR


def simulate(
    trace: Trace,
    gpu: str | GPU = presets.DEFAULT_GPU,
    *,
    seed: int = 0,
    check: bool = False,
    progress: Progress | None = None,
    observe: Observer | None = None,
    sectors: bool = False,
    **options: Any,
) -> Simulation:
    """Simulate a kernel launch: SMs with schedulers and L1s, crossbar, L2 slices and DRAM channels.

    With ``swl:best`` among the policies, the kernel runs under every limit up to the warps that a scheduler can have.
    The result is the run with the highest IPC, with fewer warps if several are as fast; its `seconds` are those of all
    runs. `observe` then sees one more run, with the best limit. With ``pcal``, the best limit becomes its `tokens`, and
    the result is one more run with these.

    Time is O(transactions + instructions), memory O(distinct lines x SMs + resident warps).

    Parameters
    ----------
    trace : Trace
        The kernel launch.
    gpu : str or GPU
        Name of a preset, path of a ``.toml`` file, or a `GPU`.
    seed : int
        Recorded in the result, and without effect: the machine draws no random numbers.
    check : bool
        Verify the invariants of the machine every 64 cycles in which something happens (slower).
    progress : callable, optional
        Called with the number of blocks begun and the number of blocks in all.
    observe : callable, optional
        Called with arrays of load transactions; see `rdmodel.simulator.machine_run.Observer`.
    sectors : bool
        Give `observe` the 32-byte sectors of each transaction instead of its lanes; the lines must have 32 to 1024
        bytes.
    **options
        Fields of `SimulationOptions`. `policies` may also hold an index function, alone or in a combination; it
        replaces that of the L1.

    Returns
    -------
    Simulation
        The counters of all parts of the machine.

    Raises
    ------
    ConfigError
        If an argument, an option or the GPU is not valid.
    LaunchError
        If no block of the launch fits on an SM.
    TraceError
        If the trace cannot be read.
    SimulationError
        If the run cannot go on or breaks an invariant.
    """
    check_trace(trace)
    check_flag("sectors", sectors)
    request = _check_request(trace, gpu, seed, check, options)
    if sectors:
        check_sectors(request.gpu)
    (result,) = run_launches([replace(request, sectors=sectors)], progress, observe)
    return result


def simulate_launches(
    traces: Sequence[Trace],
    gpu: str | GPU = presets.DEFAULT_GPU,
    *,
    seed: int = 0,
    check: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> tuple[Simulation, ...]:
    """Simulate launches one after another on one machine, whose L2 keeps its lines from launch to launch.

    A launch begins when no message of the one before is under way, with an empty L1 (docs/machine.md, Several
    launches). An address must mean the same data in all launches, as in those of one program. Policies start anew, but
    for a limit that ``dwt-cs`` found in an earlier launch of a kernel of this name. With ``swl:best``, all launches run
    under every limit, and the results are those of the limit with the highest IPC of all launches together; ``pcal``
    takes that limit as its `tokens`. An observer sees one launch only: see `simulate`.

    Time is O(transactions + instructions), memory O(distinct lines x SMs + resident warps).

    Parameters
    ----------
    traces : sequence of Trace
        The launches, in order.
    gpu : str or GPU
        Name of a preset, path of a ``.toml`` file, or a `GPU`.
    seed : int
        Recorded in the results, and without effect.
    check : bool
        Verify the invariants of the machine every 64 cycles in which something happens (slower).
    progress : callable, optional
        Called with the number of blocks begun and the number of blocks in all, of all launches.
    **options
        Fields of `SimulationOptions`, for every launch. With an ideal `memory`, which has no L2, launches share only
        what policies find.

    Returns
    -------
    tuple of Simulation
        The counters of each launch; its cycles begin with the launch, and ``config["earlier_launches"]`` is the number
        of launches before it, if there are any.

    Raises
    ------
    ConfigError, LaunchError, TraceError, SimulationError
        As `simulate` does; also if there is no launch.
    """
    if isinstance(traces, Trace | str | bytes) or not isinstance(traces, Sequence) or not traces:
        raise ConfigError(f"traces={traces!r:.60}: must be a sequence of at least one trace")
    requests = []
    for number, trace in enumerate(traces):
        check_trace(trace, f"traces[{number}]")
        requests.append(replace(_check_request(trace, gpu, seed, check, options), earlier=number))
    return tuple(run_launches(requests, progress, None))


def _check_request(trace: Trace, gpu: str | GPU, seed: int, check: bool, options: Mapping[str, Any]) -> Request:
    """Check the arguments of a launch, and fit the GPU's L1 to it."""
    check_int("seed", seed, 0)
    check_flag("check", check)
    chosen, resolved = configure(presets.gpu(gpu), options)
    chosen = fit_to_launch(chosen, trace.launch)
    _check_sizes(chosen, resolved)
    return Request(trace=trace, gpu=chosen, options=resolved, seed=seed, check=check)


def _check_sizes(gpu: GPU, options: SimulationOptions) -> None:
    """Raise `ConfigError` for more parts than any machine has, or caches beyond the memory that is left."""
    check_int("l2.slices", gpu.l2.slices, 1, MAX_L2_SLICES)
    check_int("dram.banks", gpu.dram.banks, 1, MAX_DRAM_BANKS)
    assert options.sms is not None
    sets = options.sms * gpu.l1.sets + gpu.l2.slices * gpu.l2.sets(gpu.l1.line)
    require_room(sets * MACHINE_SET_BYTES, f"l1, l2: {sets} sets on all SMs and slices", "use smaller caches")


def check_sectors(gpu: GPU) -> None:
    """Raise `ConfigError` unless the lines of the L1 consist of 1 to 32 sectors."""
    if not SECTOR <= gpu.l1.line <= 32 * SECTOR:
        raise ConfigError(f"l1.line={gpu.l1.line}: sectors of {SECTOR} bytes need lines of 32 to 1024 bytes")
