"""Hold what one block of a launch needs while it is executed, and run the blocks of a cluster in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.trace import Columns
from tracegen.ptx.emulator._emulator import Emulator, Status
from tracegen.ptx.emulator._events import Events
from tracegen.ptx.emulator._log import Log
from tracegen.ptx.emulator._places import Places
from tracegen.ptx.emulator._poison import Poison

CLUSTER_STEPS = 1 << 12
"""Steps that a block of a cluster executes before the next block has its turn."""


@dataclass(frozen=True, slots=True)
class BlockMachine:
    """The registers, memory, records and interpreter of a block, and how often it has executed each step."""

    registers: NDArray[np.uint64]
    places: Places
    poison: Poison
    log: Log
    events: Events
    counts: NDArray[np.int64]
    emulator: Emulator
    shared: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class ClusterEvents:
    """The events of the blocks of a cluster, whose warps are numbered one block after the other (`Events.table`).

    Warps have entered pieces `entries` times, of which the table may have the first ones only.
    """

    table: NDArray[np.int64]
    entries: int


@dataclass(frozen=True, slots=True)
class FinishedBlock:
    """The instructions of a block, how often it has executed each step, and the events of its cluster."""

    columns: Columns
    counts: NDArray[np.int64]
    events: ClusterEvents


def events_of(machines: Sequence[BlockMachine], warps: int) -> ClusterEvents:
    """Return the events of the blocks of a cluster, each of which has so many warps."""
    tables = [machine.events.table() for machine in machines]
    for rank, table in enumerate(tables):
        table[:, 0] += rank * warps
    return ClusterEvents(np.concatenate(tables), sum(machine.events.entries for machine in machines))


def join_cluster(machines: Sequence[BlockMachine]) -> None:
    """Let the blocks of a cluster, in the order of their ranks, access the shared memory of each other."""
    memories = np.array([machine.shared.ctypes.data for machine in machines], dtype=np.uint64)
    bits = np.array([machine.poison.shared_bits.ctypes.data for machine in machines], dtype=np.uint64)
    signals = np.zeros(len(machines), dtype=np.int64)
    for rank, machine in enumerate(machines):
        machine.places.join(memories)
        machine.poison.join(bits)
        machine.emulator.join(signals, rank)


def run_cluster(machines: Sequence[BlockMachine], failed: Callable[[int, Status], Exception]) -> None:
    """Execute the blocks of a cluster in turn; raises what `failed` returns for the rank and status of a block."""
    running = dict(enumerate(machines))
    while running:
        moved = False
        for rank, machine in list(running.items()):
            status = Status(machine.emulator.run(CLUSTER_STEPS))
            moved |= machine.emulator.executed > 0 or status == Status.FINISHED
            if status == Status.FINISHED:
                del running[rank]
            elif status not in (Status.UNFINISHED, Status.DEADLOCK):
                raise failed(rank, status)
        if not moved and not _open_barrier(list(running.values())):
            raise failed(min(running), Status.DEADLOCK)


def _open_barrier(machines: Sequence[BlockMachine]) -> bool:
    """Open the barrier of the cluster if all threads have arrived, and some wait; return whether it was opened."""
    missing, waiting = np.sum([machine.emulator.missing() for machine in machines], axis=0)
    if missing or not waiting:
        return False
    for machine in machines:
        machine.emulator.open_cluster_barrier()
    return True
