"""Write the recovered numbers beside the configured ones as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from validation.microbenchmarks import mshr, set_index
from validation.microbenchmarks.clock import Clock
from validation.microbenchmarks.machines import PAPER, PAPER_MSHRS, configured, machines
from validation.microbenchmarks.mshr import Mshrs
from validation.microbenchmarks.set_index import L1

RESULTS = Path(__file__).parent / "RESULTS.md"
STRIDES = tuple(1 << shift for shift in range(7, 23))
COUNTS = (4, 8, 16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class Finding:
    """A machine as recovered from `launches` launches, and as configured."""

    machine: str
    recovered: tuple[L1, Mshrs]
    configured: tuple[L1, Mshrs]
    launches: int


def find(name: str) -> Finding:
    """Recover the machine of the given name."""
    gpu = machines()[name]
    clock = Clock(gpu)
    l1 = set_index.recover(clock)
    mshrs = mshr.recover(clock, l1.line, l1.lines)
    return Finding(name, (l1, mshrs), configured(gpu), clock.launches)


def report(findings: Sequence[Finding]) -> str:
    """Return all tables in Markdown."""
    return "\n".join(
        [
            "# Machines recovered from timings\n",
            "Written by `python -m validation.microbenchmarks --record`. The micro-benchmarks of Nugteren et al.\n"
            "(HPCA 2014, section 5) run on simulated machines. They see the cycles of launches, and no configuration.\n"
            "Each machine has two rows: the recovered numbers, with the number of launches, and the configured ones.\n",
            sizes(findings),
            "## Set index\n",
            f"Bits of the byte address, up to bit {set_index.TOP_BIT}, that are xored: the reduced basis of the\n"
            "parities that are equal within a set. It determines the index function up to the numbering of the sets.\n",
            indices(findings),
            f"## Figure 7: two loops of strided loads ({PAPER})\n",
            "Miss rates in percent, all from timings.\n",
            figure_7(),
            f"## Figure 9: cycles of independent loads ({PAPER_MSHRS})\n",
            "Rows are numbers of warps, columns loads per warp. Last column: loads per warp in flight together.\n",
            figure_9(),
        ]
    )


def sizes(findings: Iterable[Finding]) -> str:
    """Return the table of all numbers."""
    lines = [
        _line(["machine", "", "line", "lines", "ways", "sets", "hit latency", "MSHRs", "per warp", "merged"]),
        "|---|---|" + "---:|" * 8,
    ]
    for found in findings:
        for who, (l1, mshrs) in (
            (f"{found.launches} launches", found.recovered),
            ("configured", found.configured),
        ):
            numbers = [l1.line, l1.lines, l1.ways, l1.sets, l1.hit_latency]
            limits = [mshrs.entries, mshrs.per_warp, mshrs.merge]
            cells = [*map(str, numbers), *("no limit" if limit is None else str(limit) for limit in limits)]
            lines.append(_line([found.machine, who, *cells]))
    return "\n".join(lines) + "\n"


def indices(findings: Iterable[Finding]) -> str:
    """Return the table of index functions."""
    lines = [_line(["machine", "recovered", "as configured"]), "|---|---|---|"]
    for found in findings:
        l1, expected = found.recovered[0], found.configured[0]
        same = "yes" if l1.masks == expected.masks else f"no: {_xors(expected)}"
        lines.append(_line([found.machine, _xors(l1), same]))
    return "\n".join(lines) + "\n"


def _xors(l1: L1) -> str:
    """Return an index function as the address bits that it xors."""
    if l1.masks is None:
        return "not linear over GF(2)"
    first = l1.line.bit_length() - 1
    bits = ([str(first + i) for i in range(mask.bit_length()) if mask >> i & 1] for mask in l1.masks)
    return ", ".join("^".join(one) for one in bits)


def figure_7() -> str:
    """Return the stride sweep as a table."""
    rates = set_index.stride_sweep(Clock(machines()[PAPER]), STRIDES, COUNTS)
    lines = [_line(["stride", *(f"{n} loads" for n in COUNTS), "varied set bits"])]
    lines.append("|---:|" + "---:|" * (len(COUNTS) + 1))
    for stride, row in rates.items():
        varied = sum(rate == 50 for rate in row.values()) - 1
        lines.append(_line([f"2^{stride.bit_length() - 1}", *(f"{row[n]:g}" for n in COUNTS), str(varied)]))
    return "\n".join(lines) + "\n"


def figure_9() -> str:
    """Return the staircases as a table."""
    gpu = machines()[PAPER_MSHRS]
    clock = Clock(gpu)
    times = mshr.staircase(clock, gpu.l1.line)
    at_once = mshr.loads_at_once(clock, times)
    lines = [_line(["warps", *(f"{n}" for n in range(1, mshr.PAPER_LOADS + 1)), "at once"])]
    lines.append("|---:|" + "---:|" * (mshr.PAPER_LOADS + 1))
    lines += [_line([str(warps), *map(str, series), str(at_once[warps])]) for warps, series in times.items()]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
