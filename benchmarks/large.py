"""Measure ``rdmodel trace FILE -o OUT`` and ``rdmodel predict OUT`` on other tools' traces of many gigabytes.

A file of each format and size is generated, converted, and removed after use, like the converted trace. Temporary files
of the conversion take about as much space as the trace. Both commands have to stay within ``--memory``.
``python benchmarks/large.py [FORMAT ...] [--gigabytes G ...] [--memory SIZE] [--folder FOLDER] [--json]``
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from children import measure

GPU = "gtx470-16k"
"""GPU of the numbers in benchmarks/README.md."""

SIZES = (1.0, 10.0)
PIECE = 1 << 22
"""Number of accesses of a ``.trc`` that are written at a time."""


def write_nvbit(path: Path, size: float) -> None:
    """Write full warps of blocks in turn."""
    import readers

    readers.write_nvbit(path, int(size / 701))


def write_accelsim(path: Path, size: float) -> None:
    """Write blocks of warps in a loop, two loads in eight instructions."""
    import readers

    readers.write_accelsim(path, int(size / 51))


def write_ppt(path: Path, size: float) -> None:
    """Write a folder of 16 blocks."""
    import readers

    readers.write_ppt(path, int(size / 249))


def write_trc(path: Path, size: float) -> None:
    """Write threads in lock step, block after block, as an emulator does; every fourth access is a store."""
    import numpy as np
    from trc import BLOCK

    from tracegen.formats._trc import render

    out = np.empty(46 * PIECE, np.uint8)
    turns = np.arange(PIECE) // BLOCK
    store = (turns % 4 == 3).astype(np.uint8)
    with path.open("wb") as file:
        file.write(b"blocksize: %d 1 1\n" % BLOCK)
        block = 0
        while file.tell() < size:
            thread = block * BLOCK + np.arange(PIECE) % BLOCK
            address = (1 << 32) + 4 * thread + (turns << 12)
            used = render(thread, store, address, np.full(PIECE, 4, np.uint8), out)
            file.write(out[:used])
            block += 1


WRITERS: dict[str, Callable[[Path, float], None]] = {
    "nvbit": write_nvbit,
    "accelsim": write_accelsim,
    "ppt": write_ppt,
    "trc": write_trc,
}


def disk(path: Path) -> int:
    """Return the bytes of a file or of all files of a folder."""
    return sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file())


def measure_file(name: str, gigabytes: float, folder: Path, memory: str) -> dict[str, dict[str, float]]:
    """Write a file, convert it, predict the result, and remove both."""
    path, converted = folder / "recorded", folder / "converted"
    try:
        # A separate process writes the file, since the peak memory of a child starts from that of its parent.
        subprocess.run([sys.executable, __file__, name, "--gigabytes", str(gigabytes), "--write", path], check=True)
        limit = ("--memory", memory)
        rows = {"file": {"gb": disk(path) / 1e9}}
        rows["trace"] = measure(
            ["-m", "rdmodel", "trace", str(path), "--input-format", name, "-o", str(converted), *limit]
        )
        rows["converted"] = {"gb": disk(converted) / 1e9}
        return rows | {"predict": measure(["-m", "rdmodel", "predict", str(converted), "--gpu", GPU, *limit, "--json"])}
    finally:
        for one in (path, converted):
            shutil.rmtree(one, ignore_errors=True)
            if one.exists():
                os.unlink(one)


def main() -> None:
    """Measure every format and size and print a table as it goes, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=", ".join(WRITERS))
    parser.add_argument("--gigabytes", type=float, nargs="+", default=SIZES, metavar="G", help="sizes of the files")
    parser.add_argument("--memory", default="512M", metavar="SIZE", help="memory limit of the commands (default: 512M)")
    parser.add_argument("--folder", type=Path, help="folder for the files (default: the system's temporary folder)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        WRITERS[options.formats[0]](options.write, 1e9 * options.gigabytes[0])
        return
    if not options.json:
        print(f"--memory {options.memory}")
        print(f"{'format':10}{'file GB':>9}{'command':>10}{'s':>9}{'CPU s':>9}{'MB/CPU s':>10}{'peak MB':>9}")
    found = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name in options.formats or WRITERS:
            for gigabytes in options.gigabytes:
                rows = measure_file(name, gigabytes, Path(folder), options.memory)
                found.append({"format": name, **rows})
                if not options.json:
                    show(name, rows)
    if options.json:
        print(json.dumps({"memory": options.memory, "files": found}, indent=2))


def show(name: str, rows: dict[str, dict[str, float]]) -> None:
    """Print the rows of one file; speeds refer to the size of the original file."""
    size = rows["file"]["gb"]
    for command in ("trace", "predict"):
        row = rows[command]
        speed = f"{size * 1e3 / row['cpu_seconds']:>10.0f}" if command == "trace" else f"{'':10}"
        numbers = f"{row['seconds']:>9.1f}{row['cpu_seconds']:>9.1f}{speed}{row['peak_mb']:>9.0f}"
        print(f"{name:10}{size:>9.1f}{command:>10}{numbers}", flush=True)


if __name__ == "__main__":
    main()
