"""Groups of options that commands share, each added to a parser by one function."""

from __future__ import annotations

import argparse

from rdmodel.cli.parser import (
    Parser,
    assignment,
    geometry,
    latency,
    number,
    one_of,
    size_with_unit,
    triple,
    whole,
    whole_or,
)

DEFAULT_GPU = "gtx470-16k"
MAX_INSTRUCTIONS = 10**9
DEFINITIONS = ("hardware", "paper")
SUITES = ("polybench", "classic", "irregular", "tiled", "all", "khairy", "jia", "koo", "wang")
"""The names of `tracegen.kernel_library.suites`, again: help does not wait for NumPy, which that loads."""

READ = ("native", "parquet", "trc", "accelsim", "kernelslist", "nvbit", "ppt")
"""The names of `tracegen.formats.FORMATS`, again."""

ENGINES = ("predict", "estimate", "simulate")
TILE_OBJECTIVES = ("dram_bytes", "l2_bytes", "miss_rate", "misses", "time")


def add_source(parser: Parser) -> None:
    """Add what makes the trace of a name or a file."""
    group = parser.add_argument_group("the kernel")
    _add_sizes(group, "a size, NX=512, or an input that is a file, matrix=a.mtx (repeatable)")
    group.add_argument("--base", type=whole, metavar="ADDRESS", help="where the first array lies")
    group.add_argument(
        "--input-format",
        type=one_of("input format", READ),
        metavar="FORMAT",
        help=f"read the file as a trace of this format ({', '.join(READ)}); default: by its content, then its ending",
    )
    group.add_argument(
        "--lenient",
        action="store_true",
        help="skip bad lines of a trace file, take blocks without records for silent ones, and say how many",
    )
    add_program(parser)


def _add_sizes(group: argparse._ArgumentGroup, text: str) -> None:
    """Add the sizes of a kernel, with what `text` says of them, and the shape of its block."""
    group.add_argument("--param", action="append", type=assignment, default=[], metavar="NAME=VALUE", help=text)
    group.add_argument("--block", type=triple, metavar="X,Y,Z", help="threads per block")


def add_program(parser: Parser) -> None:
    """Add what a CUDA program is compiled and launched with."""
    group = parser.add_argument_group(
        "a CUDA program", "a .cu or .ptx file, which needs --grid and --block, or a .toml launch file"
    )
    group.add_argument(
        "--kernel",
        metavar="NAME",
        help="the kernel, as the source calls it; in a trace, its ID or a pattern of its name; default: the only one",
    )
    group.add_argument("--grid", type=triple, metavar="X,Y,Z", help="blocks in the grid")
    group.add_argument(
        "--arg",
        action="append",
        type=assignment,
        default=[],
        metavar="NAME=VALUE",
        help="an argument: n=4096, x=float[4096]:iota, x=@file.npy (repeatable)",
    )
    group.add_argument("--shared", type=whole, metavar="BYTES", help="dynamic shared memory per block (0)")
    group.add_argument("-D", "--define", action="append", default=[], metavar="NAME=VALUE", help="a macro (repeatable)")
    group.add_argument("-I", "--include", action="append", default=[], metavar="FOLDER", help="where headers are")
    group.add_argument("--architecture", metavar="NAME", help="for the compiler: compute_90")
    group.add_argument("--compiler", type=one_of("compiler", ("auto", "nvrtc", "nvcc")), metavar="auto|nvrtc|nvcc")
    group.add_argument(
        "--max-instructions",
        type=whole,
        default=MAX_INSTRUCTIONS,
        metavar="N",
        help="warp instructions that a block may execute (10^9)",
    )
    group.add_argument("--launch", type=whole, metavar="N", help="only the N-th launch of a launch file")


