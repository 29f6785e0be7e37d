"""Format a contest of policies, and lists of all policies, as text."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from rdmodel.cli.text_simulation import format_found_values
from rdmodel.cli.text_tables import format_gpu, format_kernel, format_sms, format_table
from rdmodel.common.text import count, percent
from rdmodel.contests.contest import Contest
from rdmodel.errors import ConfigError
from rdmodel.policies import IndexFunction, Policy
from rdmodel.policies.combinations import INDEX_PREFIX
from rdmodel.policies.index_registry import find_index_function, index_names
from rdmodel.policies.registry import BASELINE, COMBINATIONS, find_policy, policy_names, required_options
from rdmodel.results.simulation import Simulation
from rdmodel.simulator.jitter import MOST_CYCLES

DESCRIPTION_AND_SOURCE = re.compile(r"^(.*) \((.*)\)\.$")
"""The first line of a policy's docstring: a description, and a source in brackets."""

NO_POLICIES = "no policies: the baseline of the other combinations"
"""Description of the combination ``none``."""

Row = tuple[str, ...]
"""A row: combination, relative IPC, its interval if there are variants, IPC, miss rate, bypassed loads, and limits."""


def format_contest(result: Contest) -> str:
    """Return a contest: a part for each kernel with a line for each combination, and the means over several kernels."""
    first = next(iter(result.simulations[0].values()))
    sections = [_kernel(result, number) for number in range(len(result.simulations))]
    if len(sections) > 1:
        sections.append(_means(result))
    # One table, so that all parts share their columns.
    empty: Row = ("",) * len(sections[0][0])
    rows = [row for section in sections for row in [*section, empty]][:-1]
    legend = _legend(first) + (_variants_legend(result) if result.jitter > 1 else "")
    table = format_table(rows, right=range(1, len(empty) - 1))
    return f"{_heading(first)}\n\n{table}\n\n{_times(result)}\n\n{legend}"


def _heading(run: Simulation) -> str:
    return f"policies on {format_gpu(run.gpu)}, {format_sms(run.sms)}, scheduler {run.config['options']['sched']}"


def _kernel(result: Contest, number: int) -> list[Row]:
    runs = result.simulations[number]
    name = format_kernel(result.kernels[number], next(iter(runs.values())).config)
    rows: list[Row] = [(f"  {name}", *_ratio_heads(result), "IPC", "miss rate", "bypassed", "")]
    for combination in result.names:
        ratio, ends = result.relative_ipc(combination)[number], result.interval(combination)[number]
        cells = _ratio_cells(result, ratio, ends)
        rows.append((f"    {combination}", *cells, *_numbers(runs.get(combination))))
    return rows


def _ratio_heads(result: Contest) -> tuple[str, ...]:
    return ("relative", "95 % interval") if result.jitter > 1 else ("relative",)


def _ratio_cells(result: Contest, ratio: float | None, ends: tuple[float, float] | None) -> tuple[str, ...]:
    """Return a ratio, and its interval if there are variants; dashes for those that are missing."""
    cell = "-" if ratio is None else f"{ratio:.3f}"
    interval = "-" if ends is None else f"{ends[0]:.3f} to {ends[1]:.3f}"
    return (cell, interval) if result.jitter > 1 else (cell,)


def _numbers(run: Simulation | None) -> tuple[str, str, str, str]:
    """Return IPC, miss rate, share of bypassed loads and limits that were found; dashes for a run that is missing."""
    if run is None:
        return "-", "-", "-", "not finished"
    bypassed = percent(run.bypassed, run.transactions)
    return f"{run.ipc:,.2f}", percent(run.misses.total, run.sectors), bypassed, format_found_values(run)


def _means(result: Contest) -> list[Row]:
    complete, kernels = sum(result.complete), len(result.complete)
    of = "1 kernel" if complete == 1 else f"{complete} kernels"
    left_out = "" if complete == kernels else f", {kernels - complete} not finished"
    rows: list[Row] = [(f"  geometric mean of {of}{left_out}", *_ratio_heads(result), "", "", "", "")]
    for name in result.names:
        cells = _ratio_cells(result, result.geometric_mean(name), result.mean_interval(name))
        rows.append((f"    {name}", *cells, "", "", "", ""))
    return rows


