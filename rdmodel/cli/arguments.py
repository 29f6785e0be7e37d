"""The commands and their options, and what the options mean to the functions that the commands call."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from rdmodel.cli.option_groups import (
    DEFAULT_GPU,
    DEFINITIONS,
    add_assignments,
    add_comparison,
    add_contest,
    add_extent,
    add_grid,
    add_machine,
    add_memory,
    add_model,
    add_output,
    add_policies,
    add_report,
    add_runs,
    add_service,
    add_simulator,
    add_source,
    add_sweep,
    add_tiles,
)
from rdmodel.cli.parser import Parser, number, one_of, whole
from rdmodel.errors import ConfigError, suggestion, unknown
from rdmodel.version import __version__

WRITTEN = ("native", "parquet", "trc", "accelsim")
"""Formats that a trace can be written in."""

SOURCE = "a kernel's name, a trace, or a .cu, .ptx, .toml or .json file"


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the parsed arguments; exits with status 2 and one line on bad usage."""
    parser, commands = _build()
    if argv and not argv[0].startswith("-") and argv[0] not in commands:
        parser.error(unknown("command", argv[0], commands))
    arguments, rest = parser.parse_known_args(argv)
    if rest:
        command = commands[arguments.command]
        hint = suggestion(rest[0].split("=")[0], command.options()) if rest[0].startswith("-") else ""
        command.error(f"unknown argument {rest[0]!r}{hint}")
    return arguments


def command_parser(name: str) -> Parser:
    """Return the parser of one command."""
    return _build()[1][name]


