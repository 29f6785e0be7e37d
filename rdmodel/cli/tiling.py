"""`rdmodel tiles`: tiles of a kernel from best to worst."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from rdmodel.answers.store import Answers
from rdmodel.cli import text_tiles
from rdmodel.cli.arguments import machine_assignments
from rdmodel.cli.output import print_csv, print_json
from rdmodel.cli.progress_line import Progress
from rdmodel.cli.sources import AFFINE_FILE, machine
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU
from rdmodel.plots.charts import check_path
from rdmodel.plots.heatmap import heat_map
from rdmodel.service.operations import compute, is_answer, question_of
from rdmodel.service.protocol import Refusal
from rdmodel.service.requests import Request, read_request
from tracegen.affine.json_form import read_object

BLOCK = "block"
"""The name of a tile that is a block's shape: ``block=32x8,16x16``."""


def run_tiles(arguments: argparse.Namespace) -> None:
    """Rank the tiles that are given, and print the best."""
    if arguments.plot is not None:
        check_path(arguments.plot)
    if arguments.top < 1:
        raise ConfigError(f"top={arguments.top}: must be at least 1")
    try:
        ranking = _answer(read_request(_request(arguments)), arguments)
    except Refusal as refusal:
        raise ConfigError(refusal.message) from None
    _print(arguments, ranking)
    if arguments.plot is not None:
        heat_map(ranking, arguments.plot)


def _request(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what is asked as a request of `rdmodel serve`, which has the same answers."""
    if not arguments.tiles:
        raise ConfigError("--tile: is missing; name sizes to choose from: --tile TI=8,16,32")
    fields: dict[str, Any] = {
        "kernel": _kernel(arguments.source),
        "tiles": _tiles(arguments.tiles),
        "gpu": arguments.gpu,
        "objective": arguments.objective,
        "effort": arguments.effort,
        "top": arguments.top,
        "seed": arguments.seed,
    }
    if arguments.param:
        fields["params"] = _params(arguments.param, fields["tiles"])
    if machine_assignments(arguments) or arguments.gpu.endswith(".toml"):
        fields["gpu"] = _plain(machine(arguments))
    if arguments.block is not None:
        _refuse_both(BLOCK, fields["tiles"], "--block")
        fields["block"] = list(arguments.block)
    return {"id": None, "op": "rank", **fields}


def _kernel(source: str) -> str | dict[str, Any]:
    """Return a kernel's name, or the loop nest in a JSON file."""
    path = Path(source)
    if path.suffix == AFFINE_FILE and path.is_file():
        return read_object(path)
    if not path.exists() and ("/" in source or path.suffix == AFFINE_FILE):
        raise ConfigError(f"{source}: no such file")
    if path.exists():
        raise ConfigError(f"{source}: tiles are of a kernel's name or a loop nest in a .json file")
    return source


def _tiles(given: Iterable[tuple[str, str]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, sizes in given:
        if name in found:
            raise ConfigError(f"--tile {name}: is given twice; name all sizes at once: {name}=8,16")
        found[name] = [_shape(size) if name == BLOCK else _size(name, size) for size in sizes.split(",")]
    return found


def _params(given: Iterable[tuple[str, str]], tiles: Container[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in given:
        _refuse_both(name, tiles, f"--param {name}")
        if name in found:
            raise ConfigError(f"--param {name}: is given twice")
        found[name] = _size(name, value)
    return found


def _refuse_both(name: str, tiles: Container[str], option: str) -> None:
    if name in tiles:
        raise ConfigError(f"{option}: is a size of the tiles already: --tile {name}")


def _size(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{name}={text}: must be a whole number") from None


def _shape(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split("x")]
    except ValueError:
        raise ConfigError(f"{BLOCK}={text}: must be a shape, such as 32x8") from None


def _plain(gpu: GPU) -> dict[str, Any]:
    return {name: value for name, value in gpu.to_dict().items() if name != "sources"}


def _answer(request: Request, arguments: argparse.Namespace) -> Mapping[str, Any]:
    """Return the ranking, from the answers that are kept if it is there."""
    if arguments.no_cache:
        return _rank(request, arguments)
    with Answers(arguments.cache) as answers:
        question = question_of(request)
        kept: Mapping[str, Any] | None = answers.get(question)
        if kept is None or not is_answer("rank", kept):
            kept = _rank(request, arguments)
            answers.put(question, kept)
        if answers.trouble is not None:
            print(f"rdmodel: {answers.trouble}", file=sys.stderr)
        return kept


def _rank(request: Request, arguments: argparse.Namespace) -> Mapping[str, Any]:
    with Bar(arguments.source) as progress:
        return compute(request, progress, arguments.jobs)


class Bar(Progress):
    """Progress over estimates of tiles."""

    def describe(self, done: int, total: int) -> str:
        """Return how many estimates are made, of those that are planned so far."""
        return f"{self._what}: {done} of {total} estimates"


def _print(arguments: argparse.Namespace, ranking: Mapping[str, Any]) -> None:
    if arguments.json:
        print_json(ranking)
    elif arguments.csv:
        tiles = [*ranking["tiles"], *ranking["infeasible"]]
        rows = ({name: value for name, value in one.items() if name != "tile"} for one in tiles)
        print_csv({**text_tiles.sizes(one["tile"]), **row} for one, row in zip(tiles, rows, strict=True))
    else:
        print(text_tiles.ranking(ranking, arguments.top))


COMMANDS = {"tiles": run_tiles}
"""What runs this command."""
