"""Print the results of a command as text, JSON or CSV."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from rdmodel.locality_analysis.values import Locality
from rdmodel.results.prediction import Prediction
from rdmodel.results.simulation import Simulation

R = TypeVar("R", Prediction, Simulation, Locality)


def print_results(arguments: argparse.Namespace, results: Sequence[R], as_text: Callable[[R], str]) -> None:
    """Print results in the form that is asked for; JSON has a list where there are several."""
    if arguments.json:
        plain = [result.to_dict() for result in results]
        print_json(plain[0] if len(plain) == 1 else plain)
    elif arguments.csv:
        print_csv(result.to_row() for result in results)
    else:
        print("\n\n".join(map(as_text, results)))


def print_json(value: Any) -> None:
    """Print a value as indented JSON; NaN cannot occur."""
    json.dump(value, sys.stdout, indent=2, allow_nan=False)
    print()


def print_csv(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as CSV, all their keys as the header; what a row lacks stays empty."""
    table = list(rows)
    names = dict.fromkeys(name for row in table for name in row)
    writer = csv.DictWriter(sys.stdout, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
