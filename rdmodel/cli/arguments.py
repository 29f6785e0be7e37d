"""Declare the commands and their options, and parse a command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import NoReturn

from rdmodel.cli.analysis_options import (
    add_comparison,
    add_contest,
    add_report,
    add_service,
    add_sweep,
    add_tiles,
)
from rdmodel.cli.engine_options import (
    add_model,
    add_policies,
    add_runs,
    add_simulation_seed,
    add_simulator,
    add_warm_l2,
)
from rdmodel.cli.option_groups import (
    add_assignments,
    add_extent,
    add_grid,
    add_machine,
    add_memory,
    add_metrics,
    add_option,
    add_output,
    add_plot,
    add_seed,
    add_source,
    choice,
)
from rdmodel.cli.parser import Parser, finite_number, size_with_unit, whole_number
from rdmodel.errors import suggestion, unknown
from rdmodel.gpu.default import DEFAULT_GPU
from rdmodel.version import __version__

WRITABLE_FORMATS = ("native", "parquet", "trc", "accelsim")
"""Formats in which ``rdmodel trace`` writes traces."""

SHELLS = ("bash", "zsh", "fish")
"""Shells for which there is a completion script."""

PLUGIN_ACTIONS = ("build", "show", "include")
"""What ``plugin`` does."""

SOURCE_HELP = "name of a kernel, a trace, recording, .cu, .ptx, .toml or .json file, or - for a trace from stdin"
"""Help text of every source argument."""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the parsed arguments; bad usage prints one line and exits with status 2."""
    if not argv or argv[0].startswith("-"):
        # Help, the version, or a mistake: the whole parser exits, unless an unknown option stands before a command.
        arguments, rest = build_parser(options=False)[0].parse_known_args(argv)
        _refuse_unknown(command_parser(arguments.command), rest[0])
    name, words = argv[0], [*argv[1:]]
    if name not in COMMANDS:
        build_parser(options=False)[0].error(unknown("command", name, COMMANDS))
    if name == "nvcc" and words not in (["-h"], ["--help"], []):
        return argparse.Namespace(command="nvcc", arguments=words)  # all options are those of nvcc
    # All commands together have 20 times as many options to declare.
    command = command_parser(name)
    if "--option" in command.option_names():
        words = _with_nvcc_options(words, command)
    arguments, rest = command.parse_known_args(words, argparse.Namespace(command=name))
    if rest:
        _refuse_unknown(command, rest[0])
    if getattr(arguments, "sources", []).count("-") > 1:
        command.error("-: standard input can be read only once")
    return arguments


def _refuse_unknown(command: Parser, word: str) -> NoReturn:
    """Exit with a message about a word that a command does not take."""
    hint = suggestion(word.split("=")[0], command.option_names()) if word.startswith("-") else ""
    command.error(f"unknown argument {word!r}{hint}")


def _with_nvcc_options(words: Sequence[str], command: Parser) -> list[str]:
    """Return the words of a command with options of nvcc as values of ``--option``."""
    # Help and errors of usage need no dataclasses, whose module takes as long to load as the whole parser.
    from rdmodel.common.nvcc_options import read_nvcc_options, split_nvcc_options

    rest, options = split_nvcc_options(words, command.all_names())
    dlcm = read_nvcc_options(options).dlcm
    if dlcm is not None and "--dlcm" in command.option_names():
        options = [option for option in options if read_nvcc_options([option]).dlcm is None]
        rest = ["--dlcm", dlcm, *rest]  # a later --dlcm takes precedence
    return [*(f"--option={option}" for option in options), *rest]


def command_parser(name: str) -> Parser:
    """Return the parser of one command."""
    add_arguments, text = COMMANDS[name]
    parser = Parser(prog=f"rdmodel {name}", description=text, allow_abbrev=False)
    add_arguments(parser)
    return parser


