"""The commands that set the model beside the simulator: `compare` and `calibrate`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rdmodel import presets
from rdmodel.cli import text_comparison, text_measured
from rdmodel.cli.arguments import comparison_options
from rdmodel.cli.output import print_csv, print_json
from rdmodel.cli.progress_line import Progress
from rdmodel.cli.sources import machine, open_sources, open_suite
from rdmodel.common.checks import MAX_VALUE
from rdmodel.comparison.calibrate import calibrate
from rdmodel.comparison.compare import compare, latency_for
from rdmodel.comparison.measured import MeasuredComparison, compare_measured, measured_l1, select_measurement
from rdmodel.comparison.nsight import read_ncu
from rdmodel.comparison.values import Comparison, agreement
from rdmodel.errors import ConfigError, TraceError
from rdmodel.gpu.config import GPU, LatencyConfig
from rdmodel.gpu.overrides import override
from rdmodel.plots import charts
from rdmodel.trace import Trace

BAR = 24
"""Characters of the progress bar."""


# ---- compare


def run_compare(arguments: argparse.Namespace) -> None:
    """Compare every kernel or trace given; what is finished is printed even if the rest cannot be."""
    if arguments.ncu is not None:
        run_measured(arguments)
        return
    for option, given in (("--ncu-kernel", arguments.ncu_kernels), ("--ncu-launch", arguments.ncu_launches)):
        if given:
            raise ConfigError(f"{option}: picks from a report; --ncu FILE names it")
    if arguments.plot is not None:
        charts.check_path(arguments.plot)
    gpu = machine(arguments)
    sources = _sources(arguments)
    options = comparison_options(arguments)
    finished: list[Comparison] = []
    try:
        with Bar(len(sources)) as bar:
            options["latency"] = _latency(arguments, gpu, bar)
            for source in sources:
                for trace in source:
                    bar.name = trace.launch.kernel
                    finished.append(compare(trace, gpu, progress=bar, **options))
                bar.finished += 1
    finally:
        if finished:
            _print(arguments, finished, several=len(sources) > 1 or len(finished) > 1)


def run_measured(arguments: argparse.Namespace) -> None:
    """Hold every kernel or trace given against a report; what is finished is printed even if the rest cannot be."""
    if arguments.plot is not None:
        raise ConfigError("--plot: draws predicted against simulated rates; it does not go with --ncu")
    report = read_ncu(arguments.ncu)
    gpu = machine(arguments)
    sources = _sources(arguments)
    patterns = arguments.ncu_kernels or [None] * len(sources)
    if len(patterns) != len(sources):
        raise ConfigError(f"--ncu-kernel: {len(patterns)} patterns for {len(sources)} kernels; give one for each")
    options = comparison_options(arguments)
    finished: list[MeasuredComparison] = []
    try:
        with Bar(len(sources)) as bar:
            for source, pattern in zip(sources, patterns, strict=True):
                for trace in source:
                    measurement = select_measurement(
                        report, trace.launch, pattern=pattern, ids=arguments.ncu_launches, alone=len(sources) == 1
                    )
                    measured_l1(measurement)
                    if "latency" not in options:
                        options["latency"] = _latency(arguments, gpu, bar)
                    bar.name = trace.launch.kernel
                    finished.append(compare_measured(trace, measurement, gpu, progress=bar, **options))
                bar.finished += 1
    finally:
        if finished:
            _print_measured(arguments, finished)


def _print_measured(arguments: argparse.Namespace, finished: Sequence[MeasuredComparison]) -> None:
    """Print comparisons with a report in the form that is asked for."""
    if arguments.json:
        plain = [one.to_dict() for one in finished]
        print_json(plain[0] if len(plain) == 1 else {"comparisons": plain})
    elif arguments.csv:
        print_csv(one.to_row() for one in finished)
    elif len(finished) > 1:
        print(text_measured.several(finished))
    else:
        print(text_measured.measured(finished[0]))


def _sources(arguments: argparse.Namespace) -> Sequence[Iterable[Trace]]:
    """Return the traces of every source; whatever is no file is opened, so that its mistakes come before the work."""
    if arguments.suite is not None:
        return [[trace] for trace in open_suite(arguments.suite, arguments.sources, arguments)]
    if not arguments.sources:
        raise ConfigError("KERNEL_OR_FILE: is missing; name a kernel or a file, or --suite NAME")
    return [
        open_sources(source, arguments) if Path(source).exists() else list(open_sources(source, arguments))
        for source in arguments.sources
    ]


def _latency(arguments: argparse.Namespace, gpu: GPU, bar: Bar) -> LatencyConfig:
    """Return the latencies for the model: those given, else those that belong to the machine as it is."""
    lat_min, sigma = arguments.latency or (None, None)
    if lat_min is not None and sigma is not None:
        return LatencyConfig(lat_min=lat_min, sigma=sigma, hit_latency=gpu.core.hit_latency)
    bar.name = "latencies"
    fitted = latency_for(gpu, arguments.sms, bar)
    if lat_min is None:
        return fitted
    return LatencyConfig(lat_min=lat_min, sigma=fitted.sigma, hit_latency=fitted.hit_latency)


def _print(arguments: argparse.Namespace, finished: Sequence[Comparison], several: bool) -> None:
    """Print comparisons in the form that is asked for, and draw them if that is asked for."""
    agreements = [agreement(finished, definition) for definition in finished[0].predictions]
    if arguments.json and several:
        summary = {one.definition: one.to_dict() for one in agreements}
        print_json({"comparisons": [one.to_dict() for one in finished], "agreement": summary})
    elif arguments.json:
        print_json(finished[0].to_dict())
    elif arguments.csv:
        print_csv(one.to_row() for one in finished)
    elif several:
        print(text_comparison.several(finished, agreements))
    else:
        print(text_comparison.comparison(finished[0]))
    if arguments.plot is not None:
        charts.scatter(finished, arguments.plot)


class Bar(Progress):
    """Progress over kernels, and over the runs of the one that is under way: set `name` and `finished`."""

    def __init__(self, kernels: int) -> None:
        super().__init__("compare")
        self.name = ""
        self.finished = 0
        self._kernels = kernels

    def describe(self, done: int, total: int) -> str:
        """Return a bar, which kernel is under way, and how much of it is done."""
        share = (self.finished + done / total) / self._kernels
        bar = ("#" * int(BAR * share)).ljust(BAR, ".")
        number = min(self.finished + 1, self._kernels)
        return f"[{bar}] kernel {number} of {self._kernels}, {self.name}: {100 * done // total} %"


# ---- calibrate


def run_calibrate(arguments: argparse.Namespace) -> None:
    """Fit latencies to the simulated machine, or to those in a file."""
    gpu = override(presets.gpu(arguments.gpu), dict(arguments.assignments))
    measured = None if arguments.measured is None else list(_read_latencies(Path(arguments.measured)))
    with Progress("latencies") as progress:
        fitted = calibrate(gpu, measured=measured, seed=arguments.seed, progress=progress)
    if arguments.json:
        print_json(fitted.to_dict())
    else:
        print(text_comparison.calibration(fitted))


def _read_latencies(path: Path) -> Iterator[float]:
    """Yield the numbers in a file, between spaces, commas and ends of lines; raise `TraceError` for anything else."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise TraceError(f"{path}: is not a text file") from None
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None
    words = [(number, word) for number, line in enumerate(lines, 1) for word in re.split(r"[\s,]+", line) if word]
    if not words:
        raise TraceError(f"{path}: holds no latencies")
    for number, word in words:
        try:
            value = float(word)
        except ValueError:
            value = -1.0
        if not 0 <= value <= MAX_VALUE:
            raise TraceError(f"{path}:{number}: {word!r} is not a latency: a number from 0 to 2^40")
        yield value


COMMANDS = {"compare": run_compare, "calibrate": run_calibrate}
"""What runs each of these commands."""
