"""`rdmodel report`: one page of what the caches do with kernels or traces."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rdmodel.cli.arguments import extent_options, jobs, rule_options
from rdmodel.cli.command_lines import command_line
from rdmodel.cli.memory_limit import Budget, budget_of
from rdmodel.cli.option_groups import DEFINITIONS
from rdmodel.cli.output import print_json
from rdmodel.cli.progress_line import Progress
from rdmodel.cli.sources import LAUNCH_FILE, machine, open_sources
from rdmodel.errors import ConfigError, TraceError
from rdmodel.gpu.config import GPU
from rdmodel.gpu.overrides import override
from rdmodel.model.dealing import modelled_blocks
from rdmodel.model.options import FOREIGN_OPTIONS, Definition, Options
from rdmodel.reports.kernel_report import KernelReport
from rdmodel.reports.report import Report
from rdmodel.reports.run import report, usual_what_ifs
from rdmodel.trace import Trace
from tracegen.formats import RecordedTrace
from tracegen.formats.atomic_write import refuse_existing, replacing

SOURCE = ("the kernel", "a CUDA program", "the GPU")
MODELLED = (*SOURCE, "what is modelled")
SIMULATED = (*SOURCE, "what is simulated")

GEOMETRY = ("l1.size", "l1.ways", "l1.line")
SHORT = {
    "l1.index": "--index",
    "l1.mshrs": "--mshr",
    "l1.mshr_merge": "--mshr-merge",
    "l1.mshr_per_warp": "--mshr-per-warp",
}
"""Fields that have an option of their own, which goes before ``--set``."""


def run_report(arguments: argparse.Namespace) -> None:
    """Run everything that a report tells of the kernels or traces given, and write the page."""
    _check_output(arguments)
    arguments.definitions = list(dict.fromkeys(arguments.definitions or DEFINITIONS[:1]))
    asked = _Asked(arguments, machine(arguments))
    with budget_of(arguments) as budget:
        kernels = [
            asked.report_on(source, trace, number, budget)
            for source in arguments.sources
            for number, trace in enumerate(open_sources(source, arguments, budget), 1)
        ]
        result = Report(gpu=asked.gpu, kernels=tuple(kernels))
        if arguments.output is not None:
            page = result.to_html().encode("utf-8")
            with replacing(Path(arguments.output)) as partial:
                partial.write_bytes(page)
    if arguments.json:
        print_json(result.to_dict())
    else:
        several = "1 kernel" if len(kernels) == 1 else f"{len(kernels)} kernels"
        print(f"{arguments.output}: wrote {several}, {len(page):,} bytes")


def _check_output(arguments: argparse.Namespace) -> None:
    """Raise an error for a page that cannot be written, before the work that leads to it."""
    if arguments.output is None:
        if not arguments.json:
            raise ConfigError("--output: is missing; -o PAGE.html names the page, --json prints the numbers")
        return
    target = Path(arguments.output)
    refuse_existing(target, overwrite=arguments.overwrite)
    if not target.parent.is_dir():
        raise TraceError(f"{target}: there is no folder {str(target.parent)!r}")


class _Asked:
    """What is asked of every kernel."""

    def __init__(self, arguments: argparse.Namespace, gpu: GPU) -> None:
        self.gpu = gpu
        self._arguments = arguments
        self._changes = _what_ifs(arguments, gpu)
        self._machines = {name: override(gpu, change) for name, change in self._changes.items()}
        self._options = {
            "seed": arguments.seed,
            "seeds": arguments.seeds,
            "l2": arguments.l2,
            "n_jobs": jobs(arguments),
        }
        self._options |= extent_options(arguments)

    def report_on(self, source: str, trace: Trace, number: int, budget: Budget) -> KernelReport:
        """Report on one launch, the `number`-th of its source."""
        arguments = self._arguments
        # As `info` does: all of a recorded trace is there to be summarised, a kernel would have to be made.
        recorded = isinstance(trace, RecordedTrace) or type(trace) is Trace
        with Progress(f"{source}, counting lines") as progress:
            self._admit(trace, recorded, budget, progress)
        with _Bar(source) as progress:
            found = report(
                trace,
                self.gpu,
                definitions=arguments.definitions,
                ablation=arguments.ablation,
                what_ifs=self._machines,
                simulate=arguments.simulate,
                all_blocks=recorded,
                progress=progress,
                **self._options,
                **rule_options(arguments),
            )
        [kernel] = found.kernels
        name = source if source == kernel.kernel else f"{source}: {kernel.kernel}"
        if Path(source).suffix == LAUNCH_FILE:
            name = f"{name}, launch {arguments.launch or number}"
            arguments = argparse.Namespace(**{**vars(arguments), "launch": arguments.launch or number})
        return replace(kernel, source=name, commands=_commands(arguments, source, self.gpu, self._changes))

    def _admit(self, trace: Trace, recorded: bool, budget: Budget, progress: Progress) -> None:
        """Raise `ConfigError` unless all runs fit into ``--memory``."""
        if budget.limit is None:
            return
        if self._arguments.simulate:
            raise ConfigError("simulate: what the locality needs is not known before, so not with --memory")
        for one in (self.gpu, *self._machines.values()):
            budget.admit_prediction(trace, one, self._options, progress)
        extent = Options(**extent_options(self._arguments)).resolve(self.gpu)
        blocks = None if recorded else modelled_blocks(trace.launch, extent)
        budget.admit_summary(trace, self.gpu.l1.line, progress, blocks)


class _Bar(Progress):
    """Progress over the runs of one kernel together."""

    def describe(self, done: int, total: int) -> str:
        """Return how much is done."""
        return f"{self._what}: {100 * done // total} %"


# ---- what if


def _what_ifs(arguments: argparse.Namespace, gpu: GPU) -> dict[str, dict[str, str]]:
    """Return the changes to the GPU that are tried, by their names."""
    if arguments.no_what_if:
        if arguments.what_ifs:
            raise ConfigError("--no-what-if: not together with --what-if")
        return {}
    if arguments.what_ifs is None:
        return {name: dict(_l1_changes(gpu, one)) for name, one in usual_what_ifs(gpu).items()}
    found = {}
    for key, values in arguments.what_ifs:
        text = f"{key}={values}"
        # A comma within a value, as of masks, is not followed by a key.
        pairs = [pair.partition("=") for pair in re.split(r",(?=[\w.]+=)", text)]
        found[text] = {name: value for name, _, value in pairs}
    return found


def _l1_changes(gpu: GPU, changed: GPU) -> Iterator[tuple[str, str]]:
    for name in ("size", "ways"):
        if getattr(gpu.l1, name) != getattr(changed.l1, name):
            yield f"l1.{name}", str(getattr(changed.l1, name))
    if gpu.l1.index != changed.l1.index:
        yield "l1.index", changed.l1.index.name


# ---- commands


def _commands(
    arguments: argparse.Namespace, source: str, gpu: GPU, changes: Mapping[str, Mapping[str, str]]
) -> dict[str, tuple[str, ...]]:
    """Return the command lines that give the numbers of each part of a report."""
    seed = _given("--seed", arguments.seed, 0)
    asked = [word for one in arguments.definitions for word in ("--definition", one)]
    found = {
        "summary": (command_line("info", source, arguments, MODELLED),),
        "predictions": tuple(_predict(arguments, source, one, ablation=True) for one in arguments.definitions),
        "reuse": (command_line("mrc", source, arguments, MODELLED, seed),),
        "what_ifs": tuple(
            _predict(arguments, source, arguments.definitions[0], more=_changing(override(gpu, change), change))
            for change in changes.values()
        ),
    }
    if arguments.simulate:
        found["comparison"] = (command_line("compare", source, arguments, SIMULATED, [*asked, *seed]),)
        found["locality"] = (command_line("locality", source, arguments, SIMULATED, seed),)
    return found


def _predict(
    arguments: argparse.Namespace,
    source: str,
    definition: Definition,
    *,
    ablation: bool = False,
    more: list[str] | None = None,
) -> str:
    """Return the line that predicts with one definition, without options that only others have."""
    words = _given("--definition", definition, DEFINITIONS[0])
    words += ["--l2"] if arguments.l2 else []
    words += ["--ablation"] if ablation and arguments.ablation else []
    words += [*_given("--seed", arguments.seed, 0), *_given("--seeds", arguments.seeds, 1), *(more or [])]
    foreign = set(FOREIGN_OPTIONS[definition]) if len(arguments.definitions) > 1 else set()
    if definition == "paper" and foreign and arguments.stores in ("step", "evict"):
        foreign.add("stores")
    return command_line("predict", source, arguments, (*MODELLED, "the model"), words, foreign)


def _changing(changed: GPU, change: Mapping[str, str]) -> list[str]:
    """Return the words that make the changed machine; short forms, which go before all others, where there are some."""
    words = []
    if any(key in change for key in GEOMETRY):
        words += ["--l1", f"{changed.l1.size}:{changed.l1.ways}:{changed.l1.line}"]
    for key, value in change.items():
        if key not in GEOMETRY:
            words += [SHORT[key], value] if key in SHORT else ["--set", f"{key}={value}"]
    return words


def _given(option: str, value: Any, default: Any) -> list[str]:
    return [] if value == default else [option, str(value)]


COMMANDS = {"report": run_report}
"""What runs this command."""
