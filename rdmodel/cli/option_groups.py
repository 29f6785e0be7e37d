"""Declare the options that several commands share, one function per group.

`add_option` writes the default of every option in the same form: ``(default: 8192)``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from rdmodel.cli.parser import (
    OneOf,
    Parser,
    assignment,
    dimensions,
    l1_geometry,
    size_with_unit,
    whole_number,
    whole_number_or,
)
from rdmodel.gpu.default import DEFAULT_GPU, PAPER_GPU

MAX_INSTRUCTIONS = 10**9
"""Default of ``--max-instructions``."""

DEFINITIONS = ("hardware", "paper")
"""Definitions of the model; the first one is the default.

Repeated from `rdmodel.comparison.compare`, because that module loads NumPy, which the help must not do.
"""

SUITES = ("polybench", "classic", "irregular", "tiled", "all", "khairy", "jia", "koo", "wang", "sensitive")
"""The names of `tracegen.kernel_library.suites`, repeated here for the same reason."""

PLAIN_FORMATS = ("addresses", "csv", "lackey", "dinero")
READABLE_FORMATS = ("native", "parquet", "trc", "accelsim", "kernelslist", "nvbit", "ppt", *PLAIN_FORMATS)
"""The names of `tracegen.formats.FORMATS`, repeated here for the same reason."""

DEFAULT_OF_GPU = "that of the GPU"
ONE_PER_CORE = "-1, one per core"
"""Texts of defaults in help texts."""

Group = argparse.ArgumentParser | argparse._ArgumentGroup | argparse._MutuallyExclusiveGroup
"""Parser or group to which options are added."""


def add_option(group: Group, *names: str, help: str, default_text: str | None = None, **settings: Any) -> None:
    """Add an option, and end its help text with its default: `default_text`, or else the value of ``default``."""
    default = settings.get("default")
    has_default = default not in (None, []) and not isinstance(default, bool)
    if default_text is None and has_default:
        default_text = str(default)
    if default_text is not None:
        help = f"{help} (default: {default_text})"
    group.add_argument(*names, help=help, **settings)


def choice(noun: str, choices: Iterable[str], **settings: Any) -> dict[str, Any]:
    """Return the settings of an option with a value among `choices`; error messages call the value `noun`."""
    names = list(choices)
    return {"type": OneOf(noun, names), "metavar": "|".join(names), **settings}


# ---- the kernel and the GPU


def add_source(parser: Parser) -> None:
    """Add the options that turn a kernel name or a file into traces."""
    group = parser.add_argument_group("the kernel")
    add_sizes(group, "size of the kernel, such as NX=512, or input file, such as matrix=a.mtx (repeatable)")
    add_option(group, "--base", type=whole_number, metavar="ADDRESS", help="address of the first array")
    add_option(
        group,
        "--unroll",
        metavar="N|none",
        help="iterations that compilers put into one body of an innermost loop; a body waits for the loads of the one "
        "before; none: it does not",
        default_text="4, or as the source says",
    )
    add_option(
        group,
        "--input-format",
        type=OneOf("input format", READABLE_FORMATS),
        metavar="FORMAT",
        help=f"format of the trace file: {', '.join(READABLE_FORMATS)}; needed for {', '.join(PLAIN_FORMATS)} and for "
        "standard input (-)",
        default_text="recognised by content, then by file name",
    )
    add_option(
        group,
        "--lenient",
        action="store_true",
        help="skip malformed lines and lanes without threads, treat blocks and warps without records as ones that "
        "access no memory, and report the number of each; in a recording, let kernels access memory near allocations",
    )
    add_option(
        group,
        "--registers",
        type=whole_number_or("auto"),
        metavar="N|auto",
        help="registers per thread, which limit the resident blocks; auto: those of the kernel's machine "
        "code for the GPU if there is an assembler, otherwise estimated",
        default_text="those in the trace, if any",
    )
    add_program(parser)


def add_sizes(group: argparse._ArgumentGroup, help: str, shape: Callable[[str], object] = dimensions) -> None:
    """Add the sizes of a kernel, with their help text, and the shape of its block, which `shape` reads."""
    add_option(group, "--param", action="append", type=assignment, default=[], metavar="NAME=VALUE", help=help)
    add_option(group, "--block", type=shape, metavar="X,Y,Z", help="shape of a block in threads")


def add_program(parser: Parser) -> None:
    """Add the options that compile and launch a CUDA program."""
    group = parser.add_argument_group(
        "a CUDA program", "a .cu, .cuh or .ptx file, which needs --grid and --block, or a .toml launch file"
    )
    add_option(
        group,
        "--kernel",
        metavar="NAME",
        help="kernel to launch, by its name in the source; for a trace file or a recording: launch ID or name pattern",
        default_text="the only kernel",
    )
    add_option(
        group,
        "--grid",
        type=dimensions,
        metavar="X,Y,Z",
        help="shape of the grid in blocks; with --block, also the threads to which plain lines of a trace are dealt",
    )
    add_option(
        group,
        "--shared",
        type=whole_number,
        metavar="BYTES",
        help="dynamic shared memory per block, in bytes",
        default_text="0",
    )
    add_option(
        group,
        "--cluster",
        type=dimensions,
        metavar="X,Y,Z",
        help="shape of a cluster in blocks",
        default_text="that of the kernel",
    )
    add_compilation(group)
    add_option(
        group,
        "--launch",
        type=whole_number,
        metavar="N",
        help="number of the launch to read from a launch file or a recording, counted from 1",
        default_text="all launches",
    )


def add_compilation(group: argparse._ArgumentGroup) -> None:
    """Add the arguments of a CUDA kernel, and the options of its compiler."""
    add_option(
        group,
        "--arg",
        action="append",
        type=assignment,
        default=[],
        metavar="NAME=VALUE",
        help="argument of the kernel, such as n=4096, x=float[4096]:iota or x=@file.npy; symbol:NAME=VALUE fills the "
        "variable NAME of the program (repeatable)",
    )
    add_option(
        group,
        "-D",
        "--define",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="macro to define for the compiler (repeatable)",
    )
    add_option(
        group,
        "-I",
        "--include",
        action="append",
        default=[],
        metavar="FOLDER",
        help="folder to search for headers (repeatable)",
    )
    add_option(
        group,
        "--option",
        action="append",
        default=[],
        metavar="OPTION",
        help="option of nvcc, such as --option=-use_fast_math (repeatable); nvcc's own spelling, such as -std=c++20, "
        "-maxrregcount=32 or -arch=sm_90, needs no --option",
    )
    add_option(
        group,
        "--architecture",
        metavar="NAME",
        help="architecture to compile for, such as compute_90 (default: the newest one of the GPU that NVRTC has)",
    )
    add_option(
        group,
        "--compiler",
        help="compiler to use; auto: NVRTC if it is installed, otherwise nvcc",
        default_text="auto",
        **choice("compiler", ("auto", "nvrtc", "nvcc")),
    )
    add_option(
        group,
        "--max-instructions",
        type=whole_number,
        default=MAX_INSTRUCTIONS,
        metavar="N",
        help="maximum number of warp instructions that a block may execute",
    )


def add_machine(parser: Parser, paper: str | None = None) -> None:
    """Add the GPU and the options that change it; `paper` is the option that chooses the definition ``paper``."""
    group = parser.add_argument_group("the GPU")
    default = DEFAULT_GPU if paper is None else f"{DEFAULT_GPU}; with {paper} paper: {PAPER_GPU}"
    add_option(group, "--gpu", metavar="NAME", help="name or .toml file of a GPU", default_text=default)
    add_assignments(group)
    add_option(
        group,
        "--l1",
        type=l1_geometry,
        metavar="SIZE:WAYS:LINE:SECTOR",
        help="geometry of the L1, such as 48K:6:128 (the last two may be left out)",
        default_text=DEFAULT_OF_GPU,
    )
    add_option(
        group,
        "--index",
        metavar="NAME",
        help="index function of the L1, such as linear, fermi or pric",
        default_text=DEFAULT_OF_GPU,
    )
    add_option(
        group,
        "--carveout",
        metavar="CHOICE",
        help="shared memory of an SM, which the L1 does not get: auto, fit, max-l1, max-shared, or bytes such as 64K",
        default_text=DEFAULT_OF_GPU,
    )
    add_option(
        group,
        "--dlcm",
        help="cache operator of loads of global memory that have none, as nvcc's option -dlcm",
        default_text=DEFAULT_OF_GPU,
        **choice("dlcm", ("ca", "cg", "cs", "cv")),
    )
    add_option(group, "--mshr", metavar="N", help="number of MSHRs per SM, or inf", default_text=DEFAULT_OF_GPU)
    add_option(
        group,
        "--mshr-per-warp",
        metavar="N",
        help="number of MSHRs that one warp may hold, or inf",
        default_text=DEFAULT_OF_GPU,
    )
    add_option(
        group,
        "--mshr-merge",
        metavar="N",
        help="number of transactions that may share an MSHR, or inf",
        default_text=DEFAULT_OF_GPU,
    )


def add_assignments(parser: Group) -> None:
    """Add ``--set``."""
    add_option(
        parser,
        "--set",
        dest="assignments",
        action="append",
        type=assignment,
        default=[],
        metavar="KEY=VALUE",
        help="set a field of the GPU, such as l1.size=48K (repeatable; the last value of a field counts)",
    )


# ---- SMs and blocks


def add_extent(parser: Parser) -> None:
    """Add the options that choose the modelled SMs and blocks."""
    group = parser.add_argument_group("modelled SMs and blocks")
    add_option(
        group,
        "--sms",
        type=whole_number,
        metavar="N",
        help="number of SMs over which blocks are dealt",
        default_text=DEFAULT_OF_GPU,
    )
    add_option(
        group,
        "--model-sms",
        type=whole_number_or("all"),
        metavar="N|all",
        help="number of SMs to model",
        default_text="1; with --l2: all",
    )
    add_option(
        group,
        "--threads",
        type=whole_number_or("all"),
        metavar="N|all",
        help="maximum number of threads per modelled SM",
        default_text="8192; with --l2: all",
    )
    add_blocks(group)


def add_grid(parser: Parser) -> None:
    """Add the options that choose the simulated SMs and blocks."""
    group = parser.add_argument_group("simulated SMs and blocks")
    add_option(
        group,
        "--sms",
        type=whole_number,
        metavar="N",
        help="number of SMs of the simulated machine",
        default_text=DEFAULT_OF_GPU,
    )
    add_blocks(group)


def add_blocks(group: argparse._ArgumentGroup) -> None:
    """Add ``--blocks``."""
    add_option(
        group,
        "--blocks",
        type=whole_number,
        metavar="N",
        help="number of blocks to run, from the start of the grid",
        default_text="all",
    )


# ---- runs and files


def add_seed(group: Group, help: str = "seed of the random draws") -> None:
    """Add ``--seed``."""
    add_option(group, "--seed", type=whole_number, default=0, metavar="N", help=help)


def add_seeds(group: argparse._ArgumentGroup) -> None:
    """Add ``--seeds``."""
    add_option(
        group,
        "--seeds",
        type=whole_number,
        default=1,
        metavar="N",
        help="number of runs with consecutive seeds; several runs give the mean and a 95 %% interval",
    )


def add_l2(group: argparse._ArgumentGroup) -> None:
    """Add ``--l2``."""
    add_option(group, "--l2", action="store_true", help="model the shared L2 as well")


def add_jobs(group: argparse._ArgumentGroup, unit: str, default: int | None = -1) -> None:
    """Add ``--jobs``, a number of `unit`; with the default None, a command can tell whether the option was given."""
    add_option(
        group,
        "--jobs",
        type=whole_number,
        default=default,
        metavar="N",
        help=f"number of {unit}",
        default_text=ONE_PER_CORE,
    )


def add_suite(group: argparse._ArgumentGroup) -> None:
    """Add ``--suite``."""
    add_option(
        group,
        "--suite",
        help="run the kernels of a suite at its sizes: all of them, or those named as KERNEL_OR_FILE",
        **choice("suite", SUITES),
    )


def add_plot(group: Group, help: str) -> None:
    """Add ``--plot``; `help` begins its help text."""
    add_option(group, "--plot", metavar="FILE", help=f"{help} in FILE, which ends in .svg, .png or .pdf")


def add_cache(parser: Parser) -> None:
    """Add the options of the answers file."""
    cache = parser.add_mutually_exclusive_group()
    add_option(
        cache,
        "--cache",
        metavar="FILE",
        help="answers file, which stores results for reuse",
        default_text="answers.sqlite in the user's cache folder",
    )
    add_option(cache, "--no-cache", action="store_true", help="use no answers file")


def add_memory(parser: Parser, hint: str = "") -> None:
    """Add the memory limit; `hint` ends the message for a number without a unit."""
    add_option(
        parser,
        "--memory",
        type=size_with_unit(hint),
        metavar="SIZE",
        help="memory limit, such as 2G: refuse to start if the run may exceed it, and enforce it while running",
        default_text="80 %% of the memory of the machine",
    )


# ---- the output


def add_output(
    parser: Parser, csv: bool = False, json: str = "one JSON object (a list for several kernels)"
) -> argparse._ArgumentGroup:
    """Add the options that choose the form of the output, and return their group."""
    output = parser.add_argument_group("output")
    group = output.add_mutually_exclusive_group()
    add_option(group, "--json", action="store_true", help=f"print {json}")
    if csv:
        add_option(group, "--csv", action="store_true", help="print comma-separated values")
    return output


def add_metrics(group: argparse._ArgumentGroup) -> None:
    """Add ``--metrics``."""
    add_option(
        group,
        "--metrics",
        help="print the counters by the names of a profiler as well; ncu: Nsight Compute",
        **choice("metrics", ("ncu",)),
    )
