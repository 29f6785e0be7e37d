"""Print the results of a command as text, JSON or CSV."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from rdmodel.locality_analysis.values import Locality
from rdmodel.results.prediction import Prediction
from rdmodel.results.simulation import Simulation

OutputForm = Literal["text", "json", "csv"]
"""Form in which a command prints its results."""

R = TypeVar("R", Prediction, Simulation, Locality)
"""Result that can be printed in every form."""


def print_results(
    form: OutputForm,
    results: Sequence[R],
    format_result: Callable[[R], str],
    more: Callable[[R], Mapping[str, Any]] | None = None,
) -> None:
    """Print results: text by `format_result`, a CSV row each, or a JSON object (a list for several results).

    `more` returns further numbers of a result: more columns in CSV, the object "metrics" in JSON.
    """
    if form == "json":
        objects = [result.to_dict() | ({} if more is None else {"metrics": more(result)}) for result in results]
        print_json(objects[0] if len(objects) == 1 else objects)
    elif form == "csv":
        print_csv(result.to_row() | ({} if more is None else dict(more(result))) for result in results)
    else:
        print("\n\n".join(map(format_result, results)))


def print_json(value: Any) -> None:
    """Print a value as indented JSON; refuse NaN and infinities with `ValueError`."""
    json.dump(value, sys.stdout, indent=2, allow_nan=False)
    print()


def print_csv(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as CSV under a header of all their keys; a missing value leaves its field empty."""
    table = list(rows)
    names = dict.fromkeys(name for row in table for name in row)
    writer = csv.DictWriter(sys.stdout, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
