"""Declare the options that only one command has: contests, comparisons, reports, tiles, sweeps, the service."""

from __future__ import annotations

import argparse

from rdmodel.cli.engine_options import DEFINITION_OPTIONS, add_check, add_schedule
from rdmodel.cli.option_groups import (
    DEFINITIONS,
    ONE_PER_CORE,
    add_cache,
    add_compilation,
    add_jobs,
    add_l2,
    add_option,
    add_plot,
    add_seed,
    add_seeds,
    add_sizes,
    add_suite,
    choice,
)
from rdmodel.cli.parser import Parser, assignment, finite_number, shape_expressions, shard, whole_number

ENGINES = ("predict", "estimate", "simulate")
"""Engines that can run the points of a sweep."""

TILE_OBJECTIVES = ("dram_bytes", "l2_bytes", "miss_rate", "misses", "cycles", "time")
"""Numbers by which tiles can be ranked."""


def add_contest(parser: Parser) -> None:
    """Add the options of a contest between combinations of policies."""
    group = parser.add_argument_group("the contest")
    add_option(
        group,
        "--policies",
        dest="combinations",
        action="append",
        metavar="NAME[:OPTION=VALUE,...][+...],...",
        help="combinations of policies, such as swl:best,streaming-bypass+index:pric (repeatable)",
        default_text="every policy with its default options",
    )
    add_option(
        group,
        "--jitter",
        type=whole_number,
        default=1,
        metavar="N",
        help="run N variants, with other latencies by a few cycles and arrays in other places, and show intervals",
    )
    add_suite(group)
    group.add_argument("--list", action="store_true", help="list all policies and combinations, one line each")
    add_jobs(group, "processes")
    add_plot(group, "draw relative IPC and L1 hit rate")
    add_cache(parser)


def add_comparison(parser: Parser) -> None:
    """Add the options of a comparison between the model and the simulator."""
    group = parser.add_argument_group("the comparison")
    add_suite(group)
    add_option(
        group,
        "--definition",
        dest="definitions",
        action="append",
        help="definition of the model to run (repeatable)",
        default_text="all that can model the GPU",
        **choice("definition", DEFINITIONS),
    )
    add_option(
        group,
        "--latency",
        **(DEFINITION_OPTIONS["--latency"] | {"default_text": "fitted to the simulated machine"}),
    )
    add_schedule(group)
    add_check(group)
    add_seed(group, "seed of the random draws of the model")
    _add_measured(group)
    add_plot(group, "draw predicted against simulated miss rates")


def _add_measured(group: argparse._ArgumentGroup) -> None:
    """Add the report with measured hit rates, and the launches to take from it."""
    add_option(
        group, "--ncu", metavar="FILE", help="compare with the hit rates in this CSV report of Nsight Compute as well"
    )
    add_option(
        group,
        "--ncu-kernel",
        dest="ncu_kernels",
        action="append",
        default=[],
        metavar="PATTERN",
        help="name pattern of the kernel in the report (once for each KERNEL_OR_FILE)",
        default_text="the kernel of the same name",
    )
    add_option(
        group,
        "--ncu-launch",
        dest="ncu_launches",
        action="append",
        default=[],
        metavar="ID",
        help="ID of a launch in the report (repeatable)",
        default_text="all launches of the same size together",
    )


def add_report(parser: Parser) -> None:
    """Add the options that choose the runs of a report."""
    group = parser.add_argument_group("the report")
    add_seed(group)
    add_seeds(group)
    add_l2(group)
    add_option(group, "--no-ablation", dest="ablation", action="store_false", help="leave out the ablation")
    add_option(
        group,
        "--what-if",
        dest="what_ifs",
        action="append",
        type=assignment,
        metavar="KEY=VALUE[,KEY=VALUE...]",
        help="predict for a changed GPU as well, such as l1.size=48K,l1.ways=6 (repeatable)",
        default_text="half, twice and four times the ways of the L1, and a fully associative L1",
    )
    add_option(group, "--no-what-if", action="store_true", help="leave out the changed GPUs")
    add_option(
        group,
        "--simulate",
        action="store_true",
        help="simulate the whole grid as well: cycles, comparison with the model, locality",
    )
    add_jobs(group, "threads", default=None)


