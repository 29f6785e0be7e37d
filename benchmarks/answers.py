"""Measure the speed of the answers file, as a ratio to a dict in memory with the same questions and answers as JSON.

Both put and get in turn in one process, so that the ratio of their medians is meaningful on a busy machine. The last
row is a cost that each process has once. ``python benchmarks/answers.py [--answers N] [--tiles T] [--repeat R]
[--json]``
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from rdmodel import Answers

TARGET_MICROSECONDS = 500.0
"""Wanted time of one call, at most."""

ONCE = "import time; from rdmodel.answers import key; t = time.perf_counter(); key._code_digest(); "
ONCE += "print(time.perf_counter() - t)"


class Plain:
    """Answers in a dict: the cost of keys and JSON alone."""

    def __init__(self) -> None:
        self._kept: dict[bytes, str] = {}

    def put(self, question: dict[str, Any], answer: dict[str, Any]) -> None:
        """Store the answer to a question."""
        self._kept[self._key(question)] = json.dumps(answer)

    def get(self, question: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a question, or None."""
        text = self._kept.get(self._key(question))
        return None if text is None else json.loads(text)

    def _key(self, question: dict[str, Any]) -> bytes:
        return sha256(json.dumps(question, sort_keys=True).encode()).digest()


def question(number: int, tiles: int) -> dict[str, Any]:
    """Return a question about a ranking of `tiles` tiles."""
    shapes = [{"TI": 1 + at, "TJ": 32} for at in range(tiles)]
    return {"op": "rank", "kernel": "gemm", "params": {"NI": number}, "gpu": "gtx470-16k", "tiles": shapes}


def answer(number: int, tiles: int) -> dict[str, Any]:
    """Return an answer with the length of a ranking."""
    row = {"value": number / 3, "low": number / 4, "high": number / 2, "tied": False, "pruned": None, "misses": 4112.0}
    return {"tiles": [{**row, "rank": at, "tile": {"TI": 1 + at, "TJ": 32}} for at in range(tiles)]}


def microseconds(work: Callable[[int], Any], count: int) -> float:
    """Return the median time of one call."""
    times = []
    for number in range(count):
        start = time.perf_counter()
        work(number)
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def measure(folder: Path, count: int, tiles: int) -> dict[str, tuple[float, float]]:
    """Return the microseconds of a call on the dict and on the file, by the name of the call."""
    plain = Plain()
    with Answers(folder / "answers.sqlite") as cache:
        rows = {}
        for name, work in (
            ("put", lambda one, n: one.put(question(n, tiles), answer(n, tiles))),
            ("get", lambda one, n: one.get(question(n, tiles))),
            ("get, not there", lambda one, n: one.get(question(-1 - n, tiles))),
        ):
            rows[name] = tuple(
                microseconds(lambda n, one=one, work=work: work(one, n), count) for one in (plain, cache)
            )
        if cache.trouble or cache.get(question(0, tiles)) != answer(0, tiles):
            raise SystemExit(f"the cache does not work: {cache.trouble}")
    return rows


def main() -> None:
    """Measure and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--answers", type=int, default=2000)
    parser.add_argument("--tiles", type=int, default=24)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    runs = []
    for _ in range(options.repeat):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(measure(Path(folder), options.answers, options.tiles))
    rows = {name: [statistics.median(run[name][at] for run in runs) for at in (0, 1)] for name in runs[0]}
    once = [float(subprocess.check_output([sys.executable, "-c", ONCE])) for _ in range(options.repeat)]
    length = len(json.dumps(answer(1000, options.tiles)))
    if options.json:
        print(json.dumps({"answer_bytes": length, "microseconds": rows, "digest_seconds": statistics.median(once)}))
        return
    print(f"{options.answers:,} answers of {length:,} bytes, medians of {options.repeat}; microseconds")
    print(f"at most {TARGET_MICROSECONDS:g} are wanted")
    print(f"{'':16}{'memory':>9}{'cache':>9}{'ratio':>8}")
    for name, (memory, cache) in rows.items():
        print(f"{name:16}{memory:>9.0f}{cache:>9.0f}{cache / memory:>8.1f}")
    print(f"digest of the code, once per process: {1000 * statistics.median(once):.1f} ms")


if __name__ == "__main__":
    main()
