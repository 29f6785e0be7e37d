"""Run ``rdmodel simulate`` and ``rdmodel locality``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rdmodel.cli.memory_limit import UNBOUNDED, Budget, limit_memory
from rdmodel.cli.option_values import output_form, selected_gpu, simulation_options, source_options
from rdmodel.cli.output import R, print_note, print_results, print_text
from rdmodel.cli.progress_line import block_progress
from rdmodel.cli.sources import open_sources
from rdmodel.cli.text_locality import format_locality
from rdmodel.cli.text_simulation import format_simulation, format_together
from rdmodel.cli.text_tables import format_metrics
from rdmodel.errors import ConfigError
from rdmodel.gpu.occupancy import Occupancy, compute_occupancy
from rdmodel.locality_analysis.classify import locality
from rdmodel.plots.charts import check_path
from rdmodel.plots.save_figure import save_figure
from rdmodel.policies import IndexFunction, Policy, remember
from rdmodel.policies.combinations import combination
from rdmodel.results.metrics import check_countable
from rdmodel.results.simulation import Simulation
from rdmodel.simulator.simulate import simulate, simulate_launches
from rdmodel.trace import ArrayInfo, Trace


def run_simulate(arguments: argparse.Namespace) -> None:
    """Simulate every kernel or trace, and print the simulations."""
    if arguments.metrics is not None:
        check_countable(selected_gpu(arguments).l1.sector_bytes, None)
    with limit_memory("simulate", arguments.memory) as budget:
        if arguments.warm_l2:
            launches = _run_on_one_l2(arguments, budget)
        else:
            launches = _run_launches(arguments, simulate, lambda result: result, budget)
        occupancies = {id(result): occupancy for result, occupancy in launches}
        index = combination(arguments.policies).index

        def text(result: Simulation) -> str:
            main = format_simulation(result, occupancies[id(result)], index)
            if arguments.metrics is not None:
                main += f"\n\n{format_metrics(result, result.metrics())}"
            return main

        def objects(result: Simulation) -> dict[str, Any]:
            return {"occupancy": occupancies[id(result)].to_dict()}

        results = [result for result, _ in launches]
        metrics = None if arguments.metrics is None else Simulation.metrics
        print_results(output_form(arguments), results, text, metrics, objects)
        if arguments.warm_l2 and output_form(arguments) == "text" and len(results) > 1:
            print_text(f"\n{format_together(results)}")


def run_locality(arguments: argparse.Namespace) -> None:
    """Classify the loads of every kernel or trace, and print the localities."""
    if arguments.plot is not None:
        check_path(arguments.plot)
    results = [result for result, _ in _run_launches(arguments, locality, lambda result: result.simulation)]
    index = combination(arguments.policies).index
    print_results(output_form(arguments), results, partial(format_locality, index=index))
    if arguments.plot is not None:
        save_figure(results, arguments.plot)


def _run_on_one_l2(arguments: argparse.Namespace, budget: Budget) -> list[tuple[Simulation, Occupancy]]:
    """Simulate all launches of all sources on one machine; return the simulations, each with the occupancy of an SM."""
    options = simulation_options(arguments)
    if options["memory"] is not None:
        raise ConfigError(f"--ideal-memory {options['memory']}: has no L2 to keep; leave out --warm-l2")
    if budget.given is not None:
        raise ConfigError("--warm-l2 cannot be combined with --memory: the memory of several launches is not bounded")
    gpu = selected_gpu(arguments)
    reading = source_options(arguments)
    by_source = [list(open_sources(source, reading)) for source in arguments.sources]
    _note_shared_addresses(by_source)
    traces = [trace for source in by_source for trace in source]
    with block_progress(", ".join(arguments.sources)) as progress:
        results = simulate_launches(traces, gpu, progress=progress, policies=arguments.policies, **options)
    return [(result, compute_occupancy(trace.launch, gpu)) for result, trace in zip(results, traces, strict=True)]


def _note_shared_addresses(by_source: Sequence[Sequence[Trace]]) -> None:
    """Print a note if arrays of different sources lie at the same address, as those of unrelated kernels do."""
    known: dict[int, tuple[int, str, ArrayInfo]] = {}
    for source, trace in ((number, trace) for number, traces in enumerate(by_source) for trace in traces):
        for array in trace.launch.arrays:
            own = (source, trace.launch.kernel, array)
            first, kernel, other = known.setdefault(array.base, own)
            if first != source and (other.name, other.bytes) != (array.name, array.bytes):
                print_note(
                    f"{trace.launch.kernel}: {array.name} has the address of {other.name} of {kernel}, and finds its "
                    "lines in the L2; --warm-l2 is for launches of one program"
                )
                return


def _run_launches(
    arguments: argparse.Namespace,
    run: Callable[..., R],
    simulation_of: Callable[[R], Simulation],
    budget: Budget = UNBOUNDED,
) -> list[tuple[R, Occupancy]]:
    """Call `run` for every launch and return the results, each with the occupancy of an SM.

    A value that a policy chose for a kernel also holds for later launches of that kernel from the same source;
    `simulation_of` returns the simulation in a result.
    """
    gpu = selected_gpu(arguments)
    options = simulation_options(arguments)
    reading = source_options(arguments)
    results = []
    for source in arguments.sources:
        learnt: dict[str, Sequence[Policy | IndexFunction | str]] = {}
        for trace in open_sources(source, reading, budget):
            policies = learnt.get(trace.launch.kernel, arguments.policies)
            if budget.limit is not None:
                with block_progress(f"{source}, counting lines") as progress:
                    budget.admit_simulation(trace, gpu, options, progress)
            with block_progress(source) as progress:
                result = run(trace, gpu, progress=progress, policies=policies, **options)
            results.append((result, compute_occupancy(trace.launch, gpu)))
            learnt[trace.launch.kernel] = remember(policies, simulation_of(result).found)
    return results
