"""Run ``rdmodel policies``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from rdmodel.cli import text_contest
from rdmodel.cli.option_values import output_form, selected_gpu, simulation_options, source_options
from rdmodel.cli.output import print_csv, print_json
from rdmodel.cli.progress_line import bar_progress
from rdmodel.cli.sources import open_sources, open_suite
from rdmodel.contests.combinations import COMBINATIONS, Combination, combination, combinations
from rdmodel.contests.contest import Contest, contest
from rdmodel.errors import ConfigError
from rdmodel.plots import charts
from rdmodel.policies import POLICIES
from rdmodel.trace import Trace

SWEEP = "swl:best"
"""What stands for static limits by default: they have no default of their own."""


def run_policies(arguments: argparse.Namespace) -> None:
    """Run policies side by side on kernels; without kernels, list them."""
    if arguments.sources or arguments.suite is not None:
        _contest(arguments)
        return
    for option in ("combinations", "csv", "plot"):
        if getattr(arguments, option):
            raise ConfigError("KERNEL_OR_FILE: is missing; name a kernel or a file, or --suite NAME")
    if output_form(arguments) == "json":
        print_json(text_contest.policies())
    else:
        print(text_contest.listing())


def _contest(arguments: argparse.Namespace) -> None:
    """Run a contest; what is finished is printed even if the rest cannot be."""
    if arguments.plot is not None:
        charts.check_path(arguments.plot)
    wanted = _wanted(arguments.combinations)
    gpu = selected_gpu(arguments)
    finished: list[Contest] = []

    def keep(one: Contest) -> None:
        finished[:] = [one]

    try:
        with bar_progress("runs") as bar:
            options = simulation_options(arguments)
            contest(_traces(arguments), wanted, gpu, n_jobs=arguments.jobs, progress=bar, so_far=keep, **options)
    finally:
        if finished:
            _print(arguments, finished[0])


def _wanted(texts: Sequence[str] | None) -> list[Combination]:
    """Return the combinations that are asked for; by default, all that need no options."""
    if texts is not None:
        return [one for text in texts for one in combinations(text)]
    alone = [name for name, cls in POLICIES.items() if not text_contest.required(cls)]
    return [combination(text) for text in (SWEEP, *alone, *COMBINATIONS)]


def _traces(arguments: argparse.Namespace) -> Iterator[Trace]:
    """Yield the traces; those of a launch file one by one, since each goes on where the one before ended."""
    options = source_options(arguments)
    if arguments.suite is not None:
        yield from open_suite(arguments.suite, arguments.sources, options)
    for source in arguments.sources if arguments.suite is None else ():
        yield from open_sources(source, options)


def _print(arguments: argparse.Namespace, result: Contest) -> None:
    """Print a contest in the form that is asked for, and draw it if that is asked for."""
    form = output_form(arguments)
    if form == "json":
        print_json(result.to_dict())
    elif form == "csv":
        print_csv(result.to_rows())
    else:
        print(text_contest.format_contest(result))
    if arguments.plot is not None:
        charts.bars(result, arguments.plot)
