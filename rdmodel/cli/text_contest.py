"""Policies side by side, and what policies there are, as text."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from rdmodel.cli.text_simulation import format_found_values
from rdmodel.cli.text_tables import format_kernel, format_sms, format_table
from rdmodel.common.text import count, percent
from rdmodel.contests.combinations import BASELINE, COMBINATIONS
from rdmodel.contests.contest import Contest
from rdmodel.policies import INDEX_FUNCTIONS, POLICIES, IndexFunction, Policy
from rdmodel.results.simulation import Simulation

DESCRIPTION_AND_SOURCE = re.compile(r"^(.*) \((.*)\)\.$")
"""The first line of a policy's docstring: what it does, and where it is from."""

Row = tuple[str, str, str, str, str, str]


def format_contest(result: Contest) -> str:
    """Return a contest: a part for each kernel with a line for each combination, and the means over several kernels."""
    first = next(iter(result.simulations[0].values()))
    sections = [_kernel(result, number) for number in range(len(result.simulations))]
    if len(sections) > 1:
        sections.append(_means(result))
    # One table, so that all parts share their columns.
    empty: Row = ("", "", "", "", "", "")
    rows = [row for section in sections for row in [*section, empty]][:-1]
    return f"{_heading(first)}\n\n{format_table(rows, right=(1, 2, 3, 4))}\n\n{_times(result)}\n\n{_legend()}"


def _heading(one: Simulation) -> str:
    return f"policies on {one.gpu}, {format_sms(one.sms)}, scheduler {one.config['options']['sched']}"


def _kernel(result: Contest, number: int) -> list[Row]:
    runs = result.simulations[number]
    name = format_kernel(result.kernels[number], next(iter(runs.values())).config)
    rows: list[Row] = [(f"  {name}", "relative", "IPC", "miss rate", "bypassed", "")]
    for one in result.names:
        ratio = result.relative_ipc(one)[number]
        rows.append((f"    {one}", "-" if ratio is None else f"{ratio:.3f}", *_numbers(runs.get(one))))
    return rows


def _numbers(run: Simulation | None) -> tuple[str, str, str, str]:
    """Return IPC, miss rate, share of bypassed loads, and what was found; dashes for a run that is missing."""
    if run is None:
        return "-", "-", "-", "not finished"
    bypassed = percent(run.bypassed, run.loads + run.bypassed)
    return f"{run.ipc:,.2f}", percent(run.misses.total, run.loads), bypassed, format_found_values(run)


def _means(result: Contest) -> list[Row]:
    complete, kernels = sum(result.complete), len(result.complete)
    of = "1 kernel" if complete == 1 else f"{complete} kernels"
    left_out = "" if complete == kernels else f", {kernels - complete} not finished"
    rows: list[Row] = [(f"  geometric mean of {of}{left_out}", "relative", "", "", "", "")]
    for name in result.names:
        mean = result.geometric_mean(name)
        rows.append((f"    {name}", "-" if mean is None else f"{mean:.3f}", "", "", "", ""))
    return rows


def _times(result: Contest) -> str:
    runs = [run for one in result.simulations for run in one.values()]
    seconds = sum(run.seconds + run.trace_seconds for run in runs)
    return f"  time: {count(len(runs))} runs, {seconds:.2f} s of work"


def _legend() -> str:
    return (
        f"relative: IPC by that of {BASELINE}; miss rate: of the loads that did not bypass the L1;\n"
        "bypassed: of all loads; both per coalesced transaction"
    )


# ---- what there is


def required(cls: type[Policy | IndexFunction]) -> list[str]:
    """Return the options of a policy, or of an index function, that have no default."""
    return [f.name for f in fields(cls) if f.default is MISSING]  # type: ignore[arg-type]


def policies() -> list[dict[str, Any]]:
    """Return every policy with its kind, options and defaults, what it does and where it is from, as plain values."""
    return [
        {
            "name": cls.name,
            "kind": cls.kind,
            "required": required(cls),
            "defaults": {f.name: f.default for f in fields(cls) if f.default is not MISSING},  # type: ignore[arg-type]
            **_described(cls),
        }
        for cls in POLICIES.values()
    ]


def listing() -> str:
    """Return the policies, the index functions and the named combinations."""
    rows = [("policy", "kind", "options", "source")]
    rows += [(one["name"], one["kind"], _options(one), one["source"]) for one in policies()]
    index = ("index:NAME", "index", " ".join(name for name, cls in INDEX_FUNCTIONS.items() if not required(cls)), "")
    named = [("combination", "stands for")]
    named += [(name, text or "no policies: what the others are relative to") for name, text in COMBINATIONS.items()]
    return f"{format_table([*rows, index])}\n\n{format_table(named)}"


def _options(one: Mapping[str, Any]) -> str:
    defaults = (f"{name}={str(value).lower()}" for name, value in one["defaults"].items())
    return " ".join([*(f"{name}=..." for name in one["required"]), *defaults])


def _described(cls: type[Policy]) -> dict[str, str]:
    first = (inspect.getdoc(cls) or "").partition("\n")[0]
    match = DESCRIPTION_AND_SOURCE.match(first)
    return {"description": match[1], "source": match[2]} if match else {"description": first, "source": ""}
