"""`rdmodel sweep`: kernels under every point of a grid of configurations."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

from rdmodel import presets
from rdmodel.answers.store import Answers
from rdmodel.cli import text_sweep
from rdmodel.cli.arguments import machine_assignments
from rdmodel.cli.contesting import BAR_WIDTH
from rdmodel.cli.option_groups import DEFAULT_GPU
from rdmodel.cli.output import print_csv, print_json
from rdmodel.cli.progress_line import Progress
from rdmodel.cli.sources import open_sources
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU
from rdmodel.gpu.overrides import override
from rdmodel.model.options import Options
from rdmodel.sweeps.sweep import sweep
from rdmodel.trace import Trace

MASKS = "l1.index.masks"
"""The key whose value has commas of its own."""

NOT_GIVEN: dict[str, Any] = {"seed": 0, "seeds": 1, **{one.name: one.default for one in fields(Options)}}
"""What options are when nobody asked for them: engines without them must not be told."""


def run_sweep(arguments: argparse.Namespace) -> None:
    """Run the sweep that is asked for, and print it."""
    grid = _grid(arguments)
    gpus = _gpus(arguments, grid)
    with nullcontext() if arguments.no_cache else Answers(arguments.cache) as answers:
        with Bar("sweep") as bar:
            try:
                found = sweep(
                    _traces(arguments),
                    gpus,
                    engine=arguments.engine,
                    n_jobs=arguments.jobs,
                    answers=answers,
                    progress=bar,
                    **grid,
                )
            except KeyboardInterrupt:
                bar.tell_interruption(kept=answers is not None and answers.trouble is None)
                raise
        if answers is not None and answers.trouble is not None:
            print(f"rdmodel: {answers.trouble}", file=sys.stderr)
    if arguments.json:
        print_json(found.to_dict())
    elif arguments.csv:
        print_csv(found.to_rows())
    else:
        print(text_sweep.sweep(found))


def _traces(arguments: argparse.Namespace) -> Iterator[Trace]:
    for source in arguments.sources:
        yield from open_sources(source, arguments)


def _grid(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what is varied: of ``--vary``, and of ``--set`` with several values; then the options that are given."""
    grid: dict[str, Any] = {}
    varied = [(name, text, "--vary") for name, text in arguments.vary]
    varied += [(name, text, "--set") for name, text in arguments.assignments if _is_list(name, text)]
    for name, text, option in varied:
        if name in grid:
            raise ConfigError(f"{option} {name}: is given twice; name all values at once: {name}=1,2")
        grid[name] = text.split(",")
    for name, value in _options(arguments).items():
        if name in grid:
            raise ConfigError(f"--vary {name}: --{_option(name)} is given, too")
        grid[name] = value
    return grid


def _is_list(name: str, text: str) -> bool:
    return "," in text and name != MASKS


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the engine that are on the command line."""
    latency = arguments.latency or (None, None)
    named = {
        **vars(arguments),
        "threads": None if arguments.threads == "all" else arguments.threads,
        "lat_min": latency[0],
        "sigma": latency[1],
    }
    return {name: named[name] for name, usual in NOT_GIVEN.items() if named[name] != usual}


def _option(name: str) -> str:
    return "latency" if name in ("lat_min", "sigma") else name.replace("_", "-")


def _gpus(arguments: argparse.Namespace, grid: dict[str, Any]) -> GPU | list[GPU]:
    """Return the GPU, or those of a list, with the changes that hold for all points."""
    several = grid.pop("gpu", None)
    if several is not None and arguments.gpu != DEFAULT_GPU:
        raise ConfigError("--vary gpu: --gpu is given, too")
    if several is None and "," in arguments.gpu and not Path(arguments.gpu).exists():
        several = arguments.gpu.split(",")
    arguments.assignments = [(name, text) for name, text in arguments.assignments if not _is_list(name, text)]
    changes = machine_assignments(arguments)
    gpus = [
        override(presets.gpu(name), changes) if changes else presets.gpu(name) for name in several or [arguments.gpu]
    ]
    return gpus[0] if several is None else gpus


class Bar(Progress):
    """Progress over points, which are finished in any order."""

    done = 0
    total = 0

    def __call__(self, done: int, total: int) -> None:
        """Take note of how many points are finished."""
        self.done, self.total = done, total
        super().__call__(done, total)

    def describe(self, done: int, total: int) -> str:
        """Return a bar, and how many points are finished."""
        return f"[{'#' * (BAR_WIDTH * done // max(1, total)):.<{BAR_WIDTH}}] {done:,} of {total:,} points"

    def tell_interruption(self, kept: bool) -> None:
        """Say what is left of the work."""
        if self.done:
            what = "are kept: run it again to go on" if kept else "are lost: without a cache nothing is kept"
            self.__exit__()
            print(f"rdmodel: {self.done:,} of {self.total:,} points {what}", file=sys.stderr)


COMMANDS = {"sweep": run_sweep}
"""What runs this command."""
