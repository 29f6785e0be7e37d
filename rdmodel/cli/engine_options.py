"""Declare the options of the two engines: the model and the simulator."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from rdmodel.cli.option_groups import (
    DEFAULT_OF_GPU,
    DEFINITIONS,
    add_jobs,
    add_l2,
    add_option,
    add_seed,
    add_seeds,
    choice,
)
from rdmodel.cli.parser import Parser, finite_number, finite_number_or, miss_latency, whole_number
from rdmodel.model.work import AUTO_WORK
from rdmodel.results.origin_kinds import ORIGINS

DEFINITION_OPTIONS: Mapping[str, dict[str, Any]] = {
    "--latency": {
        "type": miss_latency,
        "metavar": "MIN:SIGMA",
        "help": "miss latency in steps: MIN plus a half-normal draw with standard deviation SIGMA",
        "default_text": DEFAULT_OF_GPU,
    },
    "--hit-latency": {
        "type": whole_number,
        "metavar": "N",
        "help": "hit latency in steps",
        "default_text": DEFAULT_OF_GPU,
    },
    "--cta": {
        **choice("cta", ("replace", "waves")),
        "default": "replace",
        "help": "when blocks start; replace: one whenever a resident block ends; waves: all together, when all "
        "resident ones have ended",
    },
    "--stores": {
        "nargs": "?",
        "const": "allocate",
        **choice("stores", ("free", "step", "evict", "allocate", "update", "through")),
        "help": "effect of stores; free: none; step: take one step; evict: evict their lines; allocate, or no value: "
        "act as loads; update: write in place where their line is; through: allocate their lines as well",
        "default_text": DEFAULT_OF_GPU,
    },
    "--no-divergence": {
        "dest": "divergence",
        "action": "store_false",
        "help": "let warps take turns and never wait for data",
    },
    "--effects": {
        **choice("effects", ("after", "before")),
        "default": "after",
        "help": "paper only: apply the effects that are due in a step after its accesses or before them",
    },
    "--no-clip": {
        "dest": "clip",
        "action": "store_false",
        "help": "paper only: draw a separate latency for a merged request instead of that of the request in flight",
    },
    "--sched": {
        **choice("sched", ("random", "fifo", "lrr", "gto", "oldest", "gty")),
        "default": "random",
        "help": "hardware only: order in which ready warps issue",
    },
    "--schedulers": {
        "type": whole_number,
        "default": 1,
        "metavar": "N",
        "help": "hardware only: number of warp schedulers per SM, 1 to 4",
    },
    "--stall": {
        **choice("stall", ("park", "head")),
        "default": "park",
        "help": "hardware only: effect of a stall; park: set its warp aside; head: stop the SM",
    },
    "--full-set": {
        **choice("full-set", ("stall", "bypass")),
        "default": "stall",
        "help": "hardware only: effect of a miss while all ways of its set are in flight; stall: wait; "
        "bypass: bypass the L1",
    },
    "--step": {
        **choice("step", ("transaction", "instruction")),
        "default": "transaction",
        "help": "hardware only: unit that one step issues",
    },
    "--stagger": {
        "type": whole_number,
        "default": 0,
        "metavar": "N",
        "help": "hardware only: number of steps between the starts of the first blocks",
    },
    "--gap": {
        "action": "store_true",
        "help": "hardware only: spend one step on each non-memory instruction",
    },
    "--first-touch-factor": {
        "type": finite_number,
        "default": 1.0,
        "metavar": "F",
        "help": "hardware only: factor on the latency of the first miss to a line",
    },
}
"""Options of the two definitions of the model, by name; those of only one definition say so."""


def add_model(parser: Parser, several_definitions: bool = False) -> None:
    """Add the options of the model; a command with `several_definitions` may name its definition more than once."""
    group = parser.add_argument_group("the model")
    definition = choice("definition", DEFINITIONS)
    if several_definitions:
        add_option(
            group,
            "--definition",
            dest="definitions",
            action="append",
            help="definition of the model to run (repeatable)",
            default_text=DEFINITIONS[0],
            **definition,
        )
    else:
        add_option(group, "--definition", default=DEFINITIONS[0], help="definition of the model to run", **definition)
    for name, settings in DEFINITION_OPTIONS.items():
        add_option(group, name, **settings)


def add_runs(parser: Parser) -> None:
    """Add the options that repeat, split and sample the runs of `predict`."""
    group = parser.add_argument_group("runs")
    add_seed(group)
    add_seeds(group)
    add_l2(group)
    add_option(
        group, "--ablation", action="store_true", help="run again with each component of the model switched off in turn"
    )
    add_option(
        group,
        "--breakdown",
        help="classify misses as in figure 10 of the paper",
        **choice("breakdown", ("paper",)),
    )
    add_option(
        group,
        "--by",
        dest="origins",
        action="append",
        default=[],
        help="also say where misses come from: by line of the source, array or instruction (repeatable)",
        **choice("origin", ORIGINS),
    )
    add_jobs(group, "threads", default=None)
    add_option(
        group,
        "--work",
        type=finite_number_or("all"),
        metavar="N|all",
        help="with --l2: sample a grid of more than about N transactions, and estimate the counters of all of it",
        default_text=f"{AUTO_WORK}",
    )
    add_option(
        group,
        "--sample-sms",
        type=whole_number,
        metavar="N",
        help="run N randomly chosen SMs only and estimate the result for all of them",
    )
    add_option(
        group,
        "--sample-blocks",
        type=finite_number,
        metavar="SHARE",
        help="run this share of the blocks only, such as 0.1, and estimate the result for all of them",
    )


# ---- the simulator


def add_simulator(parser: Parser) -> None:
    """Add the options of the simulator."""
    group = parser.add_argument_group("the simulator")
    add_schedule(group)
    add_option(
        group,
        "--ideal-memory",
        type=whole_number,
        metavar="N",
        help="replace crossbar, L2 and DRAM by an ideal memory that responds to every miss after N cycles",
    )
    add_option(
        group, "--no-stores", action="store_true", help="issue stores in their places, but send no requests for them"
    )
    add_check(group)


def add_warm_l2(parser: Parser) -> None:
    """Add ``--warm-l2``."""
    add_option(
        parser,
        "--warm-l2",
        action="store_true",
        help="run all launches of the command one after another, each on the L2 as the one before left it; the default "
        "is an empty L2 for every launch",
    )


def add_simulation_seed(parser: Parser) -> None:
    """Add the seed of a simulation, which is recorded only."""
    add_seed(parser, "seed to record with the results; the simulator draws no random numbers")


def add_policies(parser: Parser) -> None:
    """Add the cache-management policies of the simulated machine."""
    group = parser.add_argument_group("policies")
    add_option(
        group,
        "--policy",
        dest="policies",
        action="append",
        default=[],
        metavar="NAME[:OPTION=VALUE,...][+...]",
        help="cache-management policies, such as swl:warps=4, dwt-cs+pric or dwt-pric; rdmodel policies --list lists "
        "all (repeatable, one policy of each kind)",
    )


def add_schedule(group: argparse._ArgumentGroup) -> None:
    """Add the warp scheduler and the allocation of the simulated machine."""
    add_option(
        group,
        "--sched",
        help="warp scheduler of the simulated machine",
        default_text=DEFAULT_OF_GPU,
        **choice("sched", ("lrr", "gto", "two-level", "old", "gty")),
    )
    add_option(
        group,
        "--allocate",
        help="reserve the way of a line at its miss or at its fill",
        default_text=DEFAULT_OF_GPU,
        **choice("allocate", ("miss", "fill")),
    )


def add_check(group: argparse._ArgumentGroup) -> None:
    """Add ``--check``."""
    add_option(
        group,
        "--check",
        action="store_true",
        help="verify the invariants of the simulated machine while it runs (slower)",
    )