def add_machine(parser: Parser) -> None:
    """Add the GPU and all that changes it."""
    group = parser.add_argument_group("the GPU")
    group.add_argument("--gpu", default=DEFAULT_GPU, metavar="NAME", help=f"preset or .toml file ({DEFAULT_GPU})")
    add_assignments(group)
    group.add_argument("--l1", type=geometry, metavar="SIZE:WAYS:LINE", help="L1 geometry: 48K:6:128")
    group.add_argument("--index", metavar="NAME", help="index function of the L1: linear, fermi, pric, ...")
    group.add_argument("--mshr", metavar="N", help="MSHRs per SM, or inf")
    group.add_argument("--mshr-per-warp", metavar="N", help="MSHRs that one warp may hold (inf)")
    group.add_argument("--mshr-merge", metavar="N", help="transactions that may share an MSHR (inf)")


def add_assignments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add ``--set``."""
    parser.add_argument(
        "--set",
        dest="assignments",
        action="append",
        type=assignment,
        default=[],
        metavar="KEY=VALUE",
        help="any field of the GPU: l1.size=48K (repeatable)",
    )


def add_extent(parser: Parser) -> None:
    """Add which SMs and blocks the model looks at."""
    group = parser.add_argument_group("what is modelled")
    group.add_argument("--sms", type=whole, metavar="N", help="SMs over which blocks are dealt (the GPU's)")
    group.add_argument("--model-sms", type=whole_or("all"), default=1, metavar="N|all", help="SMs modelled (1)")
    group.add_argument(
        "--threads", type=whole_or("all"), default=8192, metavar="N|all", help="threads per modelled SM (8192)"
    )
    group.add_argument("--blocks", type=whole, metavar="N", help="only the first N blocks of the grid")


def add_model(parser: Parser, several: bool = False) -> None:
    """Add the options of both definitions of the model, of which one is chosen, or `several`."""
    group = parser.add_argument_group("the model")
    kind = one_of("definition", DEFINITIONS)
    names = "|".join(DEFINITIONS)
    if several:
        text = "which model (repeatable); default: hardware"
        group.add_argument("--definition", dest="definitions", action="append", type=kind, metavar=names, help=text)
    else:
        text = "which model (hardware)"
        group.add_argument("--definition", type=kind, default="hardware", metavar=names, help=text)
    group.add_argument("--latency", type=latency, metavar="MIN:SIGMA", help="of a miss, in steps; default: the GPU's")
    group.add_argument("--hit-latency", type=whole, metavar="N", help="of a hit, in steps; default: the GPU's")
    group.add_argument(
        "--cta",
        type=one_of("cta", ("replace", "waves")),
        default="replace",
        metavar="replace|waves",
        help="blocks start as one ends, or when all resident ones have ended (replace)",
    )
    group.add_argument(
        "--stores",
        nargs="?",
        const="allocate",
        default="free",
        type=one_of("stores", ("free", "step", "evict", "allocate")),
        metavar="free|step|evict|allocate",
        help="what stores do; without a value: allocate, that is as loads (free)",
    )
    group.add_argument("--no-divergence", dest="divergence", action="store_false", help="warps take turns, no waiting")
    group.add_argument(
        "--effects",
        type=one_of("effects", ("after", "before")),
        default="after",
        metavar="after|before",
        help="paper: effects due in a step come after or before its accesses (after)",
    )
    group.add_argument(
        "--no-clip", dest="clip", action="store_false", help="paper: merged requests have a latency of their own"
    )
    group.add_argument(
        "--sched",
        type=one_of("sched", ("random", "fifo", "lrr", "gto", "oldest")),
        default="random",
        metavar="random|fifo|lrr|gto|oldest",
        help="hardware: which ready warp is next (random)",
    )
    group.add_argument(
        "--schedulers",
        type=whole,
        default=1,
        metavar="N",
        help="hardware: warps are shared out to N schedulers, 1 to 4 (1)",
    )
    group.add_argument(
        "--stall",
        type=one_of("stall", ("park", "head")),
        default="park",
        metavar="park|head",
        help="hardware: a stall sets aside its warp, or stops the SM (park)",
    )
    group.add_argument(
        "--full-set",
        type=one_of("full-set", ("stall", "bypass")),
        default="stall",
        metavar="stall|bypass",
        help="hardware: what a miss does when all ways are in flight (stall)",
    )
    group.add_argument(
        "--step",
        type=one_of("step", ("transaction", "instruction")),
        default="transaction",
        metavar="transaction|instruction",
        help="hardware: what a step issues (transaction)",
    )
    group.add_argument(
        "--stagger",
        type=whole,
        default=0,
        metavar="N",
        help="hardware: steps between the starts of the first blocks (0)",
    )
    group.add_argument("--gap", action="store_true", help="hardware: non-memory instructions take steps")
    group.add_argument(
        "--first-touch-factor",
        type=number,
        default=1.0,
        metavar="F",
        help="hardware: latency of a line's first miss (1.0)",
    )


def add_grid(parser: Parser) -> None:
    """Add which SMs and blocks the simulator has."""
    group = parser.add_argument_group("what is simulated")
    group.add_argument("--sms", type=whole, metavar="N", help="SMs of the machine (the GPU's)")
    group.add_argument("--blocks", type=whole, metavar="N", help="only the first N blocks of the grid")


def add_simulator(parser: Parser) -> None:
    """Add the options of the simulator."""
    group = parser.add_argument_group("the simulator")
    _add_schedule(group)
    group.add_argument(
        "--ideal-memory",
        type=whole,
        metavar="N",
        help="an ideal memory, without crossbar, L2 and DRAM: every miss is answered N cycles later",
    )
    group.add_argument("--no-stores", action="store_true", help="stores keep their place but make no requests")
    _add_check(group)


def add_policies(parser: Parser) -> None:
    """Add the cache-management policies of the simulated machine."""
    group = parser.add_argument_group("policies")
    group.add_argument(
        "--policy",
        dest="policies",
        action="append",
        default=[],
        metavar="NAME[:OPTION=VALUE,...][+...]",
        help="cache management: swl:warps=4, dwt-cs+pric, dwt-pric (repeatable, one policy of a kind); all names: "
        "rdmodel policies --list",
    )


def add_contest(parser: Parser) -> None:
    """Add which combinations of policies are run, and how."""
    group = parser.add_argument_group("the contest")
    group.add_argument(
        "--policies",
        dest="combinations",
        action="append",
        metavar="NAME[:OPTION=VALUE,...][+...],...",
        help="combinations: swl:best,streaming-bypass+index:pric (repeatable); default: all at their defaults",
    )
    _add_suite(group, "run the kernels of a suite at its sizes: all, or those that are named")
    group.add_argument("--list", action="store_true", help="list all policies and combinations, one line each")
    group.add_argument("--jobs", type=whole, default=-1, metavar="N", help="processes; default: one for each core (-1)")
    group.add_argument("--plot", metavar="FILE", help="draw the relative IPC as bars: .svg, .png or .pdf")


def add_comparison(parser: Parser) -> None:
    """Add what is compared, and how."""
    group = parser.add_argument_group("the comparison")
    _add_suite(group, "compare the kernels of a suite at its sizes: all, or those that are named")
    group.add_argument(
        "--definition",
        dest="definitions",
        action="append",
        type=one_of("definition", DEFINITIONS),
        metavar="|".join(DEFINITIONS),
        help="which model (repeatable); default: both",
    )
    group.add_argument(
        "--latency", type=latency, metavar="MIN:SIGMA", help="of a miss, for the model; default: fitted to the machine"
    )
    _add_schedule(group)
    _add_check(group)
    group.add_argument("--seed", type=whole, default=0, metavar="N", help="seed of the model's random draws (0)")
    _add_measured(group)
    group.add_argument("--plot", metavar="FILE", help="draw predicted against simulated miss rates: .svg, .png or .pdf")


def _add_measured(group: argparse._ArgumentGroup) -> None:
    """Add what was measured, and of which launches."""
    group.add_argument("--ncu", metavar="FILE", help="hold against the hit rates in a CSV report of Nsight Compute")
    group.add_argument(
        "--ncu-kernel",
        dest="ncu_kernels",
        action="append",
        default=[],
        metavar="PATTERN",
        help="the kernel in the report, as a shell's pattern (one for each KERNEL_OR_FILE); default: that of its name",
    )
    group.add_argument(
        "--ncu-launch",
        dest="ncu_launches",
        action="append",
        default=[],
        metavar="ID",
        help="only the launch with this ID in the report (repeatable); default: all of the same size together",
    )


def _add_suite(group: argparse._ArgumentGroup, text: str) -> None:
    group.add_argument("--suite", type=one_of("suite", SUITES), metavar="|".join(SUITES), help=text)


def _add_schedule(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--sched",
        type=one_of("sched", ("lrr", "gto", "two-level", "old")),
        metavar="lrr|gto|two-level|old",
        help="which warp issues next; default: the GPU's",
    )
    group.add_argument(
        "--allocate",
        type=one_of("allocate", ("miss", "fill")),
        metavar="miss|fill",
        help="when a miss takes its way in the L1; default: the GPU's",
    )


def _add_check(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--check", action="store_true", help="verify the machine's invariants: about 30 times slower")


def add_runs(parser: Parser) -> None:
    """Add how often `predict` runs, and with what switched off."""
    group = parser.add_argument_group("runs")
    group.add_argument("--seed", type=whole, default=0, metavar="N", help="seed of the random draws (0)")
    group.add_argument("--seeds", type=whole, default=1, metavar="N", help="runs; mean and 95 %% interval (1)")
    group.add_argument("--l2", action="store_true", help="what leaves the SMs goes on to the L2 that they share")
    group.add_argument("--ablation", action="store_true", help="run again with one component off at a time")
    group.add_argument(
        "--breakdown", type=one_of("breakdown", ("paper",)), metavar="paper", help="classes of the paper's figure 10"
    )
    group.add_argument("--jobs", type=whole, metavar="N", help="threads; default: one for each core (-1)")
    group.add_argument(
        "--sample-sms", type=whole, metavar="N", help="run only N of the SMs, chosen by the seed, and estimate for all"
    )
    group.add_argument(
        "--sample-blocks", type=number, metavar="SHARE", help="run only that share of the blocks, and estimate: 0.1"
    )


def add_report(parser: Parser) -> None:
    """Add what a report runs."""
    group = parser.add_argument_group("the report")
    group.add_argument("--seed", type=whole, default=0, metavar="N", help="seed of the random draws (0)")
    group.add_argument("--seeds", type=whole, default=1, metavar="N", help="runs; mean and 95 %% interval (1)")
    group.add_argument("--l2", action="store_true", help="what leaves the SMs goes on to the L2 that they share")
    group.add_argument("--no-ablation", dest="ablation", action="store_false", help="leave out what components do")
    group.add_argument(
        "--what-if",
        dest="what_ifs",
        action="append",
        type=assignment,
        metavar="KEY=VALUE[,KEY=VALUE...]",
        help="predict with other fields of the GPU, too: l1.size=48K,l1.ways=6 (repeatable); "
        "default: half, two and four times the L1's ways, and fully associative",
    )
    group.add_argument("--no-what-if", action="store_true", help="leave out what other machines would do")
    group.add_argument(
        "--simulate", action="store_true", help="simulate the whole grid as well: cycles, the model beside it, locality"
    )
    group.add_argument("--jobs", type=whole, metavar="N", help="threads; default: one for each core (-1)")


def add_memory(parser: Parser, hint: str = "") -> None:
    """Add how much memory the command may take; `hint` is for those who give a bare number."""
    parser.add_argument(
        "--memory",
        type=size_with_unit(hint),
        metavar="SIZE",
        help="refuse to start, or else keep to this much memory: 2G; default: no limit",
    )


def add_tiles(parser: Parser) -> None:
    """Add which tiles are ranked, by what, and where answers are kept."""
    group = parser.add_argument_group("the tiles")
    group.add_argument(
        "--tile",
        dest="tiles",
        action="append",
        type=assignment,
        default=[],
        metavar="NAME=VALUE,VALUE,...",
        help="sizes to choose from: TI=8,16,32 or block=32x8,16x16 (repeatable; all combinations are tiles)",
    )
    _add_sizes(group, "a size, NI=1024 (repeatable)")
    group.add_argument(
        "--objective",
        type=one_of("objective", TILE_OBJECTIVES),
        default="dram_bytes",
        metavar="|".join(TILE_OBJECTIVES),
        help="of which less is better (dram_bytes)",
    )
    group.add_argument(
        "--effort",
        type=one_of("effort", ("quick", "exact")),
        default="quick",
        metavar="quick|exact",
        help="estimate tiles, the better the nearer to the best, or run everything of all (quick)",
    )
    group.add_argument("--top", type=whole, default=5, metavar="N", help="places that matter, and are shown (5)")
    group.add_argument("--seed", type=whole, default=0, metavar="N", help="seed of the random draws (0)")
    group.add_argument("--jobs", type=whole, default=-1, metavar="N", help="threads; default: one for each core (-1)")
    group.add_argument("--plot", metavar="FILE", help="draw a heat map: .svg, .png or .pdf")
    _add_cache(parser)


def add_sweep(parser: Parser) -> None:
    """Add what a sweep varies, what runs, and where answers are kept."""
    group = parser.add_argument_group("the sweep")
    group.add_argument(
        "--vary",
        action="append",
        type=assignment,
        default=[],
        metavar="NAME=VALUE,VALUE,...",
        help="values to choose from: ways=1,2,4, l1_size=16K,48K, or an option of the engine, sched=random,gto "
        "(repeatable; all combinations are points)",
    )
    group.add_argument(
        "--engine",
        type=one_of("engine", ENGINES),
        default="predict",
        metavar="|".join(ENGINES),
        help="what runs every point (predict)",
    )
    group.add_argument("--seed", type=whole, default=0, metavar="N", help="seed of the random draws (0)")
    group.add_argument(
        "--seeds", type=whole, default=1, metavar="N", help="runs of predict, of which the mean counts (1)"
    )
    group.add_argument("--l2", action="store_true", help="what leaves the SMs goes on to the L2 that they share")
    group.add_argument("--jobs", type=whole, default=-1, metavar="N", help="processes; default: one for each core (-1)")
    _add_cache(parser)


def _add_cache(parser: Parser) -> None:
    cache = parser.add_mutually_exclusive_group()
    cache.add_argument("--cache", metavar="FILE", help="where answers are kept; default: the user's cache folder")
    cache.add_argument("--no-cache", action="store_true", help="keep no answers")


def add_service(parser: Parser) -> None:
    """Add what the service may take, and where it keeps answers."""
    parser.add_argument("--jobs", type=whole, default=-1, metavar="N", help="requests at a time; -1: one per core (-1)")
    parser.add_argument(
        "--timeout",
        type=number,
        default=300.0,
        metavar="S",
        help="most seconds for a request, which may ask for less (300.0)",
    )
    parser.add_argument(
        "--queue", type=whole, default=1024, metavar="N", help="most requests under way; then reading stops (1024)"
    )
    parser.add_argument("--busy", action="store_true", help="refuse requests that find the queue full, and read on")
    _add_cache(parser)
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of requests and answers")
    parser.add_argument("--debug", action="store_true", help="trace internal errors on stderr")


def add_output(parser: Parser, csv: bool = False, json: str = "one JSON object (a list for several kernels)") -> None:
    """Add the forms of the output."""
    group = parser.add_argument_group("output").add_mutually_exclusive_group()
    group.add_argument("--json", action="store_true", help=json)
    if csv:
        group.add_argument("--csv", action="store_true", help="comma-separated values")
