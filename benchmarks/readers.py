"""Measure the speed of reading other tools' traces, also as a ratio to plain Python loops over the same lines.

A file of each format is generated in a temporary folder and read from there. The plain loop reads a file with a tenth
of the lines, and the results of both readers for this file are compared. Both run in turn in one process. Speeds are
per second of processor time (a reader uses one core) and per second of wall time, which other work on the machine
lengthens; "with blocks" also counts the time to get each block once.
``python benchmarks/readers.py [FORMAT ...] [--lines N] [--repeat R] [--json]``
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from rdmodel.trace import Trace, locate_block
from tracegen import formats
from tracegen.formats.ordering import gathering

BLOCKS = 256
WARPS = 8
TARGET_KILOLINES_PER_SECOND = {"nvbit": 5000.0, "ppt": 10000.0}
"""Wanted thousands of lines per second of processor time, by format."""

Plain = dict[tuple[int, int], list[int]]
"""Addresses of every warp (block, warp), in order."""


class Kind(NamedTuple):
    """A writer of files with a given number of lines, and a plain loop that reads them."""

    write: Callable[[Path, int], None]
    read: Callable[[Path], Plain]


# ---- NVBit mem_trace

LAUNCH = (
    "MEMTRACE: CTX 0x000055d0c0de0000 - LAUNCH - Kernel pc 0x00007f1234567800 - Kernel name scale(float*, int) - "
    f"grid launch id 0 - grid size {BLOCKS},1,1 - block size {32 * WARPS},1,1 - nregs 16 - shmem 0 - cuda stream id 0\n"
)
OPCODES = ("LDG.E.SYS", "LDG.E.64.SYS", "STG.E.SYS")


def write_nvbit(path: Path, lines: int, scattered: bool = False) -> None:
    """Write full warps of resident blocks in turn, as on a GPU, with 16 blocks at a time."""
    rng = random.Random(1)
    draw = _scattered if scattered else _addresses
    ends = [" ".join(f"0x{a:016x}" for a in draw(rng)) + " \n" for _ in range(2000)]
    with path.open("w") as file:
        file.write(LAUNCH)
        for block, warp in _places(rng, lines):
            place = f"MEMTRACE: CTX 0x000055d0c0de0000 - grid_launch_id 0 - CTA {block},0,0 - warp {warp}"
            file.write(f"{place} - {rng.choice(OPCODES)} - {rng.choice(ends)}")


def read_nvbit(path: Path) -> Plain:
    """Return the addresses of a file of ``mem_trace``."""
    warps: Plain = defaultdict(list)
    with path.open() as file:
        for line in file:
            if line.startswith("MEMTRACE: ") and " - LAUNCH - " not in line:
                fields = line.split(" - ")
                place = int(fields[2][4:].split(",")[0]), int(fields[3][5:])
                warps[place] += [address for address in (int(word, 16) for word in fields[5].split()) if address]
    return warps


# ---- PPT-GPU


def write_ppt(path: Path, lines: int) -> None:
    """Write a folder of 16 blocks."""
    rng = random.Random(1)
    ends = [" ".join(hex(address) for address in _addresses(rng)) for _ in range(2000)]
    path.mkdir()
    (path / "app_config.py").write_text(
        f'kernel_1 = {{"kernel_name": "scale", "num_registers": 16, "shared_mem_bytes": 0, "grid_size": 16, '
        f'"block_size": {32 * WARPS}}}\n'
    )
    for block in range(16):
        with (path / f"kernel_1_block_{block}.mem").open("w") as file:
            for _ in range(lines // 32):  # a record and its separator are two lines
                file.write(f"\n=====\n{rng.choice(OPCODES)} {rng.choice(ends)} ")


def read_ppt(path: Path) -> Plain:
    """Return the addresses of a folder of PPT-GPU, assigned to the warps by the rule of `tracegen.formats.ppt`."""
    warps: Plain = defaultdict(list)
    for block in range(16):
        turns: defaultdict[str, int] = defaultdict(int)
        for record in (path / f"kernel_1_block_{block}.mem").read_text().split("\n=====\n"):
            if record:
                opcode, *words = record.split()
                warps[block, turns[opcode] % WARPS] += [int(word, 16) for word in words]
                turns[opcode] += 1
    return warps


# ---- Accel-Sim

TRIPS = 60
LOOP = (
    "0040 ffffffff 1 R8 LDG.E.SYS 1 R2 4 1 0x{:x} 4 0",
    "0050 ffffffff 1 R9 LDG.E.128.CONSTANT.SYS 1 R4 16 {} 0",
    "0060 ffffffff 1 R2 IADD3 3 R2 R255 R255 0 128",
    "0070 ffffffff 1 R3 IADD3.X 3 R255 R255 R3 0 0",
    "0080 ffffffff 1 R16 FFMA 3 R8 R9 R16 0 0",
    "0090 ffffffff 1 R6 IADD3 2 R6 R255 0 1",
    "00a0 ffffffff 0 ISETP.GE.AND 2 R6 R7 0 0",
    "00b0 ffffffff 0 BRA 0 0 96",
)


def write_accelsim(path: Path, lines: int) -> None:
    """Write blocks of warps that execute a loop of eight instructions, two of them loads."""
    rng = random.Random(1)
    blocks = max(lines // (WARPS * TRIPS * len(LOOP)), 1)
    with path.open("w") as file:
        file.write(f"-kernel name = scale\n-grid dim = ({blocks},1,1)\n-block dim = ({32 * WARPS},1,1)\n")
        file.write("-accelsim tracer version = 5\n-enable lineinfo = 0\n\n")
        for block in range(blocks):
            file.write(f"#BEGIN_TB\n\nthread block = {block},0,0\n")
            for warp in range(WARPS):
                file.write(f"\nwarp = {warp}\ninsts = {TRIPS * len(LOOP)}\n")
                file.writelines("\n".join(LOOP).format(*_both(rng, i)) + "\n" for i in range(TRIPS))
            file.write("\n#END_TB\n\n")


def _both(rng: random.Random, trip: int) -> tuple[int, str]:
    first = _addresses(rng)[0]
    deltas = " ".join(str(rng.randrange(-4096, 4096)) for _ in range(31))
    return first, f"1 0x{first:x} 16" if trip % 4 else f"2 0x{first:x} {deltas}"


def read_accelsim(path: Path) -> Plain:
    """Return the addresses of a ``.traceg``."""
    warps: Plain = defaultdict(list)
    with path.open() as file:
        for line in file:
            words = line.split()
            if line.startswith("thread block = "):
                block = int(words[3].split(",")[0])
            elif line.startswith("warp = "):
                place = block, int(words[2])
            elif len(words) > 4 and words[4].startswith("LDG"):
                mode, first, *rest = words[8:-1]
                steps = [int(rest[0])] * 31 if mode == "1" else [int(step) for step in rest]
                warps[place] += accumulate(steps, initial=int(first, 16))
    return warps


# ---- Measuring

KINDS = {
    "nvbit": Kind(write_nvbit, read_nvbit),
    "nvbit/scattered": Kind(partial(write_nvbit, scattered=True), read_nvbit),
    "accelsim": Kind(write_accelsim, read_accelsim),
    "ppt": Kind(write_ppt, read_ppt),
}


def _addresses(rng: random.Random) -> list[int]:
    first = 0x7F8A01800000 + 4 * rng.randrange(1 << 24)
    return [first + 4 * lane for lane in range(32)]


def _scattered(rng: random.Random) -> list[int]:
    return [0x7F8A01800000 + 4 * rng.randrange(1 << 24) for _ in range(32)]


def _places(rng: random.Random, lines: int) -> Iterator[tuple[int, int]]:
    for i in range(lines):
        yield (i * (BLOCKS - 16) // lines + rng.randrange(16)), rng.randrange(WARPS)


def check(trace: Trace, expected: Plain) -> None:
    """Exit if a trace does not have these addresses."""
    flat = [address for place in sorted(expected) for address in expected[place]]
    if trace.columns.addresses.tolist() != flat:
        raise SystemExit("the two readers disagree")


def seconds(run: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return processor time and wall time of one call, and its result."""
    wall, busy = time.perf_counter(), time.process_time()
    result = run()
    return time.process_time() - busy, time.perf_counter() - wall, result


