"""Run ``rdmodel policies``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from rdmodel.answers.store import Answers
from rdmodel.cli import text_contest
from rdmodel.cli.option_values import output_form, selected_gpu, simulation_options, source_options
from rdmodel.cli.output import print_csv, print_json, print_note, print_text
from rdmodel.cli.progress_line import bar_progress
from rdmodel.cli.sources import open_sources, open_suite
from rdmodel.contests.contest import Contest, contest
from rdmodel.contests.defaults import default_combinations
from rdmodel.errors import ConfigError
from rdmodel.plots import charts
from rdmodel.plots.contest_figure import contest_figure
from rdmodel.policies.combinations import combinations
from rdmodel.trace import Trace


def run_policies(arguments: argparse.Namespace) -> None:
    """Run policies side by side on kernels; without kernels, list them."""
    if arguments.list:
        _refuse_with_list(arguments)
        _print_list(arguments, text_contest.choice_rows, text_contest.format_choices)
    elif arguments.sources or arguments.suite is not None:
        _contest(arguments)
    else:
        for option in ("combinations", "csv", "plot"):
            if getattr(arguments, option):
                raise ConfigError("KERNEL_OR_FILE: is missing; name a kernel or a file, or --suite NAME")
        _print_list(arguments, text_contest.policy_rows, text_contest.format_listing)


def _refuse_with_list(arguments: argparse.Namespace) -> None:
    """Raise `ConfigError` for options that need a kernel."""
    given = {"KERNEL_OR_FILE": arguments.sources, "--suite": arguments.suite, "--policies": arguments.combinations}
    given |= {"--csv": arguments.csv, "--plot": arguments.plot}
    for name, value in given.items():
        if value:
            raise ConfigError(f"--list cannot be combined with {name}: it runs no kernel")


def _print_list(arguments: argparse.Namespace, rows: Callable[[], Any], text: Callable[[], str]) -> None:
    """Print a list of policies as JSON or text."""
    if output_form(arguments) == "json":
        print_json(rows())
    else:
        print_text(text())


def _contest(arguments: argparse.Namespace) -> None:
    """Run a contest; print the finished runs even if the rest fails."""
    if arguments.plot is not None:
        charts.check_path(arguments.plot)
    gpu = selected_gpu(arguments)
    texts = arguments.combinations
    wanted = default_combinations() if texts is None else [entry for text in texts for entry in combinations(text)]
    finished: list[Contest] = []

    def keep(result: Contest) -> None:
        finished[:] = [result]

    with nullcontext() if arguments.no_cache else Answers(arguments.cache) as answers:
        try:
            with bar_progress("runs") as bar:
                options = simulation_options(arguments)
                shared = {"n_jobs": arguments.jobs, "jitter": arguments.jitter, "answers": answers}
                keep(contest(_traces(arguments), wanted, gpu, progress=bar, so_far=keep, **shared, **options))
        finally:
            if finished and finished[0].simulations:
                _print(arguments, finished[0])
            if finished and finished[0].kept:
                print_note(f"{finished[0].kept:,} runs were taken from the answers file")
            if answers is not None and answers.trouble is not None:
                print_note(answers.trouble)


def _traces(arguments: argparse.Namespace) -> Iterator[Trace]:
    """Yield the traces; those of a launch file one by one, since each goes on where the one before ended."""
    options = source_options(arguments)
    if arguments.suite is not None:
        yield from open_suite(arguments.suite, arguments.sources, options)
    for source in arguments.sources if arguments.suite is None else ():
        yield from open_sources(source, options)


def _print(arguments: argparse.Namespace, result: Contest) -> None:
    """Print a contest as JSON, CSV or text, and draw it if a plot was requested."""
    form = output_form(arguments)
    if form == "json":
        print_json(result.to_dict())
    elif form == "csv":
        print_csv(result.to_rows())
    else:
        print_text(text_contest.format_contest(result))
    if arguments.plot is not None:
        contest_figure(result, arguments.plot)
