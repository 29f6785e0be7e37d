"""Run ``rdmodel report``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rdmodel.cli.memory_limit import Budget, limit_memory
from rdmodel.cli.option_groups import DEFINITIONS
from rdmodel.cli.option_values import (
    SourceOptions,
    extent_options,
    gpu_name,
    output_form,
    rule_options,
    selected_gpu,
    source_options,
    thread_count,
)
from rdmodel.cli.output import print_json, print_text
from rdmodel.cli.progress_line import ProgressLine, block_progress, percent_progress
from rdmodel.cli.report_command_lines import report_command_lines
from rdmodel.cli.sources import LAUNCH_SUFFIX, is_recorded, open_sources
from rdmodel.common.file_writing import replaced_when_complete, resolve_target
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError, TraceError, escape_unprintable
from rdmodel.gpu.cache import OWN_DATA
from rdmodel.gpu.config import GPU
from rdmodel.gpu.default import DEFAULT_GPU
from rdmodel.gpu.overrides import override
from rdmodel.model.dealing import modelled_blocks
from rdmodel.model.options import Definition, Options
from rdmodel.reports.build import report, usual_what_ifs
from rdmodel.reports.kernel_report import KernelReport
from rdmodel.reports.report import Report
from rdmodel.trace import Trace
from tracegen.formats.atomic_write import refuse_existing
from tracegen.recording.files import is_recording


def run_report(arguments: argparse.Namespace) -> None:
    """Report on every kernel or trace, and write the page or print the results."""
    form, output = output_form(arguments), None if arguments.output is None else Path(arguments.output)
    _check_output(output, form == "json", arguments.overwrite)
    runs = _report_runs(arguments)
    with limit_memory("report", arguments.memory) as budget:
        kernels = [
            runs.report_on(source, trace, number, budget)
            for source in arguments.sources
            for number, trace in enumerate(open_sources(source, runs.reading, budget), 1)
        ]
        result = Report(gpu=runs.gpu, kernels=tuple(kernels))
        if output is not None:
            page = result.to_html().encode("utf-8")
            _write_page(output, page)
    if form == "json":
        print_json(result.to_dict())
    else:
        number = "1 kernel" if len(kernels) == 1 else f"{len(kernels)} kernels"
        print_text(escape_unprintable(f"{arguments.output}: wrote {number}, {len(page):,} bytes"))


def _check_output(output: Path | None, json: bool, overwrite: bool) -> None:
    """Raise an error for a page that cannot be written, before any work."""
    if output is None:
        if not json:
            raise ConfigError("--output: is missing; -o PAGE.html names the page, --json prints the numbers")
        return
    refuse_existing(output, overwrite=overwrite)
    try:
        target = resolve_target(output)
    except OSError as error:
        raise TraceError(f"{output}: cannot be written: {error.strerror or error}") from error
    if not target.parent.is_dir():
        folder = target.parent if output.is_symlink() else output.parent
        raise TraceError(f"{output}: there is no folder {str(folder)!r}")


def _write_page(output: Path, page: bytes) -> None:
    try:
        with replaced_when_complete(output) as partial:
            partial.write_bytes(page)
    except OSError as error:
        raise TraceError(f"{output}: cannot be written: {error.strerror or error}") from error


def _report_runs(arguments: argparse.Namespace) -> _ReportRuns:
    name, gpu = gpu_name(arguments), selected_gpu(arguments)
    definitions = tuple(dict.fromkeys(arguments.definitions or DEFINITIONS[:1]))
    changes = _what_if_changes(arguments, gpu)
    return _ReportRuns(
        gpu=gpu,
        definitions=definitions,
        changes=changes,
        what_ifs={name: override(gpu, change) for name, change in changes.items()},
        ablation=arguments.ablation,
        simulate=arguments.simulate,
        extent=extent_options(arguments),
        common={
            "seed": arguments.seed,
            "seeds": arguments.seeds,
            "l2": arguments.l2,
            "n_jobs": thread_count(arguments),
        },
        rules=rule_options(arguments),
        reading=source_options(arguments),
        values={**vars(arguments), "gpu": None if name == DEFAULT_GPU else name, "definitions": definitions},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReportRuns:
    """The runs of a report, which are the same for every kernel.

    `what_ifs` are changed GPUs by name, and `changes` their changed fields; `values` are all options by name, for the
    command lines on the page.
    """

    gpu: GPU
    definitions: tuple[Definition, ...]
    changes: Mapping[str, Mapping[str, str]]
    what_ifs: Mapping[str, GPU]
    ablation: bool
    simulate: bool
    extent: Mapping[str, Any]
    common: Mapping[str, Any]
    rules: Mapping[str, Any]
    reading: SourceOptions
    values: Mapping[str, Any]

    def report_on(self, source: str, trace: Trace, number: int, budget: Budget) -> KernelReport:
        """Report on one launch, the `number`-th of its source."""
        # As `info` does: a recorded trace is summarised whole; the blocks of a kernel would have to be made first.
        recorded = is_recorded(trace)
        with block_progress(f"{source}, counting lines") as line:
            self._admit(trace, recorded, budget, line)
        with percent_progress(source) as line:
            result = report(
                trace,
                self.gpu,
                definitions=self.definitions,
                ablation=self.ablation,
                what_ifs=self.what_ifs,
                simulate=self.simulate,
                all_blocks=recorded,
                progress=line,
                **self.common,
                **self.extent,
                **self.rules,
            )
        [kernel] = result.kernels
        name = source if source == kernel.kernel else f"{source}: {kernel.kernel}"
        values = dict(self.values)
        if Path(source).suffix == LAUNCH_SUFFIX or is_recording(Path(source)):
            values["launch"] = self.reading.launch or getattr(trace, "number", None) or number
            values["kernel"] = None
            name = f"{name}, launch {values['launch']}"
        return replace(kernel, source=name, commands=report_command_lines(source, values, self.gpu, self.changes))

    def _admit(self, trace: Trace, recorded: bool, budget: Budget, line: ProgressLine) -> None:
        """Raise `ConfigError` unless all runs fit into the memory limit."""
        if budget.limit is None:
            return
        if self.simulate:
            raise ConfigError(
                "simulate cannot be combined with --memory: the locality needs an unknown amount of memory"
            )
        for gpu in (self.gpu, *self.what_ifs.values()):
            budget.admit_prediction(trace, gpu, {**self.common, **self.extent}, line)
        blocks = None if recorded else modelled_blocks(trace.launch, Options(**self.extent).resolve(self.gpu))
        budget.admit_summary(trace, self.gpu.l1.line, line, blocks)


# ---- what if


def _what_if_changes(arguments: argparse.Namespace, gpu: GPU) -> dict[str, dict[str, str]]:
    """Return the changed fields of the GPU for each what-if, by its name."""
    if arguments.no_what_if:
        if arguments.what_ifs:
            raise ConfigError("--no-what-if cannot be combined with --what-if")
        return {}
    if arguments.what_ifs is None:
        return {name: dict(_l1_changes(gpu, changed)) for name, changed in usual_what_ifs(gpu).items()}
    changes = {}
    for key, values in arguments.what_ifs:
        text = f"{key}={values}"
        # A comma separates fields only if a key follows: the masks of an index function contain commas as well.
        pairs = [pair.partition("=") for pair in re.split(r",(?=[\w.]+=)", text)]
        changes[text] = {name: value for name, _, value in pairs}
    return changes


def _l1_changes(gpu: GPU, changed: GPU) -> Iterator[tuple[str, str]]:
    """Yield the fields in which the L1s of two GPUs differ, with the values of the second."""
    for name in ("size", "ways"):
        if getattr(gpu.l1, name) != getattr(changed.l1, name):
            yield f"l1.{name}", str(getattr(changed.l1, name))
    if gpu.l1.tag_sets:
        for name in OWN_DATA:
            yield f"l1.{name}", str(getattr(changed.l1, name))
    if gpu.l1.index != changed.l1.index:
        yield "l1.index", changed.l1.index.name
