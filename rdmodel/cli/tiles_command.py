"""Run ``rdmodel tiles``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from rdmodel.answers.store import Answers
from rdmodel.cli.kernel_parameters import AFFINE_SUFFIX, refuse_repeated
from rdmodel.cli.option_values import gpu_changes, gpu_name, output_form, selected_gpu
from rdmodel.cli.output import OutputForm, print_csv, print_json, print_note, print_text
from rdmodel.cli.parser import dimensions
from rdmodel.cli.progress_line import ProgressLine
from rdmodel.cli.text_tiles import format_ranking, format_sizes
from rdmodel.cli.tile_programs import rank_program
from rdmodel.common.numerals import read_integer
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU
from rdmodel.plots.charts import check_path
from rdmodel.plots.heatmap import heat_map
from rdmodel.service.operations import compute, is_answer, question_of
from rdmodel.service.protocol import Refusal
from rdmodel.service.requests import ServiceRequest, read_request
from rdmodel.tiling.rank import all_tiles
from tracegen.affine.conditions import holds
from tracegen.affine.json_form import read_object

TILED_SUFFIXES = (".cu", ".cuh")
"""Suffixes of programs with macros."""

TILED_PROGRAM_OPTIONS = (
    *("kernel", "grid", "shared", "arg", "define", "include", "option", "architecture", "compiler", "per", "every"),
)
"""Options that only programs take."""

BLOCK_SIZE = "block"
"""Name of the tile size that is the shape of a block: ``block=32x8,16x16``."""

Ranking = Mapping[str, Any]
"""A ranking as `rdmodel.Ranking.to_dict` returns it."""


def run_tiles(arguments: argparse.Namespace) -> None:
    """Rank the tiles, print the best and draw the heat map."""
    if arguments.plot is not None:
        check_path(arguments.plot)
    if arguments.top < 1:
        raise ConfigError(f"top={arguments.top}: must be at least 1")

    if not arguments.tiles:
        raise ConfigError("--tile: is missing; name sizes to choose from: --tile TI=8,16,32")
    path, sizes = Path(arguments.source), _tile_sizes(arguments.tiles)
    if path.suffix in TILED_SUFFIXES and path.exists():
        if BLOCK_SIZE in sizes:
            raise ConfigError(f"--tile {BLOCK_SIZE}: is the shape of a kernel's block; a program has --block TX,TY")
        ranking: Ranking = rank_program(arguments, sizes)
    else:
        ranking = _rank_kernel(arguments, sizes)
    _print_ranking(output_form(arguments), ranking, arguments.top)
    if arguments.plot is not None:
        heat_map(ranking, arguments.plot)


def _rank_kernel(arguments: argparse.Namespace, sizes: Mapping[str, list[Any]]) -> Ranking:
    """Return the ranking of the tiles of a kernel or loop nest, from the answers file if it is there."""

    def rank(request: ServiceRequest) -> Ranking:
        with ProgressLine(lambda done, total: f"{arguments.source}: {done} of {total} estimates") as progress:
            return compute(request, progress, arguments.jobs)

    for name in TILED_PROGRAM_OPTIONS:
        if getattr(arguments, name) not in (None, [], False):
            raise ConfigError(f"--{name}: {arguments.source} is not a CUDA program; it takes no such option")
    try:
        request = read_request(_request_fields(arguments, sizes))
        return rank(request) if arguments.no_cache else _stored_ranking(request, rank, arguments.cache)
    except Refusal as refusal:
        raise ConfigError(refusal.message) from None


def _request_fields(arguments: argparse.Namespace, sizes: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return the ranking as a request of `rdmodel serve`, which shares its answers file."""
    fields: dict[str, Any] = {
        "kernel": _kernel(arguments.source),
        "tiles": sizes,
        "gpu": gpu_name(arguments),
        "objective": arguments.objective,
        "effort": arguments.effort,
        "top": arguments.top,
        "seed": arguments.seed,
    }
    if arguments.param:
        fields["params"] = _kernel_sizes(arguments.param, fields["tiles"])
    if gpu_changes(arguments) or fields["gpu"].endswith(".toml"):
        fields["gpu"] = _gpu_fields(selected_gpu(arguments))
    if arguments.block is not None:
        _refuse_both(BLOCK_SIZE, fields["tiles"], "--block")
        fields["block"] = list(_block_shape(arguments.block))
    if arguments.where:
        known = fields.get("params", {})
        fields["tiles"] = all_tiles(
            sizes, lambda tile: all(holds(condition, {**known, **tile}) for condition in arguments.where)
        )
    return {"id": None, "op": "rank", **fields}


