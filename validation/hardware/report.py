"""Write the comparison as a table, CSV or JSON, and renew the committed record."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from validation.hardware.compiled import compiler
from validation.hardware.rows import FOLDER, TOOLS, Row
from validation.hardware.study import DEFINITIONS, Score, Settings, Source, mean_error, tool_error


@dataclass(frozen=True, slots=True)
class Record:
    """Files of the committed record of one source: all scores (`csv`) and a page of tables (`results`)."""

    csv: Path
    results: Path


RECORDS: dict[Source, Record] = {
    "python": Record(FOLDER / "predicted.csv", FOLDER / "RESULTS.md"),
    "cuda": Record(FOLDER / "cuda.csv", FOLDER / "RESULTS-cuda.md"),
}
COLUMNS = [field.name for field in fields(Score)]


def to_csv(scores: Sequence[Score]) -> str:
    """Return the scores as CSV, one line per row and definition."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, "error"])
    writer.writerows([*astuple(score), f"{score.error:.4f}"] for score in scores)
    return text.getvalue()


def from_csv(text: str) -> list[Score]:
    """Return the scores that `to_csv` wrote."""
    return [
        Score(
            kernel=row["kernel"],
            definition=row["definition"],
            sms=1 if row["sms"] == "1" else "all",
            seeds=int(row["seeds"]),
            measured=float(row["measured"]),
            predicted=float(row["predicted"]),
            tools=row["tools"] == "True",
        )
        for row in csv.DictReader(io.StringIO(text))
    ]


def to_json(scores: Sequence[Score]) -> str:
    """Return the scores and the mean absolute errors per definition as JSON."""
    errors: dict[str, Any] = {d: dict(zip(("all", "tools"), mean_error(scores, d), strict=True)) for d in DEFINITIONS}
    rows = [{name: getattr(score, name) for name in [*COLUMNS, "error"]} for score in scores]
    return json.dumps({"mean_absolute_error": errors, "rows": rows}, indent=2)


def to_markdown(rows: Sequence[Row], scores: Sequence[Score]) -> str:
    """Return a table in Markdown: rates in percent, errors in points in brackets, mean absolute errors below."""
    found = {(score.kernel, score.definition): score for score in scores}
    lines = [_line(["kernel", "measured", *DEFINITIONS, *TOOLS])]
    lines.append("|---|" + "---:|" * (1 + len(DEFINITIONS) + len(TOOLS)))
    for row in rows:
        own = [found[row.kernel, definition] for definition in DEFINITIONS]
        cells = [f"{score.predicted:.2f} ({score.error:+.2f})" for score in own]
        others = [f"{row.others[tool]:.2f}" if tool in row.others else "" for tool in TOOLS]
        lines.append(_line([row.kernel, f"{row.measured:.2f}", *cells, *others]))
    every, shared = zip(*(mean_error(scores, definition) for definition in DEFINITIONS), strict=True)
    tools = [tool_error(rows, tool) for tool in TOOLS]
    count = sum(bool(row.others) for row in rows)
    lines.append(_line([f"mean error, {len(rows)} rows", "", *map(_points, every), *("" for _ in TOOLS)]))
    lines.append(_line([f"mean error, {count} rows", "", *map(_points, shared), *map(_points, tools)]))
    return "\n".join(lines) + "\n"


def _points(error: float | None) -> str:
    return "" if error is None else f"{error:.2f}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def heading(settings: Settings) -> str:
    """Return the settings of a run in one line."""
    sms = "SM 0 of 15, blocks dealt statically" if settings.sms == 1 else "all 15 SMs"
    return f"{sms}; hardware: mean of {settings.seeds} seeds from 0, paper: seed 0; PAD={settings.pad}"


def write_record(source: Source, rows: Sequence[Row], runs: Sequence[tuple[Settings, Sequence[Score]]]) -> None:
    """Write the committed record of several runs on one source: all scores as CSV, and the page of tables."""
    RECORDS[source].csv.write_text(to_csv([score for _, scores in runs for score in scores]))
    options, subject, origin = "", "", ""
    if source == "cuda":
        options, subject = " --source cuda", ", from compiled CUDA sources"
        origin = (
            f"The traces are from the CUDA sources in `tracegen/cuda/sources`, compiled to PTX and emulated.\n"
            f"Compiler: {compiler()}. Another compiler may order loads differently.\n"
        )
    parts = [
        f"# GTX 570: measured and predicted L1 miss rates{subject}\n",
        f"Written by `python -m validation.hardware{options} --record`. Rates are in percent, errors in percentage\n"
        "points in brackets. Mean errors are means of absolute errors; the second mean is over the rows that other\n"
        "tools report as well. `DEVIATIONS.md` (one folder up) explains the errors.\n",
        *([origin] if origin else []),
    ]
    for settings, scores in runs:
        parts += [f"## {heading(settings)}\n", to_markdown(rows, scores)]
    RECORDS[source].results.write_text("\n".join(parts))
