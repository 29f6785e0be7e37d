"""Write the command lines that reproduce the numbers of each part of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rdmodel.cli.command_lines import command_line
from rdmodel.cli.option_groups import DEFINITIONS
from rdmodel.gpu.config import GPU
from rdmodel.gpu.overrides import override
from rdmodel.model.options import FOREIGN_OPTIONS, PAPER_STORES, Definition

SOURCE_GROUPS = ("the kernel", "a CUDA program", "the GPU")
MODEL_GROUPS = (*SOURCE_GROUPS, "modelled SMs and blocks")
SIMULATOR_GROUPS = (*SOURCE_GROUPS, "simulated SMs and blocks")
"""Groups of options that a report shares with the commands on its page."""

GEOMETRY_KEYS = ("l1.size", "l1.ways", "l1.line")
"""Fields of the GPU that ``--l1`` sets."""

SHORT_OPTIONS = {
    "l1.index": "--index",
    "l1.carveout": "--carveout",
    "l1.dlcm": "--dlcm",
    "l1.mshrs": "--mshr",
    "l1.mshr_merge": "--mshr-merge",
    "l1.mshr_per_warp": "--mshr-per-warp",
}
"""Fields of the GPU with a short option, which takes precedence over ``--set``."""


def report_command_lines(
    source: str, values: Mapping[str, Any], gpu: GPU, changes: Mapping[str, Mapping[str, str]]
) -> dict[str, tuple[str, ...]]:
    """Return the command lines for each part of a report on `source`.

    `values` are the options of the report by name, and `changes` the changed fields of `gpu` for each what-if.
    """
    definitions: Sequence[Definition] = values["definitions"]
    seed = _option_words("--seed", values["seed"], 0)
    lines: dict[str, tuple[str, ...]] = {
        "summary": (command_line("info", source, values, MODEL_GROUPS),),
        "predictions": tuple(_predict_line(source, values, each, ablation=True) for each in definitions),
        "origins": (_origins_line(source, values, definitions[0]),),
        "reuse": (command_line("mrc", source, values, MODEL_GROUPS, seed),),
        "time": (command_line("time", source, values, SOURCE_GROUPS, seed),),
        "what_ifs": tuple(
            _predict_line(source, values, definitions[0], more=_change_words(override(gpu, change), change))
            for change in changes.values()
        ),
    }
    if values["simulate"]:
        words = [word for each in definitions for word in ("--definition", each)]
        lines["comparison"] = (command_line("compare", source, values, SIMULATOR_GROUPS, [*words, *seed]),)
        lines["locality"] = (command_line("locality", source, values, SIMULATOR_GROUPS, seed),)
    return lines


def _origins_line(source: str, values: Mapping[str, Any], definition: Definition) -> str:
    more = ["--by", "line", "--by", "array"]
    return _predict_line(source, {**values, "l2": False}, definition, more=more)


def _predict_line(
    source: str,
    values: Mapping[str, Any],
    definition: Definition,
    *,
    ablation: bool = False,
    more: Sequence[str] = (),
) -> str:
    """Return the line that predicts with one definition, without options that only the other one has."""
    several = len(values["definitions"]) > 1
    words = _option_words("--definition", definition, DEFINITIONS[0])
    words += ["--l2"] if values["l2"] else []
    words += ["--ablation"] if ablation and values["ablation"] else []
    words += [*_option_words("--seed", values["seed"], 0), *_option_words("--seeds", values["seeds"], 1), *more]
    foreign = set(FOREIGN_OPTIONS[definition]) if several else set()
    if definition == "paper" and several and values["stores"] not in (None, *PAPER_STORES):
        foreign.add("stores")
    return command_line("predict", source, values, (*MODEL_GROUPS, "the model"), words, foreign)


def _change_words(changed: GPU, change: Mapping[str, str]) -> list[str]:
    """Return the words that change the fields in `change` to those of `changed`, by short options where possible."""
    words = []
    # --l1 gives the L1 memory of its own and its ways data, and must not do so if the change does not.
    short = () if changed.l1.unified or changed.l1.tag_sets else GEOMETRY_KEYS
    if any(key in change for key in short):
        words += ["--l1", f"{changed.l1.size}:{changed.l1.ways}:{changed.l1.line}"]
    for key, value in change.items():
        if key not in short:
            words += [SHORT_OPTIONS[key], value] if key in SHORT_OPTIONS else ["--set", f"{key}={value}"]
    return words


def _option_words(option: str, value: Any, default: Any) -> list[str]:
    return [] if value == default else [option, str(value)]