def _times(result: Contest) -> str:
    runs = [run for by_name in result.simulations for run in by_name.values()]
    runs += [run for by_name in result.variants for variants in by_name.values() for run in variants.values()]
    seconds = sum(run.seconds + run.trace_seconds for run in runs)
    return f"  time: {count(len(runs))} runs, {seconds:.2f} s of work"


def _legend(run: Simulation) -> str:
    unit = "coalesced transaction" if run.lookups is None else "sector"
    return (
        f"relative: IPC by that of {BASELINE}; miss rate: of loads that did not bypass the L1;\n"
        f"bypassed: of all loads; both per {unit}"
    )


def _variants_legend(result: Contest) -> str:
    """Return what the intervals mean."""
    return (
        f";\nrelative is a mean over {result.jitter} variants, whose L1 and L2 latencies differ by up to {MOST_CYCLES} "
        "cycles and\nwhose arrays lie elsewhere; the other columns are those of the first variant, without changes"
    )


# ---- listings


def policy_rows() -> list[dict[str, Any]]:
    """Return every policy with its kind, options, defaults, description and source, as plain values.

    A policy of an installed package that cannot be loaded has the kind ``"broken"``, and the reason as description.
    """
    return [_found_row(name, find_policy, lambda cls: cls.kind) for name in policy_names()]


def choice_rows() -> list[dict[str, Any]]:
    """Return every policy, index function and named combination as plain values."""
    indices = [
        row
        for name in index_names()
        if not (row := _found_row(name, find_index_function, lambda cls: "index", f"{INDEX_PREFIX}:"))["required"]
    ]
    combinations = [
        {
            "name": name,
            "kind": "combination",
            "stands_for": text,
            "description": f"Stands for {text}" if text else NO_POLICIES,
        }
        for name, text in COMBINATIONS.items()
    ]
    return [*policy_rows(), *indices, *combinations]


def format_choices() -> str:
    """Return every policy, index function and named combination with its description, one line each."""
    rows = [("name", "kind", "description")]
    return format_table(rows + [(row["name"], row["kind"], row["description"]) for row in choice_rows()])


def format_listing() -> str:
    """Return the policies with their options and sources, the index functions and the named combinations."""
    rows = [("policy", "kind", "options", "source")]
    rows += [(row["name"], row["kind"], _options(row), row["source"]) for row in policy_rows()]
    prefix = f"{INDEX_PREFIX}:"
    functions = " ".join(row["name"].removeprefix(prefix) for row in choice_rows() if row["name"].startswith(prefix))
    rows.append((f"{INDEX_PREFIX}:NAME", "index", functions, ""))
    named = [("combination", "stands for")]
    named += [(name, text or NO_POLICIES) for name, text in COMBINATIONS.items()]
    return f"{format_table(rows)}\n\n{format_table(named)}"


def _found_row(
    name: str, find: Callable[[str], type[Any]], kind_of: Callable[[type[Any]], str], prefix: str = ""
) -> dict[str, Any]:
    """Return the row of a policy or an index function that `find` finds, or of the reason why it does not."""
    try:
        cls = find(name)
    except ConfigError as error:
        text = " ".join(str(error).split())
        return {
            "name": prefix + name,
            "kind": "broken",
            "required": [],
            "defaults": {},
            "description": text,
            "source": "",
        }
    return _row(cls, prefix + name, kind_of(cls))


def _row(cls: type[Policy | IndexFunction], name: str, kind: str) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "required": required_options(cls),
        "defaults": {f.name: f.default for f in fields(cls) if f.default is not MISSING},  # type: ignore[arg-type]
        **_description(cls),
    }


def _options(row: Mapping[str, Any]) -> str:
    defaults = (f"{name}={str(value).lower()}" for name, value in row["defaults"].items())
    return " ".join([*(f"{name}=..." for name in row["required"]), *defaults])


def _description(cls: type[Policy | IndexFunction]) -> dict[str, str]:
    """Return the first sentence of the docstring, and the source in brackets at the end of its first line."""
    first = (inspect.getdoc(cls) or "").partition("\n")[0]
    match = DESCRIPTION_AND_SOURCE.match(first)
    if match:
        return {"description": match[1], "source": match[2]}
    return {"description": first.removesuffix("."), "source": ""}
