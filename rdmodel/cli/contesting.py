"""`rdmodel policies`: combinations of policies side by side, or the list of what there is."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from rdmodel.cli import text_contest
from rdmodel.cli.arguments import simulation_options
from rdmodel.cli.output import print_csv, print_json
from rdmodel.cli.progress_line import Progress
from rdmodel.cli.sources import machine, open_sources, open_suite
from rdmodel.contests.combinations import COMBINATIONS, Combination, combination, combinations
from rdmodel.contests.contest import Contest, contest
from rdmodel.errors import ConfigError
from rdmodel.plots import charts
from rdmodel.policies import POLICIES
from rdmodel.trace import Trace

SWEEP = "swl:best"
"""What stands for static limits by default: they have no default of their own."""

BAR = 24
"""Characters of the progress bar."""


def run_policies(arguments: argparse.Namespace) -> None:
    """Run policies side by side on kernels; without kernels, list them."""
    if arguments.sources or arguments.suite is not None:
        _contest(arguments)
        return
    for option in ("combinations", "csv", "plot"):
        if getattr(arguments, option):
            raise ConfigError("KERNEL_OR_FILE: is missing; name a kernel or a file, or --suite NAME")
    if arguments.json:
        print_json(text_contest.policies())
    else:
        print(text_contest.listing())


def _contest(arguments: argparse.Namespace) -> None:
    """Run a contest; what is finished is printed even if the rest cannot be."""
    if arguments.plot is not None:
        charts.check_path(arguments.plot)
    wanted = _wanted(arguments.combinations)
    gpu = machine(arguments)
    finished: list[Contest] = []

    def keep(one: Contest) -> None:
        finished[:] = [one]

    try:
        with Bar("policies") as bar:
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
    if arguments.suite is not None:
        yield from open_suite(arguments.suite, arguments.sources, arguments)
    for source in arguments.sources if arguments.suite is None else ():
        yield from open_sources(source, arguments)


def _print(arguments: argparse.Namespace, result: Contest) -> None:
    """Print a contest in the form that is asked for, and draw it if that is asked for."""
    if arguments.json:
        print_json(result.to_dict())
    elif arguments.csv:
        print_csv(result.to_rows())
    else:
        print(text_contest.contest(result))
    if arguments.plot is not None:
        charts.bars(result, arguments.plot)


class Bar(Progress):
    """Progress over runs, which end in any order."""

    def describe(self, done: int, total: int) -> str:
        """Return a bar, and how many runs are finished."""
        return f"[{'#' * (BAR * done // total):.<{BAR}}] {done} of {total} runs"


COMMANDS = {"policies": run_policies}
"""What runs this command."""
