"""What each command does: names and files to values, a call, and its result as text, JSON or CSV."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tracegen
from rdmodel import presets
from rdmodel.cli import text
from rdmodel.cli.arguments import extent_options, jobs, model_options, simulation_options
from rdmodel.cli.memory_limit import UNBOUNDED, Budget, budget_of
from rdmodel.cli.output import R, print_csv, print_json, print_results
from rdmodel.cli.progress_line import Progress
from rdmodel.cli.sources import machine, open_launches, open_modelled, open_source, open_sources
from rdmodel.cli.text_locality import locality as locality_text
from rdmodel.cli.text_simulation import simulation
from rdmodel.common.checks import check_int
from rdmodel.common.intervals import student_quantile
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU
from rdmodel.gpu.overrides import override, parse_size
from rdmodel.locality_analysis.classify import locality
from rdmodel.model.options import Options
from rdmodel.model.predict import predict
from rdmodel.model.round_robin import ROUND_ROBIN_OPTIONS, kernel_histogram, round_robin_machine
from rdmodel.policies import IndexFunction, Linear, Policy, remember
from rdmodel.policies.combinations import combination
from rdmodel.results.describe import describe
from rdmodel.results.simulation import Simulation
from rdmodel.reuse.histogram import INFINITE, Histogram
from rdmodel.reuse.shards import check_sample
from rdmodel.simulator.simulate import simulate
from rdmodel.trace import storage
from rdmodel.trace.summary import summarise
from tracegen import formats


def run_predict(arguments: argparse.Namespace) -> None:
    """Predict every kernel or trace given."""
    gpu = machine(arguments)
    options = model_options(arguments)
    results = []
    with budget_of(arguments) as budget:
        for source in arguments.sources:
            for trace in open_sources(source, arguments, budget):
                with Progress(f"{source}, counting lines") as progress:
                    budget.admit_prediction(trace, gpu, options, progress)
                with Progress(source) as progress:
                    results.append(predict(trace, gpu, progress=progress, **options))
        print_results(arguments, results, text.prediction)


def run_simulate(arguments: argparse.Namespace) -> None:
    """Simulate every kernel or trace given."""
    with budget_of(arguments) as budget:
        results = _run_launches(arguments, simulate, lambda result: result, budget)
        print_results(arguments, results, partial(simulation, index=combination(arguments.policies).index))


def run_locality(arguments: argparse.Namespace) -> None:
    """Classify the loads of every kernel or trace given."""
    results = _run_launches(arguments, locality, lambda result: result.simulation)
    print_results(arguments, results, partial(locality_text, index=combination(arguments.policies).index))


def _run_launches(
    arguments: argparse.Namespace,
    run: Callable[..., R],
    simulated: Callable[[R], Simulation],
    budget: Budget = UNBOUNDED,
) -> list[R]:
    """Run everything given; what policies found out about a kernel holds for its later launches of the same file."""
    gpu = machine(arguments)
    options = simulation_options(arguments)
    results = []
    for source in arguments.sources:
        learnt: dict[str, Sequence[Policy | IndexFunction | str]] = {}
        for trace in open_sources(source, arguments, budget):
            policies = learnt.get(trace.launch.kernel, arguments.policies)
            if budget.limit is not None:
                with Progress(f"{source}, counting lines") as progress:
                    budget.admit_simulation(trace, gpu, options, progress)
            with Progress(source) as progress:
                results.append(run(trace, gpu, progress=progress, policies=policies, **options))
            learnt[trace.launch.kernel] = remember(policies, simulated(results[-1]).found)
    return results


def run_trace(arguments: argparse.Namespace) -> None:
    """Write a kernel's trace, or convert a trace."""
    form = arguments.format or formats.by_extension(arguments.output).name
    lost: tuple[str, ...] = ()
    with budget_of(arguments) as budget, Progress(arguments.source) as progress:
        trace = open_modelled(arguments.source, arguments, budget, everything=arguments.all)
        if form == "native":
            source = {"from": Path(arguments.source).name, "params": dict(trace.params)}
            storage.save(trace, arguments.output, source=source, overwrite=arguments.overwrite, progress=progress)
        else:
            lost = formats.write(trace, arguments.output, format=form, overwrite=arguments.overwrite)
    for note in lost:
        print(f"rdmodel: {note}", file=sys.stderr)
    held = 0 if trace.blocks is None else len(trace.blocks)
    print(f"{arguments.output}: wrote {held:,} of {trace.launch.blocks:,} blocks of {trace.launch.kernel}")


def run_info(arguments: argparse.Namespace) -> None:
    """Summarise a trace, or list the launches that its file holds."""
    if arguments.launches:
        _print_launches(arguments)
        return
    line = machine(arguments).l1.line
    with budget_of(arguments) as budget:
        trace = open_modelled(arguments.source, arguments, budget)
        with Progress(f"{arguments.source}, counting lines") as progress:
            budget.admit_summary(trace, line, progress)
        summary = summarise(trace, line=line)
    if arguments.json:
        print_json(summary.to_dict())
    else:
        print(text.summary(summary))


def _print_launches(arguments: argparse.Namespace) -> None:
    form, found = open_launches(arguments.source, arguments)
    if arguments.json:
        print_json({"format": form, "launches": [one.to_dict() for one in found]})
    else:
        print(text.launches(arguments.source, form, found))


