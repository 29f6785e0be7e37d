"""Measure the peak memory of ``rdmodel predict KERNEL`` at default sizes, each kernel in a separate process.

This process imports nothing large, since the peak memory of a child starts from that of its parent.
``python benchmarks/memory.py [--kernels KERNEL ...] [--definition D] [--json]``
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from children import measure

GPU = "gtx470-16k"
"""GPU of the numbers in benchmarks/README.md."""

TARGET_MB = 400
"""Wanted peak memory in MB, at most."""

RDMODEL = (sys.executable, "-m", "rdmodel")


def kernels() -> list[str]:
    """Return the names of all kernels."""
    listed = subprocess.run([*RDMODEL, "kernels", "--json"], check=True, capture_output=True)
    return [kernel["name"] for kernel in json.loads(listed.stdout)]


def main() -> None:
    """Measure every kernel and print a table as it goes, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kernels", nargs="+", metavar="KERNEL", help="only these kernels (default: all)")
    parser.add_argument("--definition", choices=("hardware", "paper"), default="hardware")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if not options.json:
        print(f"peak memory in MB, wall time in s; wanted: at most {TARGET_MB} MB")
    rows = {}
    for kernel in options.kernels or kernels():
        row = rows[kernel] = measure(
            ["-m", "rdmodel", "predict", kernel, "--gpu", GPU, "--definition", options.definition, "--json"]
        )
        if not options.json:
            print(f"{kernel:16}{row['peak_mb']:>8.0f}{row['seconds']:>8.1f}", flush=True)
    peak = max(row["peak_mb"] for row in rows.values())
    if options.json:
        print(json.dumps({"target_mb": TARGET_MB, "peak_mb": peak, "kernels": rows}, indent=2))
    else:
        print(f"{'largest':16}{peak:>8.0f}")


if __name__ == "__main__":
    main()
