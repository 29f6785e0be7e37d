"""Run commands in processes of their own, and measure the peak of their memory; make traces that take much."""

from __future__ import annotations

import re

import numpy as np

from rdmodel.trace import ALL_NEEDS, Launch, Segment
from tests.support.forked_programs import run_forked

MB = 1 << 20

PEAK = """
import sys
from rdmodel.cli import main
{setup}
if __name__ == "__main__":
    status = main(sys.argv[1:])
    peak = next(row.split()[1] for row in open("/proc/self/status") if row.startswith("VmHWM"))
    print(f"peak {{int(peak) << 10}}", file=sys.stderr)
    sys.exit(status)
"""


def measured(*argv: str, setup: str = "") -> tuple[int, str, str, int]:
    """Run a command in a process of its own; return status, output, errors and the peak of its memory in bytes."""
    done = run_forked(PEAK.format(setup=setup), *argv)
    measured = re.fullmatch(r"(?s)(.*)peak (\d+)\n", done.stderr)
    assert measured, done
    return done.returncode, done.stdout, measured[1], int(measured[2])


def taken(size: int) -> int:
    """Take memory for a moment, and return its size."""
    return len(bytearray(size))


def on_machine(size: int) -> str:
    """Return the set-up of `measured` for a machine with `size` bytes of memory."""
    return f"from rdmodel.common import memory\nmemory.machine_bytes = lambda: {size}"


def walk(lines: int, trips: int, warps: int, block: int, back: bool = False) -> Segment:
    """Return a loop in which every warp loads the next `lines` lines of its own in each trip, forth or back."""
    lane = np.arange(32)[:: -1 if back else 1]
    each = 4 * lane if lines == 1 else 128 * lane
    base = 128 * lines * trips * (block * warps + np.arange(warps)[:, None, None]) + each
    base += 128 * lines * (trips - 1) * back
    return Segment(
        trips=trips,
        pc=np.zeros(1, np.int32),
        op=np.zeros(1, np.uint8),
        space=np.zeros(1, np.uint8),
        size=np.full(1, 4, np.uint8),
        gap=np.zeros(1, np.int32),
        loop_exit=np.zeros(1, np.bool_),
        step=np.full(1, -128 * lines if back else 128 * lines),
        needs=np.full((warps, 1), ALL_NEEDS, np.uint64),
        mask=np.full((warps, 1), 0xFFFFFFFF, np.uint32),
        base=base,
    )


def walk_launch(blocks: int, warps: int) -> Launch:
    """Return the launch of a kernel of `walk`s."""
    return Launch(kernel="walk", grid=(blocks, 1, 1), block=(32 * warps, 1, 1))