def run_mrc(arguments: argparse.Namespace) -> None:
    """Show the reuse distances of a kernel's transactions in a fully associative cache."""
    gpu = machine(arguments)
    lines = None
    if arguments.sizes is not None:
        lines = [_lines(size, gpu.l1.line) for size in arguments.sizes.split(",")]
    if arguments.sample is not None and arguments.memory is not None:
        student_quantile(1)  # loads SciPy, which ends in an endless loop where it may not allocate what it likes
    with budget_of(arguments) as budget:
        if arguments.sample is not None:
            _sampled_mrc(arguments, gpu, lines, budget)
        else:
            _print_reuse(arguments, gpu, lines, budget)


def _print_reuse(arguments: argparse.Namespace, gpu: GPU, lines: list[int] | None, budget: Budget) -> None:
    trace = open_source(arguments.source, arguments, budget)
    options = extent_options(arguments) | {"seed": arguments.seed, "n_jobs": jobs(arguments)}
    line = gpu.l1.line
    if arguments.order == "round-robin":
        gpu, turns = round_robin_machine(gpu)
        options |= turns
    else:
        gpu = gpu.replace(l1=dataclasses.replace(gpu.l1, ways=gpu.l1.lines, index=Linear()))
        options["definition"] = arguments.order
    with Progress(f"{arguments.source}, counting lines") as progress:
        budget.admit_prediction(trace, gpu, options, progress, listed=arguments.json)
    with Progress(arguments.source) as progress:
        result = predict(trace, gpu, progress=progress, **options)
    assert result.histogram is not None
    curve = result.histogram.miss_ratio_curve(lines)
    if arguments.json:
        points = [{"lines": n, "bytes": n * line, "miss_ratio": ratio} for n, ratio in curve]
        print_json(
            {
                "kernel": result.kernel,
                "line": line,
                "order": arguments.order,
                "transactions": result.transactions,
                "histogram": _histogram(result.histogram),
                "curve": points,
                "config": result.config,
            }
        )
    elif arguments.csv:
        print_csv({"lines": n, "bytes": n * line, "miss_ratio": ratio} for n, ratio in curve)
    else:
        print(text.reuse(result, curve, line, arguments.order))


def _sampled_mrc(arguments: argparse.Namespace, gpu: GPU, lines: Sequence[int] | None, budget: Budget) -> None:
    """Show what a sample of the lines says of the miss-ratio curve."""
    if arguments.order != "round-robin":
        raise ConfigError(f"sample: the order {arguments.order!r} needs all lines, in a schedule; use round-robin")
    rate = check_sample(arguments.sample)
    check_int("seed", arguments.seed, 0)
    trace = open_source(arguments.source, arguments, budget)
    options = Options(definition="paper", **ROUND_ROBIN_OPTIONS, **extent_options(arguments)).resolve(gpu)
    with Progress(f"{arguments.source}, counting lines") as progress:
        budget.admit_sample(trace, gpu, options, rate, progress, listed=arguments.json)
    with Progress(arguments.source) as progress:
        found = kernel_histogram(trace, gpu, options, rate, arguments.seed, progress)
    curve = found.miss_ratio_curve(lines)
    points = [
        {"lines": int(size), "bytes": int(size) * gpu.l1.line, "miss_ratio": one.value, **text.plain_error(one)}
        for size, one in zip(curve.sizes, curve.estimates(), strict=True)
    ]
    if arguments.json:
        head = {"kernel": trace.launch.kernel, "line": gpu.l1.line, "order": arguments.order}
        counts = {"transactions": found.total, "followed": found.followed, "sampled_lines": found.lines}
        histogram = {str(distance): n for distance, n in found.scaled().items()}
        config = {**describe(trace, gpu, options, arguments.seed), "sample": rate}
        print_json({**head, **counts, "sample": rate, "histogram": histogram, "curve": points, "config": config})
    elif arguments.csv:
        print_csv(points)
    else:
        print(text.sampled_reuse(trace.launch.kernel, found, curve, gpu.l1.line, arguments.order))


def _histogram(histogram: Histogram) -> dict[str, int]:
    counts = {str(INFINITE): histogram.infinite} if histogram.infinite else {}
    return counts | dict(zip(map(str, histogram.distances.tolist()), histogram.counts.tolist(), strict=True))


def run_kernels(arguments: argparse.Namespace) -> None:
    """List the kernels."""
    specs = tracegen.kernels()
    if arguments.json:
        print_json([_plain(spec) for spec in specs])
    else:
        print(text.kernels(specs))


def _plain(spec: tracegen.KernelSpec | tracegen.TiledSpec) -> dict[str, Any]:
    sizes, inputs, block = dict(spec.sizes), list(spec.inputs), list(spec.block)
    return {"name": spec.name, "sizes": sizes, "inputs": inputs, "block": block, "description": spec.description}


def run_gpus(arguments: argparse.Namespace) -> None:
    """List the presets, or show one so that it can be loaded again."""
    if arguments.name is None:
        gpus = [presets.gpu(name) for name in presets.names()]
        if arguments.json:
            print_json([gpu.to_dict() for gpu in gpus])
        else:
            print(text.gpus(gpus))
        return
    gpu = override(presets.gpu(arguments.name), dict(arguments.assignments))
    if arguments.json:
        print_json(gpu.to_dict())
    else:
        print(presets.dumps(gpu), end="")


COMMANDS = {
    "predict": run_predict,
    "simulate": run_simulate,
    "locality": run_locality,
    "trace": run_trace,
    "info": run_info,
    "mrc": run_mrc,
    "kernels": run_kernels,
    "gpus": run_gpus,
}
"""What runs each of these commands; `main` knows which modules have the others."""


# ---- output


def _lines(size: str, line: int) -> int:
    parsed = parse_size(size, "sizes")
    if parsed < 0 or parsed % line:
        raise ConfigError(f"sizes={size!r}: must be a multiple of the line size, {line} bytes")
    return parsed // line