def add_tiles(parser: Parser) -> None:
    """Add the tiles, the objective of their ranking, and the answers file."""
    group = parser.add_argument_group("the tiles")
    add_option(
        group,
        "--tile",
        dest="tiles",
        action="append",
        type=assignment,
        default=[],
        metavar="NAME=VALUE,VALUE,...",
        help="values of a tile size, such as TI=8,16,32 or block=32x8,16x16; every combination of values is a tile "
        "(repeatable)",
    )
    add_option(
        group,
        "--where",
        action="append",
        default=[],
        metavar="CONDITION",
        help="condition that a tile must meet, such as 'TI * TJ <= 1024' (repeatable)",
    )
    add_sizes(group, "size of the kernel, such as NI=1024 (repeatable)", shape_expressions)
    add_option(
        group,
        "--objective",
        default="dram_bytes",
        help="number by which tiles are ranked, least first",
        **choice("objective", TILE_OBJECTIVES),
    )
    add_option(
        group,
        "--effort",
        default="quick",
        help="quick: estimate every tile, the best ones most precisely; exact: run every tile completely",
        **choice("effort", ("quick", "exact")),
    )
    add_option(
        group,
        "--top",
        type=whole_number,
        default=5,
        metavar="N",
        help="number of best tiles to distinguish and print",
    )
    add_seed(group)
    add_jobs(group, "threads")
    add_plot(group, "draw a heat map of the tiles")
    add_cache(parser)
    add_tiled_program(parser)


def add_tiled_program(parser: Parser) -> None:
    """Add the options that compile and launch the tiles of a CUDA program."""
    group = parser.add_argument_group(
        "tiles of a CUDA program",
        "a .cu or .cuh file, whose tile sizes are macros. The numbers in --grid, --block and --shared may be "
        "expressions of tile sizes and of arguments, such as '(n + TX - 1) // TX'.",
    )
    add_option(group, "--kernel", metavar="NAME", help="kernel to launch, by its name", default_text="the only kernel")
    add_option(
        group,
        "--grid",
        type=shape_expressions,
        metavar="X,Y,Z",
        help="shape of the grid in blocks, as expressions of tile sizes and arguments",
    )
    add_option(group, "--shared", metavar="BYTES", help="dynamic shared memory per block, in bytes", default_text="0")
    add_option(
        group,
        "--per",
        metavar="EXPRESSION",
        help="units of work that a launch does, such as the steps of temporal tiling; the objective is divided by them",
        default_text="1",
    )
    add_option(
        group,
        "--every",
        action="store_true",
        help="estimate the times of all tiles, also of those that the others tell are none of the best",
    )
    add_compilation(group)


def add_sweep(parser: Parser) -> None:
    """Add the axes and the engine of a sweep, and the answers file."""
    group = parser.add_argument_group("the sweep")
    add_option(
        group,
        "--vary",
        action="append",
        type=assignment,
        default=[],
        metavar="NAME=VALUE,VALUE,...",
        help="values of a field of the GPU, such as ways=1,2,4 or l1_size=16K,48K, or of an option of the engine, such "
        "as sched=random,gto; every combination of values is a point (repeatable)",
    )
    add_option(
        group,
        "--engine",
        default="predict",
        help="engine that runs every point",
        **choice("engine", ENGINES),
    )
    add_seed(group)
    add_seeds(group)
    add_l2(group)
    add_jobs(group, "processes")
    add_plot(group, "draw the miss rates over the values that are varied last")
    add_option(
        group,
        "--shard",
        type=shard,
        metavar="I/N",
        help="run only every N-th row from the I-th on, such as 3/40 in an array of 40 jobs",
    )
    add_cache(parser)
    add_option(
        parser,
        "--merge",
        action="append",
        default=[],
        metavar="FILE",
        help="take the results of another answers file as well, such as one of a shard (repeatable)",
    )


def add_service(parser: Parser) -> None:
    """Add the limits of the service, and the answers file."""
    add_option(
        parser,
        "--jobs",
        type=whole_number,
        default=-1,
        metavar="N",
        help="number of requests to compute at a time",
        default_text=ONE_PER_CORE,
    )
    add_option(
        parser,
        "--timeout",
        type=finite_number,
        default=300.0,
        metavar="SECONDS",
        help="time limit of a request in seconds; a request may set a shorter one",
    )
    add_option(
        parser,
        "--queue",
        type=whole_number,
        default=1024,
        metavar="N",
        help="maximum number of requests under way; no more are read until one has been answered",
    )
    add_option(
        parser,
        "--busy",
        action="store_true",
        help="refuse requests while the queue is full, instead of reading no more",
    )
    add_cache(parser)
    add_option(parser, "--schema", action="store_true", help="print the JSON Schema of requests and answers, and exit")
    add_option(parser, "--debug", action="store_true", help="print tracebacks of internal errors on stderr")
