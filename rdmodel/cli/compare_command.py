"""Run ``rdmodel compare``: the model beside the simulator, and beside measured hit rates."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

from rdmodel.cli.option_values import comparison_options, counter_options, output_form, selected_gpu, source_options
from rdmodel.cli.output import OutputForm, print_csv, print_json, print_notes, print_text
from rdmodel.cli.progress_line import ProgressLine, draw_bar, finished_share
from rdmodel.cli.sources import open_sources, open_suite
from rdmodel.cli.text_comparison import format_comparison, format_comparisons
from rdmodel.cli.text_counters import format_counter_comparisons
from rdmodel.cli.text_measured import format_measured_comparison, format_measured_comparisons
from rdmodel.comparison.compare import DEFINITIONS, compare, latency_for
from rdmodel.comparison.counters import CounterComparison, check_measured, compare_counters
from rdmodel.comparison.measured import MeasuredComparison, compare_measured, measured_l1, select_measurement
from rdmodel.comparison.nsight import Measurement, read_ncu
from rdmodel.comparison.values import Comparison, agreement
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU, LatencyConfig
from rdmodel.model.options import Definition, check_known_definition
from rdmodel.plots import charts
from rdmodel.results.metrics import SECTOR_BYTES
from rdmodel.trace import Trace


def run_compare(arguments: argparse.Namespace) -> None:
    """Compare every kernel or trace; print the finished comparisons even if a later one fails."""
    if arguments.ncu is not None:
        _run_measured(arguments)
        return
    for option, given in (("--ncu-kernel", arguments.ncu_kernels), ("--ncu-launch", arguments.ncu_launches)):
        if given:
            raise ConfigError(f"{option}: needs a report of Nsight Compute; name it with --ncu FILE")
    if arguments.plot is not None:
        charts.check_path(arguments.plot)
    gpu = selected_gpu(arguments)
    options = comparison_options(arguments)
    options["definitions"], notes = _definitions(arguments, gpu)
    sources = _open_sources(arguments)
    finished: list[Comparison] = []
    progress = KernelProgress(len(sources))
    try:
        with progress.line as line:
            options["latency"] = _latency(arguments, gpu, progress)
            for source in sources:
                for trace in source:
                    progress.kernel = trace.launch.kernel
                    finished.append(compare(trace, gpu, progress=line, **options))
                progress.finished += 1
    finally:
        if finished:
            _print_comparisons(output_form(arguments), finished, several=len(sources) > 1 or len(finished) > 1)
            print_notes(notes)
            if arguments.plot is not None:
                charts.scatter(finished, arguments.plot)


def _run_measured(arguments: argparse.Namespace) -> None:
    """Compare every kernel or trace with a report; print the finished comparisons even if a later one fails."""
    if arguments.plot is not None:
        raise ConfigError("--plot cannot be combined with --ncu: it draws predicted against simulated rates")
    gpu = selected_gpu(arguments)
    if gpu.l1.sector_bytes == SECTOR_BYTES:
        _run_counters(arguments, gpu)
        return
    options = comparison_options(arguments)
    options["definitions"], notes = _definitions(arguments, gpu)

    def compare_launch(trace: Trace, measurement: Measurement, progress: KernelProgress) -> MeasuredComparison:
        measured_l1(measurement)
        if "latency" not in options:
            options["latency"] = _latency(arguments, gpu, progress)
        progress.kernel = trace.launch.kernel
        return compare_measured(trace, measurement, gpu, progress=progress.line, **options)

    _compare_with_report(arguments, compare_launch, notes)


def _run_counters(arguments: argparse.Namespace, gpu: GPU) -> None:
    """Put the model's counters beside those of a report; print the finished kernels even if a later one fails."""
    options = counter_options(arguments)

    def compare_launch(trace: Trace, measurement: Measurement, progress: KernelProgress) -> CounterComparison:
        check_measured(measurement)
        progress.kernel = trace.launch.kernel
        return compare_counters(trace, measurement, gpu, progress=progress.line, **options)

    _compare_with_report(arguments, compare_launch)


def _compare_with_report(
    arguments: argparse.Namespace,
    compare_launch: Callable[[Trace, Measurement, KernelProgress], MeasuredComparison | CounterComparison],
    notes: Sequence[str] = (),
) -> None:
    """Compare every trace with its launches in the report; print the finished ones even if a later one fails."""
    report = read_ncu(arguments.ncu)
    finished: list[MeasuredComparison | CounterComparison] = []
    sources = _open_sources(arguments)
    progress = KernelProgress(len(sources))
    try:
        with progress.line:
            for trace, measurement in _measured_traces(arguments, report, sources, progress):
                finished.append(compare_launch(trace, measurement, progress))
    finally:
        if finished:
            _print_measured(output_form(arguments), finished)
            print_notes(notes)


