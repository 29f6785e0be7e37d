"""Run ``rdmodel mrc``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rdmodel.cli.memory_limit import Budget, limit_memory
from rdmodel.cli.option_values import extent_options, output_form, selected_gpu, source_options, thread_count
from rdmodel.cli.output import print_csv, print_json, print_text
from rdmodel.cli.progress_line import block_progress
from rdmodel.cli.sources import open_source
from rdmodel.cli.text_reuse import error_fields, format_reuse, format_sampled_reuse
from rdmodel.common.checks import check_int
from rdmodel.common.intervals import student_quantile
from rdmodel.errors import ConfigError, TraceError
from rdmodel.gpu.config import GPU
from rdmodel.gpu.overrides import parse_size
from rdmodel.model.options import Options
from rdmodel.model.predict import predict
from rdmodel.model.round_robin import kernel_histogram, round_robin_setup
from rdmodel.plots import charts
from rdmodel.results.describe import describe
from rdmodel.reuse.histogram import INFINITE, Histogram, MissRatioCurve
from rdmodel.reuse.shards import check_sample


def run_mrc(arguments: argparse.Namespace) -> None:
    """Print the reuse distances of a kernel or trace, and the miss-ratio curve of a fully associative cache."""
    if arguments.plot is not None:
        charts.check_path(arguments.plot)
    gpu = selected_gpu(arguments)
    sizes = None
    if arguments.sizes is not None:
        sizes = [_size_in_lines(size, gpu.l1.line) for size in arguments.sizes.split(",")]
    if arguments.sample is not None and arguments.memory is not None:
        # Load SciPy before memory is limited: it would loop for ever if an allocation failed.
        student_quantile(1)
    with limit_memory("mrc", arguments.memory) as budget:
        if arguments.sample is not None:
            _print_sampled_curve(arguments, gpu, sizes, budget)
        else:
            _print_curve(arguments, gpu, sizes, budget)


def _print_curve(arguments: argparse.Namespace, gpu: GPU, sizes: list[int] | None, budget: Budget) -> None:
    """Print the reuse distances and the curve of all lines; `sizes` are in lines."""
    form, order = output_form(arguments), arguments.order
    trace = open_source(arguments.source, source_options(arguments), budget)
    options = extent_options(arguments) | {"seed": arguments.seed, "n_jobs": thread_count(arguments)}
    line = gpu.l1.line
    if order == "round-robin":
        gpu, turns = round_robin_setup(gpu)
        options |= turns
    else:
        gpu = gpu.replace(l1=gpu.l1.fully_associative())
        options["definition"] = order
    with block_progress(f"{arguments.source}, counting lines") as progress:
        budget.admit_prediction(trace, gpu, options, progress, listed=form == "json")
    with block_progress(arguments.source) as progress:
        result = predict(trace, gpu, progress=progress, **options)
    assert result.histogram is not None
    if not result.transactions:
        raise TraceError(f"the modelled blocks of {result.kernel} hold no loads, and so have no reuse distances")
    curve = result.histogram.miss_ratio_curve(sizes)
    points = [{"lines": n, "bytes": n * line, "miss_ratio": ratio} for n, ratio in curve]
    if form == "json":
        print_json(
            {
                "kernel": result.kernel,
                "line": line,
                "order": order,
                "transactions": result.transactions,
                "histogram": _histogram_fields(result.histogram),
                "curve": points,
                "config": result.config,
            }
        )
    elif form == "csv":
        print_csv(points)
    else:
        print_text(format_reuse(result, curve, line, order))
    _draw(arguments, curve, line, result.kernel)


def _print_sampled_curve(arguments: argparse.Namespace, gpu: GPU, sizes: Sequence[int] | None, budget: Budget) -> None:
    """Print the curve that a sample of the lines gives; `sizes` are in lines."""
    form, order = output_form(arguments), arguments.order
    if order != "round-robin":
        raise ConfigError(
            f"sample cannot be combined with order={order!r}: the schedule of a definition needs all lines; "
            "use --order round-robin"
        )
    rate = check_sample(arguments.sample)
    check_int("seed", arguments.seed, 0)
    trace = open_source(arguments.source, source_options(arguments), budget)
    machine, turns = round_robin_setup(gpu)
    options = Options(**turns, **extent_options(arguments)).resolve(machine)
    with block_progress(f"{arguments.source}, counting lines") as progress:
        budget.admit_sample(trace, gpu, options, rate, progress, listed=form == "json")
    with block_progress(arguments.source) as progress:
        histogram = kernel_histogram(trace, gpu, options, rate, arguments.seed, progress)
    curve = histogram.miss_ratio_curve(sizes)
    points = [
        {
            "lines": int(size),
            "bytes": int(size) * gpu.l1.line,
            "miss_ratio": estimate.value,
            **error_fields(estimate),
        }
        for size, estimate in zip(curve.sizes, curve.estimates(), strict=True)
    ]
    if form == "json":
        print_json(
            {
                "kernel": trace.launch.kernel,
                "line": gpu.l1.line,
                "order": order,
                "transactions": histogram.total,
                "followed": histogram.followed,
                "sampled_lines": histogram.lines,
                "sample": rate,
                "histogram": {str(distance): n for distance, n in histogram.scaled().items()},
                "curve": points,
                "config": {**describe(trace, gpu, options, arguments.seed), "sample": rate},
            }
        )
    elif form == "csv":
        print_csv(points)
    else:
        print_text(format_sampled_reuse(trace.launch.kernel, histogram, curve, gpu.l1.line, order))
    _draw(arguments, MissRatioCurve(curve.sizes, curve.miss_ratios), gpu.l1.line, trace.launch.kernel)


def _draw(arguments: argparse.Namespace, curve: MissRatioCurve, line: int, kernel: str) -> None:
    """Draw the curve if a plot was requested."""
    if arguments.plot is not None:
        charts.curve_figure(curve, line, kernel, arguments.plot)


def _histogram_fields(histogram: Histogram) -> dict[str, int]:
    """Return the counts of a histogram by distance; `INFINITE` stands for first touches."""
    counts = {str(INFINITE): histogram.infinite} if histogram.infinite else {}
    return counts | dict(zip(map(str, histogram.distances.tolist()), histogram.counts.tolist(), strict=True))


def _size_in_lines(size: str, line: int) -> int:
    parsed = parse_size(size, "sizes")
    if parsed < 0 or parsed % line:
        raise ConfigError(f"sizes={size!r}: must be a multiple of the line size, {line} bytes")
    return parsed // line
