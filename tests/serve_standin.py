"""Plain stand-ins for `rdmodel.estimate`, `rank_tiles` and `Answers`, where rdmodel has them not; run as `rdmodel`.

``python tests/serve_standin.py serve ...`` is ``rdmodel serve ...``.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
import sys
import threading
from typing import Any

import rdmodel
from rdmodel.errors import ConfigError, RdmodelError


def estimate(trace: Any, gpu: Any, *, work: int | None = None, **options: Any) -> Any:
    return rdmodel.predict(trace, gpu, histogram=False, n_jobs=1, **options)


class Ranking:
    def __init__(self, plain: dict[str, Any]) -> None:
        self._plain = plain

    @property
    def best(self) -> Any:
        if not self._plain["tiles"]:
            raise ConfigError(f"tiles: none can run: {self._plain['infeasible'][0]['reason']}")
        return self._plain["tiles"][0]

    def to_dict(self) -> dict[str, Any]:
        return self._plain


def rank_tiles(
    make_trace: Any, tiles: Any, gpu: Any, *, objective: str, effort: str, top: int, n_jobs: int, **options: Any
) -> Ranking:
    if objective not in ("miss_rate", "misses", "l2_bytes", "dram_bytes", "time"):
        raise ConfigError(f"unknown objective {objective!r}")
    if isinstance(tiles, dict):
        tiles = [dict(zip(tiles, choice, strict=True)) for choice in itertools.product(*tiles.values())]
    found, infeasible, kernel = [], [], ""
    for tile in tiles:
        try:
            trace = make_trace(tile)
            found.append((rdmodel.predict(trace, gpu, histogram=False, n_jobs=1, **options).misses.total, tile))
            kernel = trace.launch.kernel
        except RdmodelError as error:
            infeasible.append({"tile": tile, "reason": str(error)})
    found.sort(key=lambda one: one[0])
    ranked = [
        {
            "rank": at,
            "tile": tile,
            "value": value,
            "low": value,
            "high": value,
            "tied": value == found[0][0],
            "pruned": None,
        }
        for at, (value, tile) in enumerate(found, 1)
    ]
    head = {"kernel": kernel, "gpu": gpu.name, "objective": objective, "effort": effort, "seed": options["seed"]}
    return Ranking({**head, "tiles": ranked, "infeasible": infeasible, "seconds": 0.0})


class Answers:
    trouble = None

    def __init__(self, path: str | None = None) -> None:
        self._lock = threading.Lock()
        self._file = sqlite3.connect(path or ":memory:", check_same_thread=False)
        self._file.execute("CREATE TABLE IF NOT EXISTS answers (question TEXT PRIMARY KEY, answer TEXT)")

    def get(self, question: Any) -> Any:
        with self._lock:
            select = "SELECT answer FROM answers WHERE question = ?"
            row = self._file.execute(select, (json.dumps(question, sort_keys=True),)).fetchone()
        return row and json.loads(row[0])

    def put(self, question: Any, answer: Any) -> None:
        with self._lock, self._file:
            row = (json.dumps(question, sort_keys=True), json.dumps(answer))
            self._file.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", row)

    def close(self) -> None:
        self._file.close()


def install() -> None:
    for name, value in (("estimate", estimate), ("rank_tiles", rank_tiles), ("Answers", Answers)):
        if not hasattr(rdmodel, name):
            setattr(rdmodel, name, value)


if __name__ == "__main__":
    install()
    from rdmodel.cli import main

    sys.exit(main())
