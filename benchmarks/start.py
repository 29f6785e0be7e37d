"""Measure how long short commands take to start, as multiples of the import of NumPy.

Each command runs in a new process, with byte code that earlier runs have written. Figures are processor time, which
other work on the machine disturbs less than time on the clock. With ``--against CHECKOUT``, commands of another
checkout with compiled modules run in turn with those of this one. ``python benchmarks/start.py [--repeat N]
[--against CHECKOUT] [--json]``.
"""

from __future__ import annotations

import argparse
import json
import statistics

from children import checkouts_with, processor_seconds

COMMANDS = {
    "help": ["--help"],
    "help of a command": ["predict", "--help"],
    "predict": ["predict", "gemm", "--param", "NI=64", "--param", "NJ=64", "--param", "NK=64"],
    "simulate": ["simulate", "gemm", "--param", "NI=32", "--param", "NJ=32", "--param", "NK=32"],
    "time": ["time", "gemm", "--param", "NI=64", "--param", "NJ=64", "--param", "NK=64"],
    "gpus": ["gpus", "a100"],
}
"""Commands that do little work."""


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="benchmarks/start.py", description=__doc__)
    parser.add_argument("--repeat", type=int, default=15, metavar="N", help="runs of each command (default: 15)")
    parser.add_argument("--against", metavar="CHECKOUT", help="directory of another checkout, with compiled modules")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    checkouts = checkouts_with(options.against)
    cases = {("interpreter", 0): ["-c", "pass"], ("import numpy", 0): ["-c", "import numpy"]}
    for name, words in COMMANDS.items():
        cases |= {(name, number): ["-m", "rdmodel", *words] for number in range(len(checkouts))}
    times: dict[tuple[str, int], list[float]] = {case: [] for case in cases}
    for turn in range(options.repeat + 1):
        for case, arguments in cases.items():
            found = 1e3 * processor_seconds(arguments, checkouts[case[1]])
            if turn:  # the first turn writes byte code
                times[case].append(found)
    medians = {case: statistics.median(of_case) for case, of_case in times.items()}
    if options.json:
        print(json.dumps({name: [medians[case] for case in cases if case[0] == name] for name, _ in cases}, indent=2))
        return
    numpy = medians["import numpy", 0]
    print(f"ms of processor time, medians of {options.repeat}, and ratios to the import of NumPy")
    print(f"{'':20}{'this':>8}{'ratio':>8}" + (f"{'other':>8}{'ratio':>8}" if options.against else ""))
    for name in dict.fromkeys(name for name, _ in cases):
        row = [medians[case] for case in cases if case[0] == name]
        print(f"{name:20}" + "".join(f"{number:8.0f}{number / numpy:8.2f}" for number in row))


if __name__ == "__main__":
    main()
