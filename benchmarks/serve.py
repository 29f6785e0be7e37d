"""Measure latency, throughput and memory of `rdmodel serve`, over pipes.

Four clients send queries at once, each of them one query after the other. The queries are quick predictions of matrix
kernels of 1024 x 1024: first a cold pass in which all questions differ, then cached questions. The clients either have
one service each, and share the answers file, or share one service. Then one client sends cached queries without waiting
for answers. At last, 100,000 queries go to one service, one in a hundred of them new, and its memory is measured before
and after. ``python benchmarks/serve.py [--clients C] [--queries Q] [--flood N] [--command ...] [--json]``
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

GPU = "gtx470-16k"
"""GPU of the numbers in benchmarks/README.md."""

KERNELS = ("gemm", "syrk", "syr2k", "2mm.1", "mvt.1", "atax.2", "2dconv", "fdtd2d.3")
SIZES = {
    "gemm": ("NI", "NJ", "NK"),
    "syrk": ("N", "M"),
    "syr2k": ("N", "M"),
    "2mm.1": ("NI", "NJ", "NK", "NL"),
    "mvt.1": ("N",),
    "atax.2": ("NX", "NY"),
    "2dconv": ("NI", "NJ"),
    "fdtd2d.3": ("NX", "NY"),
}
PASSES = 20
"""Number of times that each client sends its cached queries."""


def query(number: int, n: int = 1024) -> dict[str, Any]:
    """Return a query; queries with different numbers are different questions."""
    kernel = KERNELS[number % len(KERNELS)]
    params = dict.fromkeys(SIZES[kernel], n)
    seed = number // len(KERNELS)
    return {"op": "predict", "effort": "quick", "gpu": GPU, "kernel": kernel, "params": params, "seed": seed}


class Service:
    """A service, and the queues of its clients for answers."""

    def __init__(self, command: list[str], cache: str) -> None:
        argv = [*command, "--cache", cache]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self.process.stdout is not None
        self._out = os.fdopen(os.dup(self.process.stdout.fileno()), "rb")
        self._mail: dict[str, SimpleQueue[bytes]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._sort, daemon=True).start()

    def _sort(self) -> None:
        for line in self._out:
            # Ids are texts, "CLIENT:NUMBER", and stand first.
            self._mail[line[7 : line.index(b":", 7)].decode()].put(line)

    def post(self, client: str) -> tuple[Callable[[bytes], None], SimpleQueue[bytes]]:
        """Register a client; return its function for sending, and the queue of its answers."""
        self._mail[client] = SimpleQueue()
        return self.send, self._mail[client]

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        with self._lock:
            view = memoryview(data)
            while view:
                view = view[os.write(self.process.stdin.fileno(), view) :]

    def rss(self) -> int:
        """Return the memory of the service in bytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return next(int(row.split()[1]) << 10 for row in text.splitlines() if row.startswith("VmRSS:"))


@contextmanager
def service(command: list[str], cache: str) -> Iterator[Service]:
    """Start a service, wait until it answers, and stop it at the end."""
    one = Service(command, cache)
    try:
        send, mail = one.post("warm")
        for request in ({"op": "ping"}, *(query(number, 64) for number in range(len(KERNELS)))):
            send(line("warm", 0, request))
            answered(mail)
        yield one
    finally:
        assert one.process.stdin is not None
        one.process.stdin.close()
        one.process.wait()


def line(client: str, number: int, request: dict[str, Any]) -> bytes:
    return json.dumps({"id": f"{client}:{number}", **request}).encode() + b"\n"


def answered(mail: SimpleQueue[bytes]) -> dict[str, Any]:
    """Return the next result; exit at an error."""
    answer = json.loads(mail.get())
    if "error" in answer:
        raise SystemExit(f"error: {answer['error']['message']}")
    result: dict[str, Any] = answer["result"]
    return result


def ask_all(name: str, one: Service, numbers: list[int], cached: bool) -> list[float]:
    """Send queries one after the other, and return the seconds of each."""
    send, mail = one.post(name)
    took = []
    for number in numbers:
        data = line(name, number, query(number))
        started = time.perf_counter()
        send(data)
        raw = mail.get()
        took.append(time.perf_counter() - started)
        if json.loads(raw).get("result", {}).get("cached") is not cached:
            raise SystemExit(f"error: not as cached as expected: {raw[:300]!r}")
    return took


