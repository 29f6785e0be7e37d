"""Compare the processor time of `estimate`, from trace to result, with the exact prediction of the same grid.

The exact prediction of a large kernel takes minutes. It is timed if it has at most ``--patience`` transactions. With
``--against CHECKOUT``, estimates of another checkout with compiled modules are measured in turn with those of this one.
``python benchmarks/quick.py [--repeat R] [--patience TRANSACTIONS] [--against CHECKOUT | --json]``
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from children import checkouts_with, output_of

import rdmodel as rd
import tracegen

TARGET_MILLISECONDS = 15.0
"""Wanted median of the times of all cases with an L2."""

TURNS = 3
"""Times that each of two checkouts is measured."""

GPU = "gtx470-16k"
"""GPU of the numbers in benchmarks/README.md."""

TILED = {
    "name": "gemm, 16 x 16 tiles",
    "parameters": {"NI": 1024, "NJ": 1024, "NK": 1024, "TI": 16, "TJ": 16, "TK": 16},
    "arrays": {"c": ["NI", "NJ"], "a": ["NI", "NK"], "b": ["NK", "NJ"]},
    "threads": ["NJ", "NI"],
    "block": ["TJ", "TI"],
    "body": [
        {
            "for": "k",
            "to": "NK",
            "step": "TK",
            "do": [
                {"load": "a", "at": ["y", "k + thread_x"]},
                {"load": "b", "at": ["k + thread_y", "x"]},
                "barrier",
                {"gap": 32},
                "barrier",
            ],
        },
        {"store": "c", "at": ["y", "x"]},
    ],
}

CASES: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "gemm 1024": ("gemm", {"NI": 1024, "NJ": 1024, "NK": 1024}),
    "gemm 1024, 16 x 16 tiles": (TILED, {}),
    "syrk 1024": ("syrk", {"N": 1024, "M": 1024}),
    "2dconv 1024": ("2dconv", {"NI": 1024, "NJ": 1024}),
    "mvt.1 1024": ("mvt.1", {"N": 1024}),
    "gemm 32": ("gemm", {"NI": 32, "NJ": 32, "NK": 4}),
}


def milliseconds(run: Callable[[], object]) -> float:
    """Return the processor time of one call in milliseconds."""
    start = time.process_time()
    run()
    return 1000 * (time.process_time() - start)


def measure(name: str, l2: bool, repeat: int, patience: float) -> dict[str, Any]:
    """Return the median and the longest time of `estimate`, and the time of the exact prediction, in milliseconds."""
    kernel, sizes = CASES[name]

    def trace() -> rd.Trace:
        return tracegen.affine_kernel(kernel, **sizes)

    traces = [trace() for _ in range(repeat)]
    times = [milliseconds(lambda one=one: rd.estimate(one, GPU, l2=l2)) for one in traces]  # type: ignore[misc]
    row: dict[str, Any] = {"median": statistics.median(times), "longest": max(times), "exact": None}
    if rd.estimate(trace(), GPU, l2=l2).transactions <= patience:
        whole = trace()
        row["exact"] = milliseconds(
            lambda: rd.predict(whole, GPU, model_sms="all", threads=None, histogram=False, l2=l2)
        )
    return row


def measure_checkout(repeat: int, checkout: str) -> dict[str, dict[str, Any]]:
    """Return what `measure` does for all cases with the packages of a checkout, without exact predictions."""
    arguments = [__file__, "--repeat", str(repeat), "--patience", "0", "--json"]
    return dict(json.loads(output_of(arguments, checkout)))


def middle(times: Mapping[str, float]) -> float:
    """Return the median of the times of the cases with an L2."""
    return statistics.median(time for name, time in times.items() if name.endswith(", L2"))


def compare(repeat: int, checkouts: list[str]) -> None:
    """Measure all cases in both checkouts in turn, and print the medians of all turns."""
    turns = [[measure_checkout(repeat, checkout) for checkout in checkouts] for _ in range(TURNS)]
    medians = [
        {name: statistics.median(turn[at][name]["median"] for turn in turns) for name in turns[0][at]} for at in (0, 1)
    ]
    print(f"ms of processor time, medians of {repeat} in {TURNS} turns, each with a new trace")
    print(f"{'kernel':30}{'this':>8}{'other':>8}{'ratio':>8}")
    for name, this in medians[0].items():
        print(f"{name:30}{this:8.1f}{medians[1][name]:8.1f}{this / medians[1][name]:8.2f}")
    this, other = map(middle, medians)
    print(f"{'median of those with L2':30}{this:8.1f}{other:8.1f}{this / other:8.2f}")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="benchmarks/quick.py", description=__doc__)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--patience", type=float, default=1e7)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--against", metavar="CHECKOUT", help="directory of another checkout, with compiled modules")
    output.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.against:
        compare(options.repeat, checkouts_with(options.against))
        return
    rd.estimate(tracegen.affine_kernel("gemm", NI=64, NJ=64, NK=8), GPU)
    rows = {
        f"{name}{', L2' if l2 else ''}": measure(name, l2, options.repeat, options.patience)
        for name in CASES
        for l2 in (False, True)
    }
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"ms of processor time, medians of {options.repeat}, each with a new trace")
    print(f"{'kernel':30}{'median':>8}{'longest':>9}{'exact':>9}{'ratio':>7}")
    for name, row in rows.items():
        exact = "" if row["exact"] is None else f"{row['exact']:9.0f}{row['exact'] / row['median']:7.1f}"
        print(f"{name:30}{row['median']:8.1f}{row['longest']:9.1f}{exact}")
    found = middle({name: row["median"] for name, row in rows.items()})
    print(f"{'median of those with L2':30}{found:8.1f}; wanted: {TARGET_MILLISECONDS:g}")


if __name__ == "__main__":
    main()
