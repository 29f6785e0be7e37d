"""Print the results of a command as text, JSON or CSV."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rdmodel.common.text import visible_text
from rdmodel.errors import escape_unprintable

if TYPE_CHECKING:
    from rdmodel.locality_analysis.values import Locality
    from rdmodel.results.prediction import Prediction
    from rdmodel.results.simulation import Simulation
    from rdmodel.timing.values import TimeEstimate

OutputForm = Literal["text", "json", "csv"]
"""Form in which a command prints its results."""

FORMULA_STARTS = ("=", "+", "-", "@")
"""First characters of formulas in spreadsheets."""

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""A number, which may start as a formula does."""

R = TypeVar("R", "Prediction", "Simulation", "Locality", "TimeEstimate")
"""Result that can be printed in every form."""


def print_results(
    form: OutputForm,
    results: Sequence[R],
    format_result: Callable[[R], str],
    more: Callable[[R], Mapping[str, Any]] | None = None,
    further: Callable[[R], Mapping[str, Any]] | None = None,
) -> None:
    """Print results: text by `format_result`, a CSV row each, or a JSON object (a list for several results).

    `more` returns further numbers of a result: more columns in CSV, the object "metrics" in JSON. `further` returns
    further objects of a result in JSON.
    """
    if form == "json":
        objects = []
        for result in results:
            plain = result.to_dict()
            if further is not None:  # the configuration stays last
                config = plain.pop("config")
                plain = {**plain, **further(result), "config": config}
            objects.append(plain if more is None else {**plain, "metrics": more(result)})
        print_json(objects[0] if len(objects) == 1 else objects)
    elif form == "csv":
        print_csv(_csv_row(result) | ({} if more is None else dict(more(result))) for result in results)
    else:
        print_text("\n\n".join(map(format_result, results)))


def _csv_row(result: R) -> dict[str, Any]:
    """Return the row of a result, with the number of its launch in a recording behind the kernel."""
    row: dict[str, Any] = dict(result.to_row())
    run = getattr(result, "simulation", result)  # a result about locality has one
    launch = getattr(run, "config", {}).get("trace", {}).get("launch")
    return row if launch is None else {"kernel": row["kernel"], "launch": launch, **row}


def print_text(text: str) -> None:
    """Print lines; characters with which a name could control the terminal become escapes."""
    print(visible_text(text))


def print_note(text: str) -> None:
    """Print one line about a run on stderr."""
    print(f"rdmodel: {escape_unprintable(text)}", file=sys.stderr)


def print_notes(texts: Iterable[str]) -> None:
    """Print lines about a run on stderr."""
    for text in texts:
        print_note(text)


def print_json(value: Any) -> None:
    """Print a value as indented JSON; refuse NaN and infinities with `ValueError`."""
    json.dump(value, sys.stdout, indent=2, allow_nan=False)
    print()


def print_csv(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as CSV under a header of all their keys; a missing value leaves its field empty.

    No text can act as a formula of a spreadsheet, or control the terminal; numbers stay numbers.
    """
    table = list(rows)
    names = dict.fromkeys(name for row in table for name in row)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(_csv_cell, names))
    writer.writerows([_csv_cell(row.get(name)) for name in names] for row in table)


def _csv_cell(value: Any) -> Any:
    """Return a value of a CSV table: a text that a spreadsheet could execute starts with an apostrophe."""
    if not isinstance(value, str):
        return value
    text = escape_unprintable(value)
    # A tab or a line break at the start, which a spreadsheet skips, has become an escape here.
    return f"'{text}" if text.startswith(FORMULA_STARTS) and not NUMBER.fullmatch(text) else text