def _measured_traces(
    arguments: argparse.Namespace,
    report: Sequence[Measurement],
    sources: Sequence[Iterable[Trace]],
    progress: KernelProgress,
) -> Iterator[tuple[Trace, Measurement]]:
    """Yield every trace with its launches in the report."""
    patterns = arguments.ncu_kernels or [None] * len(sources)
    if len(patterns) != len(sources):
        raise ConfigError(f"--ncu-kernel: {len(patterns)} patterns for {len(sources)} kernels; give one for each")
    for source, pattern in zip(sources, patterns, strict=True):
        for trace in source:
            yield (
                trace,
                select_measurement(
                    report, trace.launch, pattern=pattern, ids=arguments.ncu_launches, alone=len(sources) == 1
                ),
            )
        progress.finished += 1


def _definitions(arguments: argparse.Namespace, gpu: GPU) -> tuple[Sequence[Definition], Sequence[str]]:
    """Return the definitions to compare: those that are named, else those that can model the GPU, and notes on others.

    Raises `ConfigError` for a named one that cannot model the GPU, before latencies are fitted.
    """
    known: list[Definition] = []
    notes: list[str] = []
    for definition in arguments.definitions or DEFINITIONS:
        try:
            check_known_definition(definition, gpu)
        except ConfigError as error:
            if arguments.definitions:
                raise
            notes.append(f"definition {definition} is left out: {error}")
        else:
            known.append(definition)
    return known, notes


def _open_sources(arguments: argparse.Namespace) -> Sequence[Iterable[Trace]]:
    """Return the traces of every source; open all but files at once, so that mistakes show before any work."""
    options = source_options(arguments)
    if arguments.suite is not None:
        return [[trace] for trace in open_suite(arguments.suite, arguments.sources, options)]
    if not arguments.sources:
        raise ConfigError("KERNEL_OR_FILE: is missing; name a kernel or a file, or --suite NAME")
    return [
        open_sources(source, options) if Path(source).exists() else list(open_sources(source, options))
        for source in arguments.sources
    ]


def _latency(arguments: argparse.Namespace, gpu: GPU, progress: KernelProgress) -> LatencyConfig:
    """Return the latencies of the model: those of ``--latency``, completed by those fitted to the machine."""
    lat_min, sigma = arguments.latency or (None, None)
    if lat_min is not None and sigma is not None:
        return LatencyConfig(lat_min=lat_min, sigma=sigma, hit_latency=gpu.core.hit_latency)
    progress.kernel = "latencies"
    fitted = latency_for(gpu, arguments.sms, progress.line)
    if lat_min is None:
        return fitted
    return LatencyConfig(lat_min=lat_min, sigma=fitted.sigma, hit_latency=fitted.hit_latency)


def _print_comparisons(form: OutputForm, finished: Sequence[Comparison], several: bool) -> None:
    """Print comparisons; with `several`, their agreement as well."""
    agreements = [agreement(finished, definition) for definition in finished[0].predictions]
    if form == "csv":
        print_csv(comparison.to_row() for comparison in finished)
    elif form == "json" and several:
        summary = {each.definition: each.to_dict() for each in agreements}
        print_json({"comparisons": [comparison.to_dict() for comparison in finished], "agreement": summary})
    elif form == "json":
        print_json(finished[0].to_dict())
    elif several:
        print_text(format_comparisons(finished, agreements))
    else:
        print_text(format_comparison(finished[0]))


def _print_measured(form: OutputForm, finished: Sequence[MeasuredComparison | CounterComparison]) -> None:
    """Print comparisons with a report."""
    if form == "json":
        objects = [comparison.to_dict() for comparison in finished]
        print_json(objects[0] if len(objects) == 1 else {"comparisons": objects})
    elif form == "csv":
        print_csv(comparison.to_row() for comparison in finished)
    elif isinstance(finished[0], CounterComparison):
        print_text(format_counter_comparisons(cast(Sequence[CounterComparison], finished)))
    elif len(finished) > 1:
        print_text(format_measured_comparisons(cast(Sequence[MeasuredComparison], finished)))
    else:
        print_text(format_measured_comparison(finished[0]))


class KernelProgress:
    """Progress over kernels and over the runs of each: `kernel` is under way, and `finished` kernels are done."""

    def __init__(self, kernels: int) -> None:
        self.kernel = ""
        self.finished = 0
        self.line = ProgressLine(self.describe, self.share)
        self._kernels = kernels

    def describe(self, done: int, total: int) -> str:
        """Return a bar, the number and name of the kernel that is under way, and its finished percentage."""
        bar = draw_bar(self.finished + finished_share(done, total), self._kernels)
        number = min(self.finished + 1, self._kernels)
        return f"{bar} kernel {number} of {self._kernels}, {self.kernel}: {100 * done // max(1, total)} %"

    def share(self, done: int, total: int) -> float:
        """Return the finished share of all kernels."""
        return (self.finished + finished_share(done, total)) / max(1, self._kernels)