def _build() -> tuple[Parser, dict[str, Parser]]:
    parser = Parser(
        prog="rdmodel",
        description="Predict what a GPU's L1 caches will do with a kernel: in seconds, without a GPU.",
    )
    parser.add_argument("--version", action="version", version=f"rdmodel {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands: dict[str, Parser] = {}
    for name, (add_arguments, text) in COMMANDS.items():
        commands[name] = subparsers.add_parser(name, help=text, description=text, allow_abbrev=False)
        add_arguments(commands[name])
    return parser, commands


# ---- commands


def _predict(parser: Parser) -> None:
    parser.add_argument("sources", nargs="+", metavar="KERNEL_OR_FILE", help=SOURCE)
    add_source(parser)
    add_machine(parser)
    add_extent(parser)
    add_memory(parser)
    add_model(parser)
    add_runs(parser)
    add_output(parser, csv=True)


def _simulate(parser: Parser) -> None:
    _locality(parser)
    add_memory(parser, hint="; an ideal memory of so many cycles is --ideal-memory")


def _locality(parser: Parser) -> None:
    parser.add_argument("sources", nargs="+", metavar="KERNEL_OR_FILE", help=SOURCE)
    add_source(parser)
    add_machine(parser)
    add_grid(parser)
    add_simulator(parser)
    add_policies(parser)
    parser.add_argument("--seed", type=whole, default=0, metavar="N", help="recorded; the machine draws nothing (0)")
    add_output(parser, csv=True)


def _policies(parser: Parser) -> None:
    text = f"{SOURCE}; with --suite: its kernels; without either: the policies are listed"
    parser.add_argument("sources", nargs="*", metavar="KERNEL_OR_FILE", help=text)
    add_source(parser)
    add_machine(parser)
    add_grid(parser)
    add_contest(parser)
    add_simulator(parser)
    parser.add_argument("--seed", type=whole, default=0, metavar="N", help="recorded; the machine draws nothing (0)")
    add_output(parser, csv=True, json="one JSON object with all runs (without kernels: a list of policies)")


def _compare(parser: Parser) -> None:
    parser.add_argument("sources", nargs="*", metavar="KERNEL_OR_FILE", help=f"{SOURCE}; with --suite: its kernels")
    add_source(parser)
    add_machine(parser)
    add_grid(parser)
    add_comparison(parser)
    add_output(parser, csv=True, json="one JSON object (for several kernels: all of them, and their agreement)")


def _calibrate(parser: Parser) -> None:
    parser.add_argument(
        "gpu", nargs="?", default=DEFAULT_GPU, metavar="GPU", help=f"preset or .toml file ({DEFAULT_GPU})"
    )
    parser.add_argument("--measured", metavar="FILE", help="latencies in cycles to fit instead of simulated ones")
    add_assignments(parser)
    parser.add_argument("--seed", type=whole, default=0, metavar="N", help="seed of the random pattern (0)")
    add_output(parser, json="one JSON object")


def _trace(parser: Parser) -> None:
    parser.add_argument("source", metavar="KERNEL_OR_FILE", help=SOURCE)
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="a folder, or a file: .parquet, .trc, ...")
    parser.add_argument(
        "--format", type=one_of("format", WRITTEN), metavar="|".join(WRITTEN), help="default: by the ending of OUT"
    )
    parser.add_argument(
        "--all", action="store_true", help="all blocks, as simulate needs them, not only those that predict would model"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an older trace")
    add_source(parser)
    add_machine(parser)
    add_extent(parser)
    add_memory(parser)


def _info(parser: Parser) -> None:
    parser.add_argument("source", metavar="FILE_OR_KERNEL", help=SOURCE)
    parser.add_argument(
        "--launches", action="store_true", help="list the launches that a file holds (with --kernel: those that match)"
    )
    add_source(parser)
    add_machine(parser)
    add_extent(parser)
    add_memory(parser)
    add_output(parser)


def _mrc(parser: Parser) -> None:
    parser.add_argument("source", metavar="KERNEL_OR_FILE", help=SOURCE)
    parser.add_argument("--sizes", metavar="SIZE,...", help="cache sizes in bytes (16K,48K); default: powers of two")
    parser.add_argument(
        "--order",
        type=one_of("order", ("round-robin", "hardware", "paper")),
        metavar="round-robin|hardware|paper",
        default="round-robin",
        help="round-robin: warps take turns, no latencies (default); or the order of a definition of predict",
    )
    parser.add_argument("--seed", type=whole, default=0, metavar="N", help="seed of the random draws (0)")
    parser.add_argument(
        "--sample", type=number, metavar="RATE", help="follow only this share of the lines, and estimate: 0.01"
    )
    add_source(parser)
    add_machine(parser)
    add_extent(parser)
    add_memory(parser)
    add_output(parser, csv=True)


def _report(parser: Parser) -> None:
    parser.add_argument("sources", nargs="+", metavar="KERNEL_OR_FILE", help=SOURCE)
    parser.add_argument("-o", "--output", metavar="PAGE.html", help="the page; without --json it has to be named")
    parser.add_argument("--overwrite", action="store_true", help="replace an older file")
    add_report(parser)
    add_source(parser)
    add_machine(parser)
    add_extent(parser)
    add_model(parser, several=True)
    add_memory(parser)
    add_output(parser, json="print everything as one JSON object")


def _tiles(parser: Parser) -> None:
    parser.add_argument("source", metavar="KERNEL_OR_FILE", help="a kernel's name, or a loop nest in a .json file")
    add_tiles(parser)
    add_machine(parser)
    add_output(parser, csv=True, json="one JSON object")


def _sweep(parser: Parser) -> None:
    parser.add_argument("sources", nargs="+", metavar="KERNEL_OR_FILE", help=SOURCE)
    add_source(parser)
    add_machine(parser)
    add_extent(parser)
    add_model(parser)
    add_sweep(parser)
    add_output(parser, csv=True, json="one JSON object")


def _gpus(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a preset or a .toml file")
    add_assignments(parser)
    add_output(parser)


def _serve(parser: Parser) -> None:
    add_service(parser)
    add_memory(parser)


COMMANDS: dict[str, tuple[Callable[[Parser], None], str]] = {
    "predict": (_predict, "Predict the L1 miss rate of kernels or traces, with its causes."),
    "simulate": (_simulate, "Simulate kernels or traces cycle by cycle: L1s, crossbar, L2 and DRAM."),
    "compare": (_compare, "Compare the model with the simulator, side by side, with the error by cause."),
    "policies": (_policies, "Run cache-management policies side by side, or list them."),
    "calibrate": (_calibrate, "Fit the model's latencies to the simulated GPU, or to measured ones."),
    "locality": (_locality, "Show who uses lines of the L1s again, how far apart, and what loads have in common."),
    "trace": (_trace, "Make a trace of a kernel, or convert one."),
    "info": (_info, "Show the launch, instructions, footprint and locality of a trace."),
    "mrc": (_mrc, "Show the reuse-distance histogram and the miss-ratio curve."),
    "report": (_report, "Make one page of what the caches do with kernels or traces, why, and what would help."),
    "tiles": (_tiles, "Rank tile sizes or block shapes of a kernel by what the caches do."),
    "sweep": (_sweep, "Run kernels under every point of a grid of configurations; go on where it was interrupted."),
    "serve": (_serve, "Answer requests as JSON, one per line on stdin, with one line each on stdout."),
    "kernels": (add_output, "List the kernels that come with rdmodel."),
    "gpus": (_gpus, "List the GPUs, or show one fully expanded; the output can be loaded again."),
}
"""What adds the arguments of each command, and its description."""


# ---- what the options mean


def machine_assignments(arguments: argparse.Namespace) -> dict[str, str]:
    """Return all changes to the GPU, short forms and ``--set`` alike, as dotted keys and texts."""
    changes = dict(arguments.assignments)
    if getattr(arguments, "l1", None):
        changes |= dict(zip(("l1.size", "l1.ways", "l1.line"), arguments.l1, strict=False))
    for option, key in (
        ("index", "l1.index"),
        ("mshr", "l1.mshrs"),
        ("mshr_per_warp", "l1.mshr_per_warp"),
        ("mshr_merge", "l1.mshr_merge"),
        ("allocate", "l1.allocate"),
    ):
        if getattr(arguments, option, None) is not None:
            changes[key] = getattr(arguments, option)
    return changes


def extent_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `predict` that say which SMs and blocks are modelled."""
    threads = None if arguments.threads == "all" else arguments.threads
    return {"sms": arguments.sms, "model_sms": arguments.model_sms, "threads": threads, "blocks": arguments.blocks}


def model_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return all options of `predict` that are on the command line."""
    names = "definition seed seeds l2 ablation breakdown sample_sms sample_blocks"
    options = {name: getattr(arguments, name) for name in names.split()} | extent_options(arguments)
    return options | rule_options(arguments) | {"n_jobs": jobs(arguments)}


def rule_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `predict` that say by which rules a definition goes."""
    names = (
        "cta stores divergence effects clip sched schedulers stall full_set step stagger gap first_touch_factor "
        "hit_latency"
    )
    options = {name: getattr(arguments, name) for name in names.split()}
    if arguments.latency is not None:
        options["lat_min"], options["sigma"] = arguments.latency
    return options


def jobs(arguments: argparse.Namespace) -> int:
    """Return how many threads `predict` may use: one under ``--memory``, as each SM under way takes its share."""
    asked: int | None = getattr(arguments, "jobs", None)
    if arguments.memory is None:
        return -1 if asked is None else asked
    if asked not in (None, 1):
        raise ConfigError(f"jobs={asked}: with --memory one SM or seed is modelled at a time")
    return 1


def simulation_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return all options of `simulate` that are on the command line, but for policies."""
    options = {name: getattr(arguments, name) for name in ("sms", "blocks", "sched", "seed", "check")}
    return options | {"memory": arguments.ideal_memory, "stores": not arguments.no_stores}


def comparison_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return all options of `compare` that are on the command line, but for the latencies."""
    options = {name: getattr(arguments, name) for name in ("sms", "blocks", "sched", "seed", "check")}
    return options | {"definitions": arguments.definitions or list(DEFINITIONS)}


def kernel_parameters(pairs: Iterable[tuple[str, str]], sizes: Container[str]) -> dict[str, int | str]:
    """Return ``--param`` values, those of `sizes` as whole numbers; raise `ConfigError` for anything else of these.

    Other names are inputs, which are files, or mistakes: the kernel knows.
    """
    parameters: dict[str, int | str] = {}
    for name, text in pairs:
        try:
            parameters[name] = int(text) if name in sizes else text
        except ValueError:
            raise ConfigError(f"param {name}={text!r}: must be a whole number") from None
    return parameters
