"""Read hit rates from CSV reports of Nsight Compute.

There are two forms. The long one (``ncu --csv``) has a row per launch and metric, with the columns ``Metric Name``,
``Metric Unit`` and ``Metric Value``. The wide one (``ncu --csv --page raw``) has a row per launch, a column per metric,
and the units in the row below the header. Columns are matched by name. Lines that the program or Nsight Compute print
between the rows are skipped. Numbers may have thousands separators.

The counters count sectors of 32 bytes, not lines.
"""

from __future__ import annotations

import csv
import os
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field
from io import TextIOWrapper
from math import isfinite
from typing import Any, BinaryIO

from rdmodel.common.kernel_names import base_name
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.regular_files import open_regular_file
from rdmodel.errors import ConfigError, TraceError, escape_unprintable
from rdmodel.results.metrics import (
    DRAM_METRIC,
    L1_RATE_METRIC,
    L2_METRIC,
    L2_RATE_METRIC,
    LOAD_RATE_METRIC,
    REQUEST_METRIC,
    SECTOR_METRIC,
)

OPERATION_SUFFIXES = ("ld", "st", "red", "atom")
"""Operations that the L1 counters distinguish."""
L2_READ_METRICS = (f"{L2_METRIC}read", "lts__t_sectors_op_read")
"""Stems of the metrics that count sectors read from the L2: by the L1s only, and by all."""

L1_RATE_METRICS = (L1_RATE_METRIC, "L1/TEX Hit Rate")
"""Hit rates of the L1 in percent, for reports without counters; the default pages use the last name."""
LOAD_RATE_METRICS = (LOAD_RATE_METRIC,)
"""Hit rate of global loads at the L1, in percent."""
L2_RATE_METRICS = ("lts__t_sector_op_read_hit_rate.pct", L2_RATE_METRIC, "L2 Hit Rate")
"""Hit rates of the L2 in percent, the most specific first; the default pages use the last name."""

COLLECTED_METRICS = (
    *(f"{SECTOR_METRIC}{op}{lookup}.sum" for op in OPERATION_SUFFIXES for lookup in ("", "_lookup_hit")),
    *(f"{L2_READ_METRICS[0]}{lookup}.sum" for lookup in ("", "_lookup_hit")),
    *(f"{REQUEST_METRIC}{op}.sum" for op in ("ld", "st")),
    f"{L2_METRIC}write.sum",
    *(f"{DRAM_METRIC}{op}.sum" for op in ("read", "write")),
)
"""All counters that are read, in their preferred form."""
NCU_COMMAND = f"ncu --csv --page raw --metrics {','.join(COLLECTED_METRICS)} PROGRAM > report.csv"
"""Command that makes a report with all counters that are read."""

_COUNTER_SUFFIXES = (".sum", "_lookup_hit.sum", "_lookup_miss.sum")
"""Endings of the counters of all sectors, of hits and of misses."""
_MAX_LINE_CHARACTERS = 1 << 20
"""Characters of a report that are read as one line."""
_MAX_COUNTER_RATIO = 1.01
"""Ratio of hits to sectors above which counters contradict each other."""
_UNIT_PREFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
"""Factors of the prefixes of units, such as Ksector."""
_SHAPE_PATTERN = re.compile(r"\(?\s*(\d{1,18})\s*[,x ]\s*(\d{1,18})\s*[,x ]\s*(\d{1,18})\s*\)?")


