"""Measure how long `rdmodel tiles` takes to rank tiles of a product of matrices, also in another checkout.

Each ranking runs in a new process with one thread. Figures are processor time. With ``--against CHECKOUT``, another
checkout with compiled modules runs in turn with this one. ``python benchmarks/tiles.py [--repeat N]
[--against CHECKOUT] [--json]``.
"""

from __future__ import annotations

import argparse
import json
import statistics

from children import checkouts_with, processor_seconds

TARGET_SECONDS = 7.0
"""Wanted processor time of the ranking by time with one block shape."""

SIZES = ["--param", "NI=512", "--param", "NJ=512", "--param", "NK=512"]
TILES = ["--tile", "TI=4,8,16,32", "--tile", "TJ=8,16,32,64"]
COMMAND = ["-m", "rdmodel", "tiles", "gemm.tiled", *SIZES, *TILES, "--jobs", "1", "--no-cache"]
"""The product of the ranking, its 16 tiles, and the command that ranks them."""

RANKINGS = {
    f"{gpu} {objective}": ["--gpu", gpu, "--objective", objective]
    for gpu in ("a100", "gtx470-16k")
    for objective in ("time", "dram_bytes")
}
"""Arguments of the rankings."""


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="benchmarks/tiles.py", description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="runs of each ranking (default: 3)")
    parser.add_argument("--against", metavar="CHECKOUT", help="directory of another checkout, with compiled modules")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    checkouts = checkouts_with(options.against)
    times: dict[str, list[list[float]]] = {name: [[] for _ in checkouts] for name in RANKINGS}
    for _ in range(options.repeat):
        for name, arguments in RANKINGS.items():
            for number, checkout in enumerate(checkouts):
                times[name][number].append(processor_seconds([*COMMAND, *arguments], checkout))
    medians = {name: [statistics.median(runs) for runs in found] for name, found in times.items()}
    if options.json:
        print(json.dumps(medians, indent=2))
        return
    print(f"s of processor time, medians of {options.repeat}; wanted: {TARGET_SECONDS:g}")
    print(f"{'ranking of 16 tiles':26}{'this':>8}" + (f"{'other':>8}{'ratio':>8}" if options.against else ""))
    for name, row in medians.items():
        ratio = f"{row[0] / row[1]:8.2f}" if options.against else ""
        print(f"{name:26}" + "".join(f"{number:8.2f}" for number in row) + ratio)


if __name__ == "__main__":
    main()
