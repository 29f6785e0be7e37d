"""Measured hit rates: kernel launches in a CSV report of Nsight Compute.

There are two forms. The long one (``ncu --csv``) has a row per launch and metric, with the columns ``Metric Name``,
``Metric Unit`` and ``Metric Value``. The wide one (``ncu --csv --page raw``) has a row per launch and a column per
metric, and the units in the row below the header. Columns are found by name. Whatever the program and the profiler
print between the rows is left out; numbers may have separators.

The counters count sectors of 32 bytes, not lines.
"""

from __future__ import annotations

import csv
import os
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

from rdmodel.common.kernel_names import base_name
from rdmodel.errors import ConfigError, TraceError, escape_unprintable

SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_"
OPERATIONS = ("ld", "st", "red", "atom")
L2_READS = ("lts__t_sectors_srcunit_tex_op_read", "lts__t_sectors_op_read")

L1_PERCENTAGES = ("l1tex__t_sector_hit_rate.pct", "L1/TEX Hit Rate")
LOAD_PERCENTAGES = ("l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct",)
L2_PERCENTAGES = ("lts__t_sector_op_read_hit_rate.pct", "lts__t_sector_hit_rate.pct", "L2 Hit Rate")
"""Rates instead of counters, the most specific first; the last of each is how the default pages call it."""

COLLECTED = (
    *(f"{SECTORS}{op}{lookup}.sum" for op in OPERATIONS for lookup in ("", "_lookup_hit")),
    *(f"{L2_READS[0]}{lookup}.sum" for lookup in ("", "_lookup_hit")),
)
COMMAND = f"ncu --csv --page raw --metrics {','.join(COLLECTED)} PROGRAM > report.csv"
"""What makes a report with everything in it that is read here."""

_COUNTERS = (".sum", "_lookup_hit.sum", "_lookup_miss.sum")
_LINE = 1 << 20
_SLACK = 1.01
_SCALES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SHAPE = re.compile(r"\(?\s*(\d{1,18})\s*[,x ]\s*(\d{1,18})\s*[,x ]\s*(\d{1,18})\s*\)?")