@dataclass(frozen=True, slots=True)
class Rate:
    """A measured hit rate, 0 to 1, and the `metrics` of Nsight Compute that it is from.

    `sectors` is the number of sectors counted, or None if the report has a percentage only.
    """

    hit_rate: float
    sectors: float | None
    metrics: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the rate, the sectors and the metrics."""
        return {**asdict(self), "metrics": list(self.metrics)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Metrics of one kernel in a report of Nsight Compute: of one launch, or of several merged ones.

    `launches` holds the IDs of the launches in the report. `metrics` are numbers in base units, by the names in the
    report. `grid` and `block` are (x, y, z), or None if the report does not have them. The rates raise `TraceError` for
    counters that contradict each other.
    """

    kernel: str
    launches: tuple[str, ...]
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    metrics: Mapping[str, float] = field(repr=False)

    @property
    def name(self) -> str:
        """Name of the kernel without return type, namespaces, template arguments and parameters."""
        return base_name(self.kernel)

    @property
    def l1_loads(self) -> Rate | None:
        """Hit rate of global loads at the L1; None if the report has neither the counters nor the rate."""
        return self._rate_from_counters([SECTOR_METRIC + "ld"]) or self._rate_from_percentage(LOAD_RATE_METRICS)

    @property
    def l1(self) -> Rate | None:
        """Hit rate of all global operations at the L1, else of all accesses to it; None if the report has neither.

        Operations that were not measured are left out, but loads and stores must have been.
        """
        stems = [SECTOR_METRIC + operation for operation in OPERATION_SUFFIXES]
        measured = [stem for stem in stems if any(stem + end in self.metrics for end in _COUNTER_SUFFIXES)]
        complete = {SECTOR_METRIC + "ld", SECTOR_METRIC + "st"} <= set(measured)
        counted = self._rate_from_counters(measured) if complete else None
        return counted or self._rate_from_percentage(L1_RATE_METRICS)

    @property
    def l2(self) -> Rate | None:
        """Hit rate of reads at the L2: those of the L1s if counted separately, else all; None if there is none."""
        for stem in L2_READ_METRICS:
            if (rate := self._rate_from_counters([stem])) is not None:
                return rate
        return self._rate_from_percentage(L2_RATE_METRICS)

    def _rate_from_counters(self, stems: Sequence[str]) -> Rate | None:
        """Return hits per sector over the counters with these stems; None if hits and misses are both missing."""
        used: list[str] = []
        hits = sectors = 0.0
        for stem in stems:
            names = [stem + end for end in _COUNTER_SUFFIXES]
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
        # Nsight Compute collects counters in several runs of the kernel, which may differ a little.
        if not -(_MAX_COUNTER_RATIO - 1) * sectors <= hits <= _MAX_COUNTER_RATIO * sectors:
            raise TraceError(
                f"{self.kernel}: {hits:,.0f} hits of {sectors:,.0f} sectors: the counters {', '.join(used)} "
                "contradict each other"
            )
        return Rate(min(max(hits / sectors, 0.0), 1.0), sectors, tuple(used))

    def _rate_from_percentage(self, names: Sequence[str]) -> Rate | None:
        for name in names:
            if name in self.metrics:
                percent = self.metrics[name]
                if not 0 <= percent <= 100:
                    raise TraceError(f"{self.kernel}: {name}={percent:g}: must be 0 to 100 %")
                return Rate(percent / 100, None, (name,))
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel, its launches and its rates; a rate that the report does not have is None."""
        rates = {"l1_loads": self.l1_loads, "l1": self.l1, "l2": self.l2}
        return {
            "kernel": self.kernel,
            "launches": list(self.launches),
            "grid": None if self.grid is None else list(self.grid),
            "block": None if self.block is None else list(self.block),
        } | {name: None if rate is None else rate.to_dict() for name, rate in rates.items()}


def read_ncu(path: str | os.PathLike[str]) -> tuple[Measurement, ...]:
    """Read the launches in a CSV report of Nsight Compute.

    Parameters
    ----------
    path : str or path-like
        The report, in the long form (``ncu --csv``) or the wide one (``ncu --csv --page raw``).

    Returns
    -------
    tuple of Measurement
        The launches in the order of the report. Metrics that are not numbers ("n/a") are left out.

    Raises
    ------
    TraceError
        If the file cannot be read, has no header or no launches, or has two values for one metric of a launch. The
        message names the file and, where there is one, the line.
    """
    name = os.fspath(path)
    launches: dict[tuple[str, str, str], _LaunchRows] = {}
    table: _ReportTable | None = None
    refusal = ""
    for number, cells in _read_cells(name):
        if "ID" in cells and "Kernel Name" in cells:
            table = _ReportTable(cells)
        elif table is not None:
            table.read_row(cells, launches, f"{name}:{number}")
        if cells[:1] and cells[0].startswith("==ERROR=="):
            refusal = f"; Nsight Compute says: {','.join(cells)[:200]!r}"
    if table is None:
        raise TraceError(
            f"{name}: is not a CSV report of Nsight Compute (ncu --csv): "
            f"no line has the columns ID and Kernel Name{refusal}"
        )
    if not launches:
        raise TraceError(f"{name}: holds no kernel launches{refusal}")
    return tuple(launch.finish() for launch in launches.values())


def merge_launches(measurements: Iterable[Measurement]) -> Measurement:
    """Merge several launches of a kernel into one measurement: counters are added, percentages averaged.

    A metric that one of them lacks is left out, and so is a grid or block that is not the same in all. Raises
    `ConfigError` if there are no launches.
    """
    parts = list(measurements)
    if not parts:
        raise ConfigError("measurements: must hold at least one launch")
    if len(parts) == 1:
        return parts[0]
    shared = [name for name in parts[0].metrics if all(name in part.metrics for part in parts)]
    sums = {name: sum(part.metrics[name] for part in parts) for name in shared}
    return Measurement(
        kernel=parts[0].kernel,
        launches=tuple(launch for part in parts for launch in part.launches),
        grid=parts[0].grid if all(part.grid == parts[0].grid for part in parts) else None,
        block=parts[0].block if all(part.block == parts[0].block for part in parts) else None,
        metrics={name: value if name.endswith(".sum") else value / len(parts) for name, value in sums.items()},
    )


# ---- reading


class _LaunchRows:
    """The metrics of one launch, gathered while the report is read."""

    def __init__(self, kernel: str, launch: str, grid: str, block: str) -> None:
        self.metrics: dict[str, float] = {}
        self._head = (escape_unprintable(kernel), launch, _parse_shape(grid), _parse_shape(block))

    def add_metric(self, metric: str, unit: str, text: str, where: str) -> None:
        """Add a metric, scaled to base units; raise `TraceError` if it had another value before."""
        value = parse_report_number(text)
        if value is None:
            return
        if unit[1:].lower().startswith("sector"):
            value *= _UNIT_PREFIXES.get(unit[0].upper(), 1.0)
        # The default page repeats a metric in every section that shows it.
        if self.metrics.setdefault(metric, value) != value and _is_rate_metric(metric):
            raise TraceError(f"{where}: {metric} of one launch is {text!r} here and {self.metrics[metric]:g} above")

    def finish(self) -> Measurement:
        """Return the launch as a measurement."""
        kernel, launch, grid, block = self._head
        return Measurement(kernel=kernel, launches=(launch,), grid=grid, block=block, metrics=self.metrics)


class _ReportTable:
    """A header of a report, which says how to read the rows below it."""

    def __init__(self, header: Sequence[str]) -> None:
        self._at = {name: i for i, name in reversed(list(enumerate(header)))}
        self._header = header
        self._long = {"Metric Name", "Metric Value"} <= set(header)
        self._units = [""] * len(header)
        self._first = True

    def read_row(self, cells: Sequence[str], launches: dict[tuple[str, str, str], _LaunchRows], where: str) -> None:
        """Read a row below the header; skip it if it is neither a launch nor the row of units."""
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
            launches[key] = _LaunchRows(key[2], key[1], *shape)
        for metric, unit, text in self._metrics(cells):
            launches[key].add_metric(metric, unit, text, where)

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


def _read_cells(name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each line of a file with the line's number; a quote that is left open ends with its line."""
    raw = open_regular_file(name)
    try:
        with TextIOWrapper(raw, encoding=_detect_encoding(raw), errors="replace", newline=None) as file:
            for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE_CHARACTERS), ""), 1):
                try:
                    yield number, next(csv.reader([line.rstrip("\n")]), [])
                except csv.Error:
                    continue
    except OSError as error:
        raise TraceError(f"{name}: cannot be read: {error.strerror or error}") from None


def _detect_encoding(file: BinaryIO) -> str:
    """Return the encoding of a file: PowerShell on Windows redirects output as UTF-16."""
    start = file.read(2)
    file.seek(0)
    return "utf-16" if start in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig"


def parse_report_number(text: str) -> float | None:
    """Return a number that a locale may have written with separators; None for anything else.

    Of two different separators the last one is the decimal separator, and one that occurs several times separates
    thousands. A single comma before three digits separates thousands; a single point is always decimal.
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


def _is_rate_metric(metric: str) -> bool:
    """Return whether a hit rate is computed from a metric."""
    return metric.startswith((SECTOR_METRIC, *L2_READ_METRICS)) or metric in (
        *L1_RATE_METRICS,
        *LOAD_RATE_METRICS,
        *L2_RATE_METRICS,
    )


def _parse_shape(text: str) -> tuple[int, int, int] | None:
    """Return a grid or block size such as "(16, 64, 1)"; None for anything else."""
    match = _SHAPE_PATTERN.fullmatch(text.strip())
    if match is None:
        return None
    x, y, z = (int(part) for part in match.groups())
    return x, y, z
