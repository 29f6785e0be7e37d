"""Run ``rdmodel sweep``."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rdmodel.answers.store import Answers
from rdmodel.cli.option_values import changed_gpu, extent_options, gpu_changes, output_form, source_options
from rdmodel.cli.output import print_csv, print_json, print_note, print_text
from rdmodel.cli.progress_line import bar_progress
from rdmodel.cli.sources import open_all
from rdmodel.cli.text_sweep import format_sweep
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU
from rdmodel.gpu.default import default_gpu
from rdmodel.gpu.overrides import LIST_KEYS
from rdmodel.model.options import Options
from rdmodel.plots.charts import check_path
from rdmodel.plots.save_figure import save_figure
from rdmodel.sweeps.sweep import sweep

OPTION_DEFAULTS: dict[str, Any] = {
    "seed": 0,
    "seeds": 1,
    **{option.name: option.default for option in fields(Options)},
}
"""Options of the engines with their defaults, which are not passed on: an engine may lack the option."""


def run_sweep(arguments: argparse.Namespace) -> None:
    """Run every combination of kernels, GPUs and options, and print the results."""
    if arguments.plot is not None:
        check_path(arguments.plot)
    grid = _grid(arguments)
    gpus = _gpus(arguments, grid)
    chosen = tuple(gpus) if isinstance(gpus, list) else (gpus,)
    traces = open_all(arguments.sources, replace(source_options(arguments), gpus=chosen))
    with nullcontext() if arguments.no_cache else Answers(arguments.cache) as answers:
        counter = PointCounter()
        with counter.line:
            try:
                result = sweep(
                    traces,
                    gpus,
                    engine=arguments.engine,
                    n_jobs=arguments.jobs,
                    answers=answers,
                    merge=arguments.merge,
                    shard=arguments.shard,
                    progress=counter,
                    **grid,
                )
            except KeyboardInterrupt:
                counter.report_interruption(stored=answers is not None and answers.trouble is None)
                raise
        if answers is not None and answers.trouble is not None:
            print_note(answers.trouble)
    form = output_form(arguments)
    if form == "json":
        print_json(result.to_dict())
    elif form == "csv":
        print_csv(result.to_rows())
    else:
        print_text(format_sweep(result))
    if arguments.plot is not None:
        save_figure(result, arguments.plot)


def _grid(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the axes of the sweep: those of ``--vary``, ``--set`` with several values, and options with one value."""
    grid: dict[str, Any] = {}
    varied = [(name, text, "--vary") for name, text in arguments.vary]
    varied += [(name, text, "--set") for name, text in arguments.assignments if _is_list(name, text)]
    for name, text, option in varied:
        if name in grid:
            raise ConfigError(f"{option} {name}: is given twice; name all values at once: {name}=1,2")
        grid[name] = text.split(",")
    for name, value in _engine_options(arguments).items():
        if name in grid:
            raise ConfigError(f"--vary {name}: cannot be combined with --{_option_name(name)}")
        grid[name] = value
    return grid


def _is_list(name: str, text: str) -> bool:
    return "," in text and name not in LIST_KEYS


def _engine_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the engine that differ from their defaults."""
    latency = arguments.latency or (None, None)
    values = {
        **vars(arguments),
        **{name: OPTION_DEFAULTS[name] for name in ("model_sms", "threads")},
        **{name: value for name, value in extent_options(arguments).items() if name in OPTION_DEFAULTS},
        "lat_min": latency[0],
        "sigma": latency[1],
    }
    return {name: values[name] for name, default in OPTION_DEFAULTS.items() if values[name] != default}


def _option_name(name: str) -> str:
    """Return the name on the command line of an option of the engine."""
    return "latency" if name in ("lat_min", "sigma") else name.replace("_", "-")


def _gpus(arguments: argparse.Namespace, grid: dict[str, Any]) -> GPU | list[GPU]:
    """Return the GPU, or a list of them, with the changes that hold for all points; take ``gpu`` out of `grid`."""
    names = grid.pop("gpu", None)
    if names is not None and arguments.gpu is not None:
        raise ConfigError("--vary gpu: cannot be combined with --gpu")
    if names is None and arguments.gpu is not None and "," in arguments.gpu and not Path(arguments.gpu).exists():
        names = arguments.gpu.split(",")
    definitions = grid.get("definition", ())
    definitions = [definitions] if isinstance(definitions, str) else definitions
    changes = gpu_changes(arguments, [pair for pair in arguments.assignments if not _is_list(*pair)])
    gpus = [changed_gpu(name, changes) for name in names or [arguments.gpu or default_gpu(definitions)]]
    return gpus[0] if names is None else gpus


class PointCounter:
    """Progress over the points of a sweep, which finish in any order."""

    def __init__(self) -> None:
        self.done = self.total = 0
        self.line = bar_progress("points")

    def __call__(self, done: int, total: int) -> None:
        """Record the number of finished points, and redraw the line."""
        self.done, self.total = done, total
        self.line(done, total)

    def report_interruption(self, stored: bool) -> None:
        """Report on stderr how many points are finished, and whether they are `stored`."""
        if self.done:
            fate = "are stored: run the command again to continue" if stored else "are lost: they were not stored"
            self.line.erase()
            print_note(f"{self.done:,} of {self.total:,} points {fate}")