@dataclass(frozen=True, slots=True)
class Rate:
    """A measured hit rate, 0 to 1, of so many `sectors` (None: a percentage was read), from these `metrics`."""

    hit_rate: float
    sectors: float | None
    metrics: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the three."""
        return {**asdict(self), "metrics": list(self.metrics)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What was measured of one kernel: of one launch (`launches` holds its ID in the report), or of several together.

    `metrics` are numbers in base units, by the names in the report. `grid` and `block` are (x, y, z), or None where
    the report does not say. The rates raise `TraceError` for counters that contradict each other.
    """

    kernel: str
    launches: tuple[str, ...]
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    metrics: Mapping[str, float] = field(repr=False)

    @property
    def name(self) -> str:
        """The kernel's name without return type, namespaces, template arguments and parameters."""
        return base_name(self.kernel)

    @property
    def l1_loads(self) -> Rate | None:
        """The L1's hit rate of global loads; None if neither the counters nor the rate are there."""
        return self._counted([SECTORS + "ld"]) or self._percentage(LOAD_PERCENTAGES)

    @property
    def l1(self) -> Rate | None:
        """The L1's hit rate of all global operations, else of everything that goes through it; None: neither is there.

        Operations that were not measured are left out, but loads and stores must be there.
        """
        held = [SECTORS + op for op in OPERATIONS if any(f"{SECTORS}{op}{end}" in self.metrics for end in _COUNTERS)]
        counted = self._counted(held) if {SECTORS + "ld", SECTORS + "st"} <= set(held) else None
        return counted or self._percentage(L1_PERCENTAGES)

    @property
    def l2(self) -> Rate | None:
        """The L2's hit rate of reads, those of the L1s if they are told apart; else of everything; None: nothing."""
        for stem in L2_READS:
            if (rate := self._counted([stem])) is not None:
                return rate
        return self._percentage(L2_PERCENTAGES)

    def _counted(self, stems: Sequence[str]) -> Rate | None:
        """Return hits per sector over the counters that begin so; either of hits and misses will do."""
        used: list[str] = []
        hits = sectors = 0.0
        for stem in stems:
            names = [stem + end for end in _COUNTERS]
            whole, hit, miss = (self.metrics.get(name) for name in names)
            if whole == 0:
                used.append(names[0])
                continue
            if hit is not None and whole is None and miss is not None:
                whole, used = hit + miss, [*used, names[1], names[2]]
            elif hit is not None and whole is not None:
                used += [names[1], names[0]]
            elif miss is not None and whole is not None:
                hit, used = whole - miss, [*used, names[2], names[0]]
            else:
                return None
            hits, sectors = hits + hit, sectors + whole
        if not sectors:
            return None
        # Counters of different passes may differ a little.
        if not -(_SLACK - 1) * sectors <= hits <= _SLACK * sectors:
            raise TraceError(f"{self.kernel}: {hits:,.0f} hits of {sectors:,.0f} sectors ({', '.join(used)})")
        return Rate(min(max(hits / sectors, 0.0), 1.0), sectors, tuple(used))

    def _percentage(self, names: Sequence[str]) -> Rate | None:
        for name in names:
            if name in self.metrics:
                percent = self.metrics[name]
                if not 0 <= percent <= 100:
                    raise TraceError(f"{self.kernel}: {name} is {percent:g}, not 0 to 100 %")
                return Rate(percent / 100, None, (name,))
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel, its launches and the rates, None where there is none."""
        rates = {"l1_loads": self.l1_loads, "l1": self.l1, "l2": self.l2}
        return {
            "kernel": self.kernel,
            "launches": list(self.launches),
            "grid": None if self.grid is None else list(self.grid),
            "block": None if self.block is None else list(self.block),
        } | {name: None if rate is None else rate.to_dict() for name, rate in rates.items()}


def read_ncu(path: str | os.PathLike[str]) -> tuple[Measurement, ...]:
    """Return the launches in a CSV report of Nsight Compute, of either form, in the order of the report.

    Metrics that are not numbers ("n/a") are left out. Raises `TraceError` with file and line for a file that cannot
    be read, has no header or no launches, or a metric of a launch twice with different values.
    """
    name = os.fspath(path)
    launches: dict[tuple[str, str, str], _Launch] = {}
    table: _Table | None = None
    refusal = ""
    for number, cells in _rows(name):
        if "ID" in cells and "Kernel Name" in cells:
            table = _Table(cells)
        elif table is not None:
            table.take(cells, launches, f"{name}:{number}")
        if cells[:1] and cells[0].startswith("==ERROR=="):
            refusal = f"; the profiler says: {','.join(cells)[:200]!r}"
    if table is None:
        raise TraceError(f"{name}: no line has the columns ID and Kernel Name; is this from ncu --csv?{refusal}")
    if not launches:
        raise TraceError(f"{name}: holds no kernel launches{refusal}")
    return tuple(launch.finish() for launch in launches.values())


def together(measurements: Iterable[Measurement]) -> Measurement:
    """Return several launches of a kernel as one: counters are added, percentages averaged.

    A metric that one of them lacks is left out; so is a grid or block that is not the same in all. Raises
    `ConfigError` for none at all.
    """
    parts = list(measurements)
    if not parts:
        raise ConfigError("measurements: there is nothing to put together")
    if len(parts) == 1:
        return parts[0]
    shared = [name for name in parts[0].metrics if all(name in one.metrics for one in parts)]
    sums = {name: sum(one.metrics[name] for one in parts) for name in shared}
    return Measurement(
        kernel=parts[0].kernel,
        launches=tuple(launch for one in parts for launch in one.launches),
        grid=parts[0].grid if all(one.grid == parts[0].grid for one in parts) else None,
        block=parts[0].block if all(one.block == parts[0].block for one in parts) else None,
        metrics={name: value if name.endswith(".sum") else value / len(parts) for name, value in sums.items()},
    )


# ---- reading


class _Launch:
    """A launch while it is read: what is known of it so far, and where each metric was found."""

    def __init__(self, kernel: str, launch: str, grid: str, block: str) -> None:
        self.metrics: dict[str, float] = {}
        self._head = (escape_unprintable(kernel), launch, _shape(grid), _shape(block))

    def put(self, metric: str, unit: str, text: str, where: str) -> None:
        value = number(text)
        if value is None:
            return
        if unit[1:].lower().startswith("sector"):
            value *= _SCALES.get(unit[0].upper(), 1.0)
        # The default page has a metric in each section that shows it.
        if self.metrics.setdefault(metric, value) != value and _wanted(metric):
            raise TraceError(f"{where}: {metric} is {text!r} here and {self.metrics[metric]:g} above, of one launch")

    def finish(self) -> Measurement:
        kernel, launch, grid, block = self._head
        return Measurement(kernel=kernel, launches=(launch,), grid=grid, block=block, metrics=self.metrics)


class _Table:
    """A header, and how the rows below it are to be read."""

    def __init__(self, header: Sequence[str]) -> None:
        self._at = {name: i for i, name in reversed(list(enumerate(header)))}
        self._header = header
        self._long = {"Metric Name", "Metric Value"} <= set(header)
        self._units = [""] * len(header)
        self._first = True

    def take(self, cells: Sequence[str], launches: dict[tuple[str, str, str], _Launch], where: str) -> None:
        """Read a row below the header; one that is neither a launch nor the units is what a program has printed."""
        first, self._first = self._first, False
        if len(cells) > self._at["ID"] and cells[self._at["ID"]] == "" and first and len(cells) == len(self._header):
            self._units = list(cells)
            return
        needed = self._at["Metric Value"] + 1 if self._long else len(self._header)
        if len(cells) < needed or not cells[self._at["ID"]].isdecimal():
            return
        key = (self._cell(cells, "Process ID"), cells[self._at["ID"]], cells[self._at["Kernel Name"]])
        if key not in launches:
            shape = self._cell(cells, "Grid Size"), self._cell(cells, "Block Size")
            launches[key] = _Launch(key[2], key[1], *shape)
        for metric, unit, text in self._metrics(cells):
            launches[key].put(metric, unit, text, where)

    def _metrics(self, cells: Sequence[str]) -> Iterator[tuple[str, str, str]]:
        if self._long:
            yield self._cell(cells, "Metric Name"), self._cell(cells, "Metric Unit"), self._cell(cells, "Metric Value")
            return
        for name, unit, text in zip(self._header, self._units, cells, strict=False):
            if "__" in name:
                yield name, unit, text

    def _cell(self, cells: Sequence[str], name: str) -> str:
        at = self._at.get(name, len(cells))
        return cells[at] if at < len(cells) else ""


def _rows(name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of a file as cells, with their numbers; a quote that a program left open ends with its line."""
    try:
        with open(name, encoding=_encoding(name), errors="replace", newline=None) as file:
            for number, line in enumerate(iter(lambda: file.readline(_LINE), ""), 1):
                try:
                    yield number, next(csv.reader([line.rstrip("\n")]), [])
                except csv.Error:
                    continue
    except OSError as error:
        raise TraceError(f"{name}: cannot be read: {error.strerror or error}") from None


