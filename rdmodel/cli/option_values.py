"""Turn parsed options into the values that the library takes.

Only this module and the modules that run commands see the `argparse.Namespace`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from rdmodel import presets
from rdmodel.cli.option_groups import DEFINITIONS
from rdmodel.cli.output import OutputForm
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU
from rdmodel.gpu.default import default_gpu
from rdmodel.gpu.device_properties import compute_capability
from rdmodel.gpu.overrides import override

Dimensions = tuple[int, int, int]
"""Shape of a grid or a block: x, y and z."""

L1_KEYS = ("l1.size", "l1.ways", "l1.line", "l1.sector")
"""Dotted keys of the fields of the GPU that ``--l1`` sets."""

GPU_OPTION_KEYS = {
    "index": "l1.index",
    "mshr": "l1.mshrs",
    "mshr_per_warp": "l1.mshr_per_warp",
    "mshr_merge": "l1.mshr_merge",
    "allocate": "l1.allocate",
    "carveout": "l1.carveout",
    "dlcm": "l1.dlcm",
}
"""Dotted key of the field of the GPU that each option sets."""

RULE_OPTIONS = (
    "cta",
    "stores",
    "divergence",
    "effects",
    "clip",
    "sched",
    "schedulers",
    "stall",
    "full_set",
    "step",
    "stagger",
    "gap",
    "first_touch_factor",
    "hit_latency",
)
"""Options of the model that are named alike on the command line and in `predict`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Options that turn a kernel name or a file into traces, by the names they have on the command line."""

    param: tuple[tuple[str, str], ...]
    block: Dimensions | None
    base: int | None
    unroll: str | None
    input_format: str | None
    lenient: bool
    kernel: str | None
    grid: Dimensions | None
    arg: tuple[tuple[str, str], ...]
    shared: int | None
    cluster: Dimensions | None
    define: tuple[str, ...]
    include: tuple[str, ...]
    architecture: str | None
    compiler: str | None
    option: tuple[str, ...]
    max_instructions: int
    launch: int | None
    registers: int | str | None
    target: GPU | None = None
    """The GPU for which the registers of PTX code are counted."""

    gpus: tuple[GPU | str, ...] = ()
    """The chosen GPUs, or their names: CUDA programs are compiled for the oldest one by default."""

    sources: tuple[str, ...] = ()
    """All sources of the command, which share ``--param``."""


def source_options(arguments: argparse.Namespace) -> SourceOptions:
    """Return the options that choose and read a source."""
    names = [n for n in SourceOptions.__dataclass_fields__ if n not in ("target", "gpus", "sources")]
    values: dict[str, Any] = {name: getattr(arguments, name) for name in names}
    frozen: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    target = None
    if arguments.registers == "auto":
        if isinstance(arguments.gpu, list):
            raise ConfigError("--registers auto: needs one GPU, whose code is assembled; give a number")
        target = selected_gpu(arguments)
    sources = tuple(getattr(arguments, "sources", ()))
    gpus = (gpu_name(arguments),) if hasattr(arguments, "gpu") else ()
    return SourceOptions(**frozen, target=target, gpus=gpus, sources=sources)


def lowest_capability(gpus: Iterable[GPU | str]) -> tuple[int, int] | None:
    """Return the lowest compute capability of some GPUs; None if there is no GPU, or one of no known architecture."""
    try:
        found = [compute_capability(presets.gpu(gpu) if isinstance(gpu, str) else gpu) for gpu in gpus]
        return min(found, default=None)
    except ConfigError:
        return None


def output_form(arguments: argparse.Namespace) -> OutputForm:
    """Return the form in which the results are to be printed."""
    if arguments.json:
        return "json"
    return "csv" if getattr(arguments, "csv", False) else "text"


# ---- the GPU


def selected_gpu(arguments: argparse.Namespace) -> GPU:
    """Return the GPU that ``--gpu`` names, or the default one, with all changes."""
    return changed_gpu(gpu_name(arguments), gpu_changes(arguments))


def gpu_name(arguments: argparse.Namespace) -> str:
    """Return the GPU that ``--gpu`` names, or the default one of the definitions of the model that are chosen."""
    if arguments.gpu is not None:
        return str(arguments.gpu)
    chosen = [getattr(arguments, name, None) for name in ("definition", "order")]
    return default_gpu([*chosen, *(getattr(arguments, "definitions", None) or ())])


def changed_gpu(name: str, changes: Mapping[str, str]) -> GPU:
    """Return the preset or the GPU in a file, with the fields in `changes` set."""
    gpu = presets.gpu(name)
    return override(gpu, changes) if changes else gpu


def gpu_changes(arguments: argparse.Namespace, assignments: Iterable[tuple[str, str]] | None = None) -> dict[str, str]:
    """Return the values of all changed fields of the GPU by dotted key, from ``--set`` and from short options.

    `assignments` replaces those of ``--set``.
    """
    changes = dict(arguments.assignments if assignments is None else assignments)
    if getattr(arguments, "l1", None):
        changes |= dict(zip(L1_KEYS, arguments.l1, strict=False))
    for option, key in GPU_OPTION_KEYS.items():
        if getattr(arguments, option, None) is not None:
            changes[key] = getattr(arguments, option)
    return changes


# ---- the engines


def extent_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `predict` that choose the modelled SMs and blocks."""
    options = {"sms": arguments.sms, "blocks": arguments.blocks}
    if arguments.model_sms is not None:
        options["model_sms"] = arguments.model_sms
    if arguments.threads is not None:
        options["threads"] = None if arguments.threads == "all" else arguments.threads
    return options


