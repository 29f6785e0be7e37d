"""Look up the error of the L1 miss rate that counters lead one to expect, by architecture and kind of kernel.

`python -m validation.accuracy --record`, from a checkout, writes the numbers from the records of the validation.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.text import counted

FILE = Path(__file__).with_name("expected_errors.toml")
"""The data file."""

KINDS = {"reuse": "with reuse", "stream": "without reuse"}
"""Kinds of kernels, and their words: those that find data in the L1, and those that load everything once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedError:
    """Error of the L1 miss rate against counters of an `architecture`, by one definition of the model.

    `points` is the mean over `kernels` measured kernels of their mean absolute error, in percentage points, and
    `largest` the largest of these errors. The kernels are of one `kind` (see `KINDS`), and ran on `gpus`. Those on
    which parameters of a preset were chosen are left out. If there are no others, `fitted` names these parameters; the
    error of a new kernel may then be larger.
    """

    architecture: str
    definition: str
    kind: str
    points: float
    largest: float
    kernels: int
    gpus: tuple[str, ...]
    fitted: str = ""

    def __str__(self) -> str:
        """Return the error in one line."""
        measured = f"{counted(self.kernels, 'kernel')} {KINDS[self.kind]}"
        fitted = f"; {self.fitted} was fitted to them" if self.fitted else ""
        return f"typical error on {self.architecture} {self.points:.1f} points ({measured}{fitted})"

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain numbers, texts and lists, ready for JSON."""
        return {**asdict(self), "gpus": list(self.gpus)}


def find_expected_error(architecture: str, definition: str, kind: str) -> ExpectedError | None:
    """Return the expected error of a kind of kernels on an architecture; None without counters to compare with.

    Kernels without reuse are the easier ones: for them, the error of kernels with reuse stands in, but not vice versa.
    """
    known = _known_errors()
    found = known.get((architecture, definition, kind))
    return known.get((architecture, definition, "reuse")) if found is None else found


@functools.cache
def _known_errors() -> Mapping[tuple[str, str, str], ExpectedError]:
    text = FILE.read_text(encoding="utf-8")
    names = {field.name for field in fields(ExpectedError)}
    rows = [{name: value for name, value in row.items() if name in names} for row in tomllib.loads(text)["error"]]
    errors = [ExpectedError(**{**row, "gpus": tuple(row["gpus"])}) for row in rows]
    return {(error.architecture, error.definition, error.kind): error for error in errors}
