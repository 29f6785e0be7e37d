"""The commands and their options, as argparse sees them."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from rdmodel.errors import ConfigError, suggestion, unknown
from rdmodel.version import __version__

DEFAULT_GPU = "gtx470-16k"
MAX_INSTRUCTIONS = 10**9
SOURCE = "a kernel's name, a trace, or a .cu, .ptx or .toml file"


class Parser(argparse.ArgumentParser):
    """A parser that answers a mistake with one line, and with the near misses."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # "-5:3" is a value that is out of range, not an option.
        self._negative_number_matcher = re.compile(r"^-\d.*$")

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        print(f"{self.prog}: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)

    def options(self) -> list[str]:
        """Return every option string that the parser knows."""
        return [option for option in self._option_string_actions if option.startswith("--")]


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


def one_of(what: str, choices: Iterable[str]) -> Any:
    """Return an argparse type that accepts `choices` and names the near misses of anything else."""
    allowed = list(choices)

    def check(text: str) -> str:
        if text not in allowed:
            raise argparse.ArgumentTypeError(unknown(what, text, allowed))
        return text

    return check


def whole(text: str) -> int:
    """Read a whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def number(text: str) -> float:
    """Read a finite number."""
    from math import isfinite

    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def whole_or(word: str) -> Any:
    """Return an argparse type for a whole number or `word`."""

    def check(text: str) -> int | str:
        return word if text == word else whole(text)

    return check


def assignment(text: str) -> tuple[str, str]:
    """Read ``name=value``."""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not name=value")
    return name, value


def triple(text: str) -> tuple[int, int, int]:
    """Read ``X``, ``X,Y`` or ``X,Y,Z``."""
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(p.isdecimal() for p in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not X,Y,Z")
    x, y, z = map(int, (*parts, "1", "1")[:3])
    return x, y, z


def latency(text: str) -> tuple[int, float | None]:
    """Read ``MIN`` or ``MIN:SIGMA``."""
    least, colon, sigma = text.partition(":")
    return whole(least), number(sigma) if colon else None


def geometry(text: str) -> tuple[str, ...]:
    """Read ``SIZE:WAYS`` or ``SIZE:WAYS:LINE``."""
    parts = tuple(text.split(":"))
    if len(parts) not in (2, 3) or not all(parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not SIZE:WAYS:LINE (48K:6:128)")
    return parts


def _build() -> tuple[Parser, dict[str, Parser]]:
    parser = Parser(
        prog="rdmodel",
        description="Predict what a GPU's L1 caches will do with a kernel: in seconds, without a GPU.",
    )
    parser.add_argument("--version", action="version", version=f"rdmodel {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands: dict[str, Parser] = {}

    def command(name: str, text: str) -> Parser:
        commands[name] = subparsers.add_parser(name, help=text, description=text, allow_abbrev=False)
        return commands[name]

    predict = command("predict", "Predict the L1 miss rate of kernels or traces, with its causes.")
    predict.add_argument("sources", nargs="+", metavar="KERNEL_OR_FILE", help=SOURCE)
    _add_source(predict)
    _add_machine(predict)
    _add_extent(predict)
    _add_model(predict)
    _add_runs(predict)
    _add_output(predict, csv=True)

    trace = command("trace", "Make a trace of a kernel, or convert one.")
    trace.add_argument("source", metavar="KERNEL_OR_FILE", help=SOURCE)
    trace.add_argument("-o", "--output", required=True, metavar="OUT", help="a folder, or a file ending in .trc")
    trace.add_argument(
        "--format", type=one_of("format", ("native", "trc")), metavar="native|trc", help="default: by the ending of OUT"
    )
    trace.add_argument("--all", action="store_true", help="all blocks, not only those that predict would model")
    trace.add_argument("--overwrite", action="store_true", help="replace an older trace")
    _add_source(trace)
    _add_machine(trace)
    _add_extent(trace)

    info = command("info", "Show the launch, instructions, footprint and locality of a trace.")
    info.add_argument("source", metavar="FILE_OR_KERNEL", help=SOURCE)
    _add_source(info)
    _add_machine(info)
    _add_extent(info)
    _add_output(info)

    mrc = command("mrc", "Show the reuse-distance histogram and the miss-ratio curve.")
    mrc.add_argument("source", metavar="KERNEL_OR_FILE", help=SOURCE)
    mrc.add_argument("--sizes", metavar="SIZE,...", help="cache sizes in bytes (16K,48K); default: powers of two")
    mrc.add_argument(
        "--order",
        type=one_of("order", ("round-robin", "hardware", "paper")),
        metavar="round-robin|hardware|paper",
        default="round-robin",
        help="round-robin: warps take turns, no latencies (default); or the order of a definition of predict",
    )
    mrc.add_argument("--seed", type=whole, default=0, metavar="N", help="seed of the random draws (0)")
    _add_source(mrc)
    _add_machine(mrc)
    _add_extent(mrc)
    _add_output(mrc, csv=True)

    kernels = command("kernels", "List the kernels that come with rdmodel.")
    _add_output(kernels)

    gpus = command("gpus", "List the GPUs, or show one fully expanded; the output can be loaded again.")
    gpus.add_argument("name", nargs="?", metavar="NAME", help="a preset or a .toml file")
    gpus.add_argument(
        "--set",
        dest="assignments",
        action="append",
        type=assignment,
        default=[],
        metavar="KEY=VALUE",
        help="any field of the GPU: l1.size=48K (repeatable)",
    )
    _add_output(gpus)
    return parser, commands


def _add_source(parser: Parser) -> None:
    group = parser.add_argument_group("the kernel")
    group.add_argument(
        "--param",
        action="append",
        type=assignment,
        default=[],
        metavar="NAME=VALUE",
        help="a size: NX=512 (repeatable)",
    )
    group.add_argument("--block", type=triple, metavar="X,Y,Z", help="threads per block")
    group.add_argument("--base", type=whole, metavar="ADDRESS", help="where the first array lies")
    group.add_argument("--lenient", action="store_true", help="skip bad lines of a trace file, and say how many")
    _add_program(parser)


def _add_program(parser: Parser) -> None:
    group = parser.add_argument_group(
        "a CUDA program", "a .cu or .ptx file, which needs --grid and --block, or a .toml launch file"
    )
    group.add_argument("--kernel", metavar="NAME", help="the kernel, as the source calls it; default: the only one")
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


def _add_machine(parser: Parser) -> None:
    group = parser.add_argument_group("the GPU")
    group.add_argument("--gpu", default=DEFAULT_GPU, metavar="NAME", help=f"preset or .toml file ({DEFAULT_GPU})")
    group.add_argument(
        "--set",
        dest="assignments",
        action="append",
        type=assignment,
        default=[],
        metavar="KEY=VALUE",
        help="any field of the GPU: l1.size=48K (repeatable)",
    )
    group.add_argument("--l1", type=geometry, metavar="SIZE:WAYS:LINE", help="L1 geometry: 48K:6:128")
    group.add_argument("--index", metavar="NAME", help="index function of the L1: linear, fermi, pric, ...")
    group.add_argument("--mshr", metavar="N", help="MSHRs per SM, or inf")
    group.add_argument("--mshr-per-warp", metavar="N", help="MSHRs that one warp may hold (inf)")
    group.add_argument("--mshr-merge", metavar="N", help="transactions that may share an MSHR (inf)")


def _add_extent(parser: Parser) -> None:
    group = parser.add_argument_group("what is modelled")
    group.add_argument("--sms", type=whole, metavar="N", help="SMs over which blocks are dealt (the GPU's)")
    group.add_argument("--model-sms", type=whole_or("all"), default=1, metavar="N|all", help="SMs modelled (1)")
    group.add_argument(
        "--threads", type=whole_or("all"), default=8192, metavar="N|all", help="threads per modelled SM (8192)"
    )
    group.add_argument("--blocks", type=whole, metavar="N", help="only the first N blocks of the grid")


def _add_model(parser: Parser) -> None:
    group = parser.add_argument_group("the model")
    group.add_argument(
        "--definition",
        type=one_of("definition", ("hardware", "paper")),
        default="hardware",
        metavar="hardware|paper",
        help="which model (hardware)",
    )
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


def _add_runs(parser: Parser) -> None:
    group = parser.add_argument_group("runs")
    group.add_argument("--seed", type=whole, default=0, metavar="N", help="seed of the random draws (0)")
    group.add_argument("--seeds", type=whole, default=1, metavar="N", help="runs; mean and 95 %% interval (1)")
    group.add_argument("--ablation", action="store_true", help="run again with one component off at a time")
    group.add_argument(
        "--breakdown", type=one_of("breakdown", ("paper",)), metavar="paper", help="classes of the paper's figure 10"
    )


def _add_output(parser: Parser, csv: bool = False) -> None:
    group = parser.add_argument_group("output").add_mutually_exclusive_group()
    group.add_argument("--json", action="store_true", help="one JSON object (a list for several kernels)")
    if csv:
        group.add_argument("--csv", action="store_true", help="comma-separated values")


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
    names = (
        "definition cta stores divergence effects clip sched stall full_set step stagger gap first_touch_factor "
        "hit_latency seed seeds ablation breakdown"
    )
    options = {name: getattr(arguments, name) for name in names.split()} | extent_options(arguments)
    if arguments.latency is not None:
        options["lat_min"], options["sigma"] = arguments.latency
    return options


def kernel_parameters(pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return ``--param`` values as whole numbers; raise `ConfigError` for anything else."""
    parameters = {}
    for name, text in pairs:
        try:
            parameters[name] = int(text)
        except ValueError:
            raise ConfigError(f"param {name}={text!r}: must be a whole number") from None
    return parameters
