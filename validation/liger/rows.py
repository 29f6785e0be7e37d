"""Read the published times of the operations of Liger-Kernel, and the predicted ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from validation.common import records

FOLDER = Path(__file__).parent
PUBLISHED, PREDICTED = FOLDER / "published.csv", FOLDER / "predicted.csv"

Key = tuple[str, str, str, str, str]
"""GPU, release, operation, shape and type, which identify a row."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row: an operation of a release on a GPU, with the shape and the type of its input."""

    gpu: str
    release: str
    operation: str
    shape: str
    type: str

    @property
    def key(self) -> Key:
        """The GPU, the release, the operation, the shape and the type."""
        return self.gpu, self.release, self.operation, self.shape, self.type


@dataclass(frozen=True, slots=True)
class Published(Row):
    """The measured time of an operation, and the release whose source is predicted."""

    microseconds: float

    @property
    def extents(self) -> tuple[int, ...]:
        """The numbers of the shape (`validation.liger.operations.operation`)."""
        return tuple(map(int, self.shape.split()))


@dataclass(frozen=True, slots=True)
class Predicted(Row):
    """The predicted time of the kernels of an operation, their number, and what binds the longest one."""

    microseconds: float
    kernels: int
    bound: str


def published() -> list[Published]:
    """Return the published times."""
    return records.from_csv(Published, PUBLISHED.read_text())


def predicted() -> list[Predicted]:
    """Return the recorded predictions, in the order of the published times."""
    return records.from_csv(Predicted, PREDICTED.read_text())
