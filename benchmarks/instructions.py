"""Count the machine instructions of `predict`, `estimate` and `simulate` under valgrind, also against another checkout.

Counts hardly differ between runs, whatever else the machine does, so that they show a change of one per cent where
times do not. They say nothing about cache misses. A call is counted as half the difference between processes with one
and with three calls, each with a new trace. ``python benchmarks/instructions.py [CASE ...] [--against CHECKOUT]
[--json]`` needs valgrind; a case is an operation and a kernel, such as ``predict:gemm``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from children import checkouts_with

GPU = "gtx470-16k"

CALL = """
import sys, rdmodel as rd, tracegen
operation, kernel, gpu, sizes, calls = sys.argv[1:6]
sizes = {name: int(value) for name, _, value in (pair.partition("=") for pair in sizes.split(",") if pair)}
for _ in range(int(calls)):
    if operation == "predict":
        rd.predict(tracegen.kernel(kernel, **sizes), gpu, histogram=False)
    elif operation == "simulate":
        rd.simulate(tracegen.kernel(kernel, **sizes), gpu)
    else:
        rd.estimate(tracegen.affine_kernel(kernel, **sizes), gpu, l2=operation == "estimate-l2")
"""
"""The program that is counted; it must run in old checkouts, too."""

CASES: Mapping[str, str] = {
    "predict:gemm": "",
    "predict:2dconv": "",
    "predict:fdtd2d.1": "",
    "predict:gesummv": "N=1024",
    "estimate-l2:gemm": "NI=1024,NJ=1024,NK=1024",
    "estimate-l2:2dconv": "NI=1024,NJ=1024",
    "estimate-l2:mvt.1": "N=1024",
    "simulate:gemm": "NI=128,NJ=128,NK=64",
    "simulate:2dconv": "NI=512,NJ=512",
    "simulate:atax.1": "NX=256,NY=256",
    "simulate:syrk": "N=64,M=64",
}
"""Sizes of the kernels that are counted by default."""


def count(checkout: str, case: str) -> float:
    """Return the millions of instructions of one call with the code of a checkout."""
    operation, _, kernel = case.partition(":")
    one, three = (
        _count_process(checkout, [operation, kernel, GPU, CASES.get(case, ""), str(calls)]) for calls in (1, 3)
    )
    return (three - one) / 2e6


def _count_process(checkout: str, arguments: Sequence[str]) -> int:
    # The order of sets of strings, and so the work of the interpreter, would differ from process to process.
    fixed = {"PYTHONPATH": checkout, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/counts"]
        command = [*valgrind, sys.executable, "-c", CALL, *arguments]
        done = subprocess.run(command, env={**os.environ, **fixed}, cwd=checkout, capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        sys.exit(f"{' '.join(arguments)}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return int(found[1])


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="benchmarks/instructions.py", description=__doc__)
    parser.add_argument("cases", metavar="CASE", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--against", metavar="CHECKOUT", help="directory of another checkout, with compiled modules")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        parser.error("valgrind is not installed")
    checkouts = checkouts_with(options.against)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = {case: [pool.submit(count, checkout, case) for checkout in checkouts] for case in options.cases}
        rows = {case: [one.result() for one in of_case] for case, of_case in counts.items()}
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"millions of instructions per call, {GPU}")
    print(f"{'':24}{'this':>8}" + (f"{'other':>8}{'ratio':>8}" if options.against else ""))
    for case, row in rows.items():
        numbers = "".join(f"{number:8.0f}" for number in row)
        print(f"{case:24}{numbers}" + (f"{row[0] / row[1]:8.2f}" if options.against else ""))


if __name__ == "__main__":
    main()
