"""Assemble kernels with CUDA's tools, and keep what was found in a record: the commands that look at machine code."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from validation.common import records

T = TypeVar("T")

CAPABILITIES = ("75", "80", "86", "89", "90", "100", "120")
"""Compute capabilities for which kernels are assembled."""


def machine_code(ptx: str, capability: str, tools: Path | None) -> str | None:
    """Return the machine code of a PTX text, as ``nvdisasm`` prints it; None if there is none for this capability.

    The programs are in the folder ``bin`` of `tools`, or on the path.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        source.write_text(ptx)
        made = subprocess.run(
            [_tool("ptxas", tools), "-arch", f"sm_{capability}", "-o", binary, source], capture_output=True, check=False
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
    kind: type[T],
    record: Path,
    names: Iterable[str],
    assemble: Callable[[str, str, Path | None], T],
    table: Callable[[list[T]], str],
) -> None:
    """Run a command that assembles a kernel for each name and capability, or reads the `record`, and prints a table."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("--cuda", type=Path, metavar="DIR", help="folder of the CUDA toolkit")
    parser.add_argument("--recorded", action="store_true", help="print the committed record")
    parser.add_argument("--record", action="store_true", help="renew the committed record")
    options = parser.parse_args()
    if options.recorded:
        rows = records.from_csv(kind, record.read_text())
    else:
        rows = [assemble(name, each, options.cuda) for name in names for each in CAPABILITIES]
    if options.record:
        record.write_text(records.to_csv(kind, rows))
    sys.stdout.write(table(rows))