def _block_shape(parts: tuple[str, ...]) -> tuple[int, int, int]:
    try:
        return dimensions(",".join(parts))
    except argparse.ArgumentTypeError as error:
        raise ConfigError(f"--block: {error}") from None


def _kernel(source: str) -> str | dict[str, Any]:
    """Return the name of a kernel, or the loop nest in a JSON file."""
    path = Path(source)
    if path.suffix == AFFINE_SUFFIX and path.is_file():
        return read_object(path)
    if not path.exists() and ("/" in source or path.suffix == AFFINE_SUFFIX):
        raise ConfigError(f"{source}: no such file")
    if path.exists():
        raise ConfigError(
            f"{source}: must be the name of a kernel, a .json file with a loop nest, or a .cu file, to have tiles"
        )
    return source


def _tile_sizes(pairs: Iterable[tuple[str, str]]) -> dict[str, list[Any]]:
    """Return the values of every tile size by name."""
    sizes: dict[str, list[Any]] = {}
    for name, values in pairs:
        if name in sizes:
            raise ConfigError(f"--tile {name}: is given twice; name all sizes at once: {name}=8,16")
        sizes[name] = [_shape(text) if name == BLOCK_SIZE else _size(name, text) for text in values.split(",")]
    return sizes


def _kernel_sizes(pairs: Iterable[tuple[str, str]], tiles: Container[str]) -> dict[str, int]:
    """Return the sizes of the kernel by name; `tiles` are the names of tile sizes."""
    sizes: dict[str, int] = {}
    for name, text in refuse_repeated("--param", pairs):
        _refuse_both(name, tiles, f"--param {name}")
        sizes[name] = _size(name, text)
    return sizes


def _refuse_both(name: str, tiles: Container[str], option: str) -> None:
    if name in tiles:
        raise ConfigError(f"{option}: is a size of the tiles already: --tile {name}")


def _size(name: str, text: str) -> int:
    try:
        return read_integer(text)
    except ValueError as error:
        raise ConfigError(f"{name}={text:.60}: must be {error}") from None


def _shape(text: str) -> list[int]:
    try:
        return [read_integer(part) for part in text.split("x")]
    except ValueError:
        raise ConfigError(f"{BLOCK_SIZE}={text:.60}: must be a shape, such as 32x8") from None


def _gpu_fields(gpu: GPU) -> dict[str, Any]:
    return {name: value for name, value in gpu.to_dict().items() if name != "sources"}


def _stored_ranking(request: ServiceRequest, rank: Callable[[ServiceRequest], Ranking], path: str | None) -> Ranking:
    """Return the ranking in the answers file at `path`; if it is not there, compute it by `rank` and add it."""
    with Answers(path) as answers:
        question = question_of(request)
        ranking: Ranking | None = answers.get(question)
        if ranking is None or not is_answer("rank", ranking):
            ranking = rank(request)
            answers.put(question, ranking)
        if answers.trouble is not None:
            print_note(answers.trouble)
        return ranking


def _print_ranking(form: OutputForm, ranking: Ranking, top: int) -> None:
    if form == "json":
        print_json(ranking)
    elif form == "csv":
        tiles = [*ranking["tiles"], *ranking["infeasible"]]
        rows = ({name: value for name, value in tile.items() if name != "tile"} for tile in tiles)
        print_csv({**format_sizes(tile["tile"]), **row} for tile, row in zip(tiles, rows, strict=True))
    else:
        print_text(format_ranking(ranking, top))
