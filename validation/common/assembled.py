"""Assemble kernels with CUDA's tools, and keep what was found in a record: the commands that look at machine code."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from validation.common import records

CAPABILITIES = ("75", "80", "86", "89", "90", "100", "120")
"""Compute capabilities for which kernels are assembled."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """The machine `instructions` of a case that matter, on a compute capability such as "86"; empty: there are none."""

    case: str
    capability: str
    instructions: str


def read_record(path: Path) -> list[Assembled]:
    """Return a committed record."""
    return records.from_csv(Assembled, path.read_text())


def table_of_cases(rows: Sequence[Assembled], cases: Collection[str]) -> str:
    """Return the instructions of each case, on each compute capability or on all."""
    width = 2 + max(map(len, cases))
    lines = []
    for case in cases:
        found: dict[str, list[str]] = {}
        for row in rows:
            if row.case == case:
                found.setdefault(row.instructions, []).append(f"sm_{row.capability}")
        for names, capabilities in found.items():
            where = "" if len(found) == 1 else f" ({', '.join(capabilities)})"
            lines.append(f"{case:{width}}{names}{where}\n")
    return "".join(lines)


def machine_code(ptx: str, capability: str, tools: Path | None, options: Sequence[str] = ()) -> str | None:
    """Return the machine code of a PTX text, as ``nvdisasm`` prints it; None if there is none for this capability.

    The programs are in the folder ``bin`` of `tools`, or on the path; `options` are more of ``ptxas``.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        source.write_text(ptx)
        made = subprocess.run(
            [_tool("ptxas", tools), "-arch", f"sm_{capability}", *options, "-o", binary, source],
            capture_output=True,
            check=False,
        )
        if made.returncode:
            return None
        return subprocess.run(
            [_tool("nvdisasm", tools), "-c", binary], capture_output=True, text=True, check=True
        ).stdout


def _tool(name: str, tools: Path | None) -> str:
    return name if tools is None else str(tools / "bin" / name)


def run_command(
    program: str,
    description: str | None,
    record: Path,
    cases: Collection[str],
    assemble: Callable[[str, str, Path | None], Assembled],
    table: Callable[[Sequence[Assembled], Collection[str]], str] = table_of_cases,
) -> None:
    """Run a command that assembles a kernel for each case and capability, or reads the `record`, and prints a table."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("--cuda", type=Path, metavar="DIR", help="folder of the CUDA toolkit")
    parser.add_argument("--recorded", action="store_true", help="print the committed record")
    parser.add_argument("--record", action="store_true", help="renew the committed record")
    options = parser.parse_args()
    if options.recorded:
        rows = read_record(record)
    else:
        rows = [assemble(case, each, options.cuda) for case in cases for each in CAPABILITIES]
    if options.record:
        record.write_text(records.to_csv(Assembled, rows))
    sys.stdout.write(table(rows, cases))