def build_parser(*, options: bool = True) -> tuple[Parser, dict[str, Parser]]:
    """Return the parser of the whole command line, and the parsers of its commands by name, with their `options`."""
    parser = Parser(
        prog="rdmodel",
        description="Predict the cache behaviour of GPU kernels within seconds, without a GPU.",
    )
    parser.add_argument("--version", action="version", version=f"rdmodel {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands: dict[str, Parser] = {}
    for name, (add_arguments, text) in COMMANDS.items():
        commands[name] = subparsers.add_parser(name, help=text, description=text, allow_abbrev=False)
        if options:
            add_arguments(commands[name])
    return parser, commands


# ---- options of each command


def _add_sources(parser: Parser, help: str = SOURCE_HELP, nargs: str = "+") -> None:
    add_option(parser, "sources", nargs=nargs, metavar="KERNEL_OR_FILE", help=help)


def _add_source_name(parser: Parser, help: str = SOURCE_HELP) -> None:
    add_option(parser, "source", metavar="KERNEL_OR_FILE", help=help)


def _predict(parser: Parser) -> None:
    _add_sources(parser)
    add_source(parser)
    add_machine(parser, paper="--definition")
    add_extent(parser)
    add_memory(parser)
    add_model(parser)
    add_runs(parser)
    add_metrics(add_output(parser, csv=True))


def _time(parser: Parser) -> None:
    _add_sources(parser)
    add_source(parser)
    add_machine(parser)
    add_memory(parser)
    group = parser.add_argument_group("the estimate")
    add_option(group, "--sample", type=whole_number, default=3, metavar="N", help="blocks whose work is counted")
    add_option(
        group,
        "--caches",
        **choice("source of the traffic", ("auto", "estimate", "sample")),
        default="auto",
        help="source of the traffic: excerpts of the whole grid (estimate), or one SM and neighbouring blocks (sample)",
    )
    add_option(group, "--seed", type=whole_number, default=0, metavar="N", help="seed of the model")
    add_output(parser, csv=True)


def _simulate(parser: Parser) -> None:
    add_metrics(_add_simulation(parser))
    add_warm_l2(parser)
    add_memory(parser, hint="; --ideal-memory takes a number of cycles")


def _locality(parser: Parser) -> None:
    _add_simulation(parser)


def _add_simulation(parser: Parser) -> argparse._ArgumentGroup:
    """Add the options of a command that simulates; return the group of those that choose its output."""
    _add_sources(parser)
    add_source(parser)
    add_machine(parser)
    add_grid(parser)
    add_simulator(parser)
    add_policies(parser)
    add_simulation_seed(parser)
    add_plot(parser, "draw the classes of re-references")
    return add_output(parser, csv=True)


def _policies(parser: Parser) -> None:
    _add_sources(
        parser,
        f"{SOURCE_HELP}; with --suite: name of a kernel of the suite; without both: list the policies",
        "*",
    )
    add_source(parser)
    add_machine(parser)
    add_grid(parser)
    add_contest(parser)
    add_simulator(parser)
    add_simulation_seed(parser)
    add_output(parser, csv=True, json="one JSON object with all runs (without kernels: a list of the policies)")


def _compare(parser: Parser) -> None:
    _add_sources(parser, f"{SOURCE_HELP}; with --suite: name of a kernel of the suite", "*")
    add_source(parser)
    add_machine(parser, paper="--definition")
    add_grid(parser)
    add_comparison(parser)
    add_output(parser, csv=True, json="one JSON object (for several kernels: all comparisons and their agreement)")


def _diff(parser: Parser) -> None:
    for name, age in (("old", "older"), ("new", "newer")):
        help = f"the {age} side: {SOURCE_HELP}, or a file with results of predict --json"
        add_option(parser, name, metavar=name.upper(), help=help)
    add_option(
        parser,
        "--fail-if",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit with status 1 if this holds for a kernel; 'dram_bytes > +5%%' is about a change in percent, "
        "'misses > +100' about a difference, and 'miss_rate > 0.2' about the new value; repeat for several",
    )
    add_source(parser)
    add_machine(parser, paper="--definition")
    add_extent(parser)
    add_memory(parser)
    add_model(parser)
    add_runs(parser)
    add_output(parser, csv=True)


def _calibrate(parser: Parser) -> None:
    add_option(parser, "gpu", nargs="?", default=DEFAULT_GPU, metavar="GPU", help="preset or .toml file of a GPU")
    add_option(
        parser,
        "--measured",
        metavar="FILE",
        help="file with measured miss latencies in cycles, to fit instead of simulated ones",
    )
    add_assignments(parser)
    add_seed(parser, "seed of the random access pattern")
    add_output(parser, json="one JSON object")


def _trace(parser: Parser) -> None:
    _add_source_name(parser)
    add_option(parser, "-o", "--output", required=True, metavar="OUT", help="folder or file to write the trace to")
    add_option(
        parser,
        "--format",
        help="format of the trace to write",
        default_text="by the suffix of OUT",
        **choice("format", WRITABLE_FORMATS),
    )
    add_option(
        parser,
        "--all",
        action="store_true",
        help="write all blocks, which simulate needs, and not only those that predict would model",
    )
    add_option(parser, "--overwrite", action="store_true", help="replace an existing trace")
    add_source(parser)
    add_machine(parser)
    add_extent(parser)
    add_memory(parser)


def _info(parser: Parser) -> None:
    _add_source_name(parser)
    add_option(
        parser,
        "--launches",
        action="store_true",
        help="list the launches in a trace file (with --kernel: those that match)",
    )
    add_source(parser)
    add_machine(parser)
    add_extent(parser)
    add_memory(parser)
    add_output(parser, json="one JSON object")


def _mrc(parser: Parser) -> None:
    _add_source_name(parser)
    add_option(
        parser,
        "--sizes",
        metavar="SIZE,...",
        help="cache sizes in bytes, such as 16K,48K",
        default_text="powers of two",
    )
    add_option(
        parser,
        "--order",
        default="round-robin",
        help="order of the accesses; round-robin: warps in turn, without latencies; hardware, paper: the schedule of "
        "that definition",
        **choice("order", ("round-robin", "hardware", "paper")),
    )
    add_seed(parser)
    add_option(
        parser,
        "--sample",
        type=finite_number,
        metavar="RATE",
        help="follow this share of the lines only, such as 0.01, and estimate the miss-ratio curve from them",
    )
    add_plot(parser, "draw the miss-ratio curve")
    add_source(parser)
    add_machine(parser, paper="--order")
    add_extent(parser)
    add_memory(parser)
    add_output(parser, csv=True)


def _report(parser: Parser) -> None:
    _add_sources(parser)
    add_option(parser, "-o", "--output", metavar="PAGE.html", help="page to write; optional with --json")
    add_option(parser, "--overwrite", action="store_true", help="replace an existing file")
    add_report(parser)
    add_source(parser)
    add_machine(parser, paper="--definition")
    add_extent(parser)
    add_model(parser, several_definitions=True)
    add_memory(parser)
    add_output(parser, json="all results as one JSON object")


def _tiles(parser: Parser) -> None:
    _add_source_name(parser, help="name of a kernel, a .json file with a loop nest, or a .cu file")
    add_tiles(parser)
    add_machine(parser)
    add_output(parser, csv=True, json="one JSON object")


def _sweep(parser: Parser) -> None:
    _add_sources(parser)
    add_source(parser)
    add_machine(parser, paper="--definition")
    add_extent(parser)
    add_model(parser)
    add_sweep(parser)
    add_output(parser, csv=True, json="one JSON object")


def _gpus(parser: Parser) -> None:
    add_option(parser, "name", nargs="?", metavar="NAME", help="name or .toml file of a GPU")
    add_option(parser, "--like", metavar="NAME", help="describe a new GPU, which is like this one except for --set")
    add_assignments(parser)
    add_option(parser, "--rates", action="store_true", help="print the rates from which times are estimated, instead")
    add_option(parser, "-o", "--output", metavar="FILE.toml", help="file to write the GPU to")
    add_option(parser, "--overwrite", action="store_true", help="replace an existing file")
    add_output(parser, json="one JSON object (without NAME: a list)")


def _kernels(parser: Parser) -> None:
    add_output(parser, json="a list of JSON objects")


def _completion(parser: Parser) -> None:
    add_option(parser, "shell", help="shell that reads the script", **choice("shell", SHELLS))


def _plugin(parser: Parser) -> None:
    add_option(
        parser,
        "action",
        help="build a policy from its source, show one that has been built, or print the folder of rdmodel_policy.h",
        **choice("action", PLUGIN_ACTIONS),
    )
    add_option(parser, "file", nargs="?", metavar="FILE", help="source (.c, .cpp, .pyx) or library of a policy")
    add_option(parser, "-o", "--output", metavar="FILE", help="library to write", default_text="the source with .so")
    add_output(parser, json="one JSON object")


def _record(parser: Parser) -> None:
    add_option(
        parser,
        "program",
        nargs=argparse.REMAINDER,
        metavar="-- PROGRAM ...",
        help="program to run, with its arguments, after --",
    )
    add_option(parser, "-o", "--output", metavar="DIR", help="folder to write", default_text="PROGRAM.recording")
    add_option(parser, "--overwrite", action="store_true", help="replace an existing recording")
    add_option(
        parser,
        "--values",
        action="store_true",
        help="execute kernels when the program can see their results, for programs whose launches depend on these",
    )
    add_option(
        parser,
        "--device-memory",
        type=size_with_unit(),
        default=8 << 30,
        metavar="SIZE",
        help="memory of the device that the program sees",
        default_text="8G",
    )
    add_machine(parser)
    add_output(parser, json="a summary as one JSON object")


def _nvcc(parser: Parser) -> None:
    add_option(parser, "arguments", nargs="+", metavar="ARGUMENT", help="arguments of nvcc, such as -O2 app.cu -o app")


def _serve(parser: Parser) -> None:
    add_service(parser)
    add_memory(parser)


COMMANDS: dict[str, tuple[Callable[[Parser], None], str]] = {
    "predict": (_predict, "Predict the L1 miss rate of kernels or traces, and classify the misses by cause."),
    "time": (_time, "Estimate the time of kernels or traces, and the resource that binds it."),
    "simulate": (_simulate, "Simulate kernels or traces on a machine of SMs with L1s, crossbar, L2 and DRAM."),
    "compare": (_compare, "Compare the model with the simulator, and list the errors of the model by kind of access."),
    "diff": (_diff, "Compare the predictions of two kernels, traces or saved results, counter by counter."),
    "policies": (_policies, "Compare cache-management policies in the simulator, or list them."),
    "calibrate": (_calibrate, "Fit the latencies of the model to the simulated machine, or to measured latencies."),
    "locality": (
        _locality,
        "Classify the reuse of cache lines by thread, warp, block and SM, for each load.",
    ),
    "trace": (_trace, "Write the trace of a kernel, or convert a trace to another format."),
    "info": (_info, "Summarise a trace: launch, instructions, footprint and coalescing."),
    "mrc": (_mrc, "Compute the reuse-distance histogram and the miss-ratio curve of a kernel."),
    "report": (_report, "Write an HTML page about the cache behaviour of kernels: misses, their causes and remedies."),
    "tiles": (_tiles, "Rank tile sizes or block shapes of a kernel by predicted cache traffic, misses or time."),
    "sweep": (_sweep, "Run kernels under all combinations of the given GPUs and options; resume an interrupted sweep."),
    "record": (_record, "Run a CUDA program without a GPU, and record its kernel launches for other commands."),
    "nvcc": (_nvcc, "Compile a CUDA program so that it can be recorded, with the nvcc of the Python packages."),
    "serve": (_serve, "Answer JSON requests from stdin, one per line, with one line each on stdout."),
    "kernels": (_kernels, "List the kernels that come with rdmodel."),
    "gpus": (
        _gpus,
        "List the preset GPUs, print one GPU with all fields as TOML that --gpu reads, or describe a new one.",
    ),
    "plugin": (_plugin, "Build a cache-management policy of your own from C, C++ or Cython, for the simulator."),
    "completion": (_completion, "Print a script with which a shell completes commands, options and their values."),
}
"""Function that adds the options of each command, and the description of the command."""