def at_once(jobs: list[Callable[[], list[float]]]) -> tuple[list[float], float]:
    """Run jobs at the same time; return their results together, and the seconds."""
    found: list[list[float]] = []
    threads = [threading.Thread(target=lambda job=job: found.append(job())) for job in jobs]  # type: ignore[misc]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    if len(found) < len(jobs):
        raise SystemExit(1)
    return [took for one in found for took in one], seconds


def latencies(command: list[str], clients: int, queries: int, shared: bool) -> dict[str, float]:
    """Return median and 99th percentile in milliseconds, and queries per second, cold and cached."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        cache = str(Path(folder) / "answers.sqlite")
        services = [stack.enter_context(service(command, cache)) for _ in range(1 if shared else clients)]
        mine = [services[0] if shared else services[client] for client in range(clients)]
        row: dict[str, float] = {}
        for state, passes in (("cold", 1), ("cached", PASSES)):
            numbers = [list(range(client * queries, (client + 1) * queries)) * passes for client in range(clients)]
            jobs = [
                partial(ask_all, str(client), mine[client], numbers[client], state == "cached")
                for client in range(clients)
            ]
            took, seconds = at_once(jobs)
            row[f"{state} median ms"] = 1e3 * statistics.median(took)
            row[f"{state} 99 % ms"] = 1e3 * statistics.quantiles(took, n=100)[98]
            row[f"{state} queries/s"] = len(took) / seconds
        return row


def flood(command: list[str], count: int) -> dict[str, float]:
    """Return cached queries per second without waiting, and memory around `count` queries, in MB."""
    with tempfile.TemporaryDirectory() as folder, service(command, str(Path(folder) / "answers.sqlite")) as one:
        send, mail = one.post("flood")
        known = [query(number, 64) for number in range(len(KERNELS))]
        # The first queries cause costs that a service has once: allocators, cached answers.
        _flood(send, mail, known, count // 20, len(known), every=10)
        before = one.rss()
        started = time.perf_counter()
        _flood(send, mail, known, count // 10)
        seconds = time.perf_counter() - started
        _flood(send, mail, known, count - count // 10, len(known) + count, every=100)
        return {
            "cached queries/s": count // 10 / seconds,
            "queries": count,
            "MB before": before / 1e6,
            "MB after": one.rss() / 1e6,
        }


def _flood(
    send: Callable[[bytes], None],
    mail: SimpleQueue[bytes],
    known: list[dict[str, Any]],
    count: int,
    new: int = 0,
    every: int = 0,
) -> None:
    """Send `count` queries without waiting; each `every`-th is new, from number `new` on (0: none is)."""
    count = -(-count // 100) * 100

    def write() -> None:
        for at in range(0, count, 100):
            some = [known[n % len(known)] for n in range(100)]
            for place in range(0, 100, every) if every else ():
                some[place] = query(new + at + place, 64)
            send(b"".join(line("flood", n, request) for n, request in enumerate(some)))

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(count):
        raw = mail.get()
        if b'"error"' in raw[:40]:
            raise SystemExit(f"error: {raw[:300]!r}")
    writer.join()


def main() -> None:
    """Measure and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--clients", type=int, default=4, metavar="C")
    parser.add_argument("--queries", type=int, default=48, metavar="Q", help="different queries of each client")
    parser.add_argument("--flood", type=int, default=100_000, metavar="N", help="queries for the measurement of memory")
    parser.add_argument("--command", default=f"{sys.executable} -m rdmodel serve", help="the service")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    command = shlex.split(arguments.command)
    rows = {
        name: latencies(command, arguments.clients, arguments.queries, shared)
        for name, shared in (("a service each", False), ("one service", True))
    }
    flooded = flood(command, arguments.flood)
    if arguments.json:
        print(json.dumps({**rows, "flood": flooded}))
        return
    print(f"{arguments.clients} clients with {arguments.queries} queries each; cached: {PASSES} times; milliseconds")
    print(f"{'clients have':16}{'state':8}{'median':>9}{'99 %':>9}{'queries/s':>11}")
    for name, row in rows.items():
        for state in ("cold", "cached"):
            numbers = (row[f"{state} median ms"], row[f"{state} 99 % ms"], row[f"{state} queries/s"])
            print(f"{name:16}{state:8}{numbers[0]:9.2f}{numbers[1]:9.2f}{numbers[2]:11.0f}")
    print(f"one client that does not wait: {flooded['cached queries/s']:.0f} cached queries/s")
    print(
        f"memory after {flooded['queries']:,} queries: {flooded['MB after']:.0f} MB, before {flooded['MB before']:.0f}"
    )


if __name__ == "__main__":
    main()