def model_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return all options of `predict`."""
    names = ("definition", "seed", "seeds", "l2", "ablation", "breakdown", "sample_sms", "sample_blocks")
    options = {name: getattr(arguments, name) for name in names} | extent_options(arguments)
    if getattr(arguments, "origins", []):
        options["origins"] = True
    if getattr(arguments, "work", None) is not None:
        options["work"] = None if arguments.work == "all" else arguments.work
    return options | rule_options(arguments) | {"n_jobs": thread_count(arguments)}


def rule_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `predict` that change the rules of a definition."""
    options = {name: getattr(arguments, name) for name in RULE_OPTIONS}
    if arguments.latency is not None:
        options["lat_min"], options["sigma"] = arguments.latency
    return options


def thread_count(arguments: argparse.Namespace) -> int:
    """Return the number of threads of `predict`: one under ``--memory``, because each SM under way needs its share."""
    jobs: int | None = getattr(arguments, "jobs", None)
    if arguments.memory is None:
        return -1 if jobs is None else jobs
    if jobs not in (None, 1):
        raise ConfigError(f"jobs={jobs}: must be 1 with --memory, which models one SM or seed at a time")
    return 1


def simulation_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return all options of `simulate` except the policies."""
    options = {name: getattr(arguments, name) for name in ("sms", "blocks", "sched", "seed", "check")}
    return options | {"memory": arguments.ideal_memory, "stores": not arguments.no_stores}


def comparison_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return all options of `compare` except the latencies and the definitions."""
    return {name: getattr(arguments, name) for name in ("sms", "blocks", "sched", "seed", "check")}


def counter_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `predict` among those of ``compare``; raise `ConfigError` for those of the simulator."""
    if arguments.sched is not None or arguments.check:
        option = "--check" if arguments.check else f"--sched {arguments.sched}"
        raise ConfigError(
            f"{option}: is an option of the simulator; with --ncu, a GPU with sectors of 32 bytes is only modelled"
        )
    definitions = arguments.definitions or [DEFINITIONS[0]]
    if definitions != [DEFINITIONS[0]]:
        raise ConfigError(
            f"--definition {definitions[-1]}: must be {DEFINITIONS[0]} for a GPU with sectors of 32 bytes"
        )
    options = {name: getattr(arguments, name) for name in ("sms", "blocks", "seed")}
    if arguments.latency is not None:
        options["lat_min"], options["sigma"] = arguments.latency
    return options
