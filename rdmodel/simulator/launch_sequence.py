"""Run launches one after another on one L2, under the policies as they are or under the best limit on warps."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rdmodel.common.progress import Progress
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.policies import SWL, Policy, policy_of_kind, remember
from rdmodel.policies.combinations import combination
from rdmodel.results.simulation import Simulation
from rdmodel.simulator.machine_run import MachineRun, Observer, Request
from rdmodel.simulator.options import SimulationOptions
from rdmodel.trace import Trace


def run_launches(requests: Sequence[Request], progress: Progress | None, observe: Observer | None) -> list[Simulation]:
    """Simulate launches of one GPU under the same policies, each on the L2 that the one before left."""
    throttling = policy_of_kind(requests[0].options.policies, "throttling")
    if throttling is not None and throttling.needs_best_limit:
        return _run_with_best_limit(requests, throttling, progress, observe)
    return _run_once([dataclasses.replace(request, observe=observe) for request in requests], progress)


def max_scheduler_warps(trace: Trace, gpu: GPU, options: SimulationOptions) -> int:
    """Return the largest number of warps of a scheduler: the highest useful limit; `options` must be resolved."""
    assert options.sms is not None
    blocks = trace.launch.blocks if options.blocks is None else min(options.blocks, trace.launch.blocks)
    slots = min(compute_occupancy(trace.launch, gpu).blocks, -(-blocks // options.sms))
    return -(-slots * trace.launch.block_warps // gpu.core.schedulers)


def _run_once(
    requests: Sequence[Request], progress: Progress | None, finished: int = 0, runs: int = 1
) -> list[Simulation]:
    """Run all launches once, after `finished` of `runs` such runs; a kernel's later launches know what it learnt."""
    blocks = sum(request.blocks for request in requests)
    begun = finished * blocks
    learnt: dict[str, SimulationOptions] = {}
    results = []
    machine, constants = None, frozenset[int]()
    for request in requests:
        options = learnt.get(request.trace.launch.kernel, request.options)
        stage = _from(progress, begun, runs * blocks)
        run = MachineRun(dataclasses.replace(request, options=options, progress=stage), machine, constants)
        machine, constants = run.run(), run.constant_lines
        results.append(run.result())
        learnt[request.trace.launch.kernel] = _remember(options, results[-1])
        begun += request.blocks
        if progress is not None and len(requests) > 1:
            progress(begun, runs * blocks)  # a short launch has no pause
    return results


def _from(progress: Progress | None, begun: int, blocks: int) -> Progress | None:
    """Return the callback for a launch after `begun` of `blocks` blocks that `progress` sees."""
    return None if progress is None else lambda more, _: progress(begun + more, blocks)


def _remember(options: SimulationOptions, result: Simulation) -> SimulationOptions:
    if not result.found:
        return options
    return dataclasses.replace(options, policies=combination(remember(options.policies, result.found)).policies)


def _run_with_best_limit(
    requests: Sequence[Request], throttling: Policy, progress: Progress | None, observe: Observer | None
) -> list[Simulation]:
    """Simulate under every static limit on warps, then with the best one for `throttling`; return that run.

    All launches have the same limit. `found` has it.
    """
    assert throttling.limit_option is not None
    limits = max(max_scheduler_warps(request.trace, request.gpu, request.options) for request in requests)
    repeated = observe is not None or not isinstance(throttling, SWL)

    def run(policy: Policy, finished: int, observe: Observer | None = None) -> list[Simulation]:
        limited = [
            dataclasses.replace(request, options=_with(policy, throttling, request.options), observe=observe)
            for request in requests
        ]
        return _run_once(limited, progress, finished, limits + repeated)

    times = [(0.0, 0.0)] * len(requests)
    best = 0
    results: list[Simulation] = []
    for limit in range(1, limits + 1):
        tried = run(SWL(warps=limit), limit - 1)
        times = _add_seconds(times, tried)
        if not results or _ipc(tried) > _ipc(results):
            best, results = limit, tried
    if repeated:
        chosen: Policy = dataclasses.replace(throttling, **{throttling.limit_option: best})  # type: ignore[type-var]
        results = run(chosen, limits, observe)
        times = _add_seconds(times, results)
    return [
        dataclasses.replace(
            result,
            found={f"{throttling.name}.{throttling.limit_option}": best},
            config=request.config(),
            trace_seconds=trace_seconds,
            seconds=seconds,
        )
        for request, result, (trace_seconds, seconds) in zip(requests, results, times, strict=True)
    ]


def _add_seconds(times: Sequence[tuple[float, float]], results: Sequence[Simulation]) -> list[tuple[float, float]]:
    """Add the times of traces and of runs, launch by launch."""
    return [
        (trace_seconds + result.trace_seconds, seconds + result.seconds)
        for (trace_seconds, seconds), result in zip(times, results, strict=True)
    ]


def _with(policy: Policy, instead_of: Policy, options: SimulationOptions) -> SimulationOptions:
    policies = tuple(policy if member == instead_of else member for member in options.policies)
    return dataclasses.replace(options, policies=policies)


def _ipc(results: Sequence[Simulation]) -> float:
    """Return the thread instructions per cycle of all launches together; 0 if they take no time."""
    cycles = sum(result.cycles for result in results)
    return sum(result.instructions for result in results) / cycles if cycles else 0.0