def _encoding(name: str) -> str:
    """Return how a file is encoded: Windows' PowerShell writes what a program prints as UTF-16."""
    with open(name, "rb") as file:
        return "utf-16" if file.read(2) in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig"


def number(text: str) -> float | None:
    """Return a number with or without separators, as the locales write them; None for anything else.

    Of two different separators, the last one is the decimal one, and one that occurs several times is not. A single
    comma before three digits separates thousands; a single point is always decimal.
    """
    plain = re.sub(r"[\s'\u2019]", "", text)
    if not re.fullmatch(r"[+-]?[\d.,]*\d(?:[eE][+-]?\d{1,3})?", plain):
        return None
    comma, point = plain.rfind(","), plain.rfind(".")
    if comma > point >= 0 or plain.count(".") > 1:
        plain = plain.replace(".", "")
    if "." not in plain and plain.count(",") == 1 and not re.fullmatch(r"[+-]?\d{1,3},\d{3}", plain):
        plain = plain.replace(",", ".")
    try:
        value = float(plain.replace(",", ""))
    except ValueError:
        return None
    return value if isfinite(value) else None


def _wanted(metric: str) -> bool:
    return metric.startswith((SECTORS, *L2_READS)) or metric in (
        *L1_PERCENTAGES,
        *LOAD_PERCENTAGES,
        *L2_PERCENTAGES,
    )


def _shape(text: str) -> tuple[int, int, int] | None:
    found = _SHAPE.fullmatch(text.strip())
    if found is None:
        return None
    x, y, z = (int(part) for part in found.groups())
    return x, y, z
