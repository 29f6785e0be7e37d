"""Count with Accel-Sim, which the user has built: write a trace, run it, and read the counts that it prints."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tracegen.formats.accelsim_writer import write_accelsim
from validation.accelsim.study import Counts, trace

NAME = "Accel-Sim"
"""The name of the machine in the rows of counts."""

CACHE_OPTION = {16: [], 48: ["-gpgpu_cache:dl1", "N:64:128:6,L:L:m:N:H,S:64:8,8"]}
"""Options for both L1s: the configuration has 16 KB."""

OPCODES = {"int": "4,1", "sp": "4,1", "dp": "20,2", "sfu": "200,2"}
"""Latency and initiation interval of the classes of opcodes; Accel-Sim has no such options for SM2_GTX480."""


@dataclass(frozen=True, slots=True)
class AccelSim:
    """The program of Accel-Sim, and the folder SM2_GTX480 of GPGPU-Sim's configurations."""

    program: Path
    machine: Path

    def count(self, kernel: str, kilobytes: int, sched: str) -> Counts:
        """Return the counts of a kernel. Raise ValueError if Accel-Sim does not print them."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_accelsim(trace(kernel), folder / "kernelslist.g")
            for network in self.machine.glob("*.icnt"):
                shutil.copy(network, folder)
            command = [str(self.program.resolve()), "-trace", str(folder / "kernelslist.g")]
            command += ["-config", str((self.machine / "gpgpusim.config").resolve())]
            command += [
                word for unit, cost in OPCODES.items() for word in (f"-trace_opcode_latency_initiation_{unit}", cost)
            ]
            command += ["-gpgpu_scheduler", sched, *CACHE_OPTION[kilobytes]]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        return parse(done.stdout, kernel, kilobytes, sched)


def parse(output: str, kernel: str, kilobytes: int, sched: str) -> Counts:
    """Return the last counts in the output of Accel-Sim. Raise ValueError if there are none."""

    def of(result: str) -> int:
        found = re.findall(rf"Total_core_cache_stats_breakdown\[GLOBAL_ACC_R\]\[{result}\] = (\d+)", output)
        return int(found[-1]) if found else 0

    cycles = re.findall(r"gpu_tot_sim_cycle = (\d+)", output)
    if not cycles:
        raise ValueError(f"{kernel}: Accel-Sim printed no cycles; its last lines are: {output[-300:]!r}")
    misses = of("MISS") + of("SECTOR_MISS")
    return Counts(NAME, kernel, kilobytes, sched, of("HIT"), of("HIT_RESERVED"), misses, int(cycles[-1]))
