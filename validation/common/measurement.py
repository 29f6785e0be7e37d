"""Derive misses, MPKI and reservation failures from the counters of one simulated run."""

from __future__ import annotations

FAILURE_TYPES = ("line_alloc", "mshr_entry", "mshr_merge", "miss_queue")
"""Fields that count reservation failures."""


class SimulatedCounters:
    """Base of the recorded rows: numbers that follow from the counters of a run.

    Each record lists the counters as fields of its own dataclass, since the order of the fields is the order of the
    columns in its CSV file.
    """

    __slots__ = ()

    instructions: int
    compulsory: int
    capacity: int
    associativity: int

    @property
    def misses(self) -> int:
        """Misses of all causes."""
        return self.compulsory + self.capacity + self.associativity

    @property
    def mpki(self) -> float:
        """Misses per 1000 thread instructions."""
        return 1000 * self.misses / self.instructions

    @property
    def total_failures(self) -> int:
        """Reservation failures of all types."""
        return sum(self.failures.values())

    @property
    def failures(self) -> dict[str, int]:
        """Reservation failures by type."""
        return {name: int(getattr(self, name)) for name in FAILURE_TYPES}