def get_blocks(trace: Trace) -> None:
    """Get every block once, as a model does."""
    assert trace.blocks is not None
    for block in trace.blocks:
        locate_block(trace, block)


def measure(name: str, folder: Path, lines: int, repeat: int) -> dict[str, float]:
    """Return thousands of lines per second and MB per second of a format's reader, and its ratio to the loop."""
    kind = KINDS[name]
    large, small = folder / f"{name}-large".replace("/", "-"), folder / f"{name}-small".replace("/", "-")
    kind.write(large, lines)
    kind.write(small, lines // 10)
    size = sum(path.stat().st_size for path in [large, *large.rglob("*")] if path.is_file())
    busy, wall, plain, unpacking = [], [], [], []
    for _ in range(repeat):
        took, clock, trace = seconds(lambda: formats.read(large, format=name.partition("/")[0]))
        busy.append(took)
        wall.append(clock)
        unpacking.append(took + seconds(partial(get_blocks, trace))[0])
        del trace
        took, _, expected = seconds(lambda: kind.read(small))
        plain.append(10 * took)
        check(formats.read(small, format=name.partition("/")[0]), expected)
    fast = statistics.median(busy)
    return {
        "lines": lines / fast / 1e3,
        "bytes": size / fast / 1e6,
        "blocks": lines / statistics.median(unpacking) / 1e3,
        "wall": lines / statistics.median(wall) / 1e3,
        "plain": lines / statistics.median(plain) / 1e3,
        "ratio": statistics.median(plain) / fast,
    }


def main() -> None:
    """Measure every format and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=", ".join(KINDS))
    parser.add_argument("--lines", type=int, default=500_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.formats or KINDS:
            rows[name] = measure(name, Path(folder), options.lines, options.repeat)
    if options.json:
        print(json.dumps({"lines": options.lines, "wanted": TARGET_KILOLINES_PER_SECOND, "formats": rows}, indent=2))
        return
    memory = gathering.SORT_MEMORY_BYTES >> 20
    print(f"{options.lines:,} lines, medians of {options.repeat}; instructions sorted in {memory} MB")
    wanted = ", ".join(f"{name} at least {speed:.0f}" for name, speed in TARGET_KILOLINES_PER_SECOND.items())
    print(f"wanted, by processor time: {wanted}")
    print(
        f"{'format':16}{'1000 lines/s':>14}{'MB/s':>8}{'with blocks':>14}{'on the clock':>14}{'plain':>8}{'ratio':>8}"
    )
    for name, row in rows.items():
        speeds = f"{row['lines']:14.0f}{row['bytes']:8.0f}{row['blocks']:14.0f}{row['wall']:14.0f}"
        print(f"{name:16}{speeds}{row['plain']:8.0f}{row['ratio']:8.1f}")


if __name__ == "__main__":
    main()
