"""Rank the tiles of a CUDA program, whose tile sizes are macros, for ``rdmodel tiles``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdmodel.cli.kernel_parameters import refuse_repeated
from rdmodel.cli.option_values import lowest_capability, selected_gpu
from rdmodel.cli.output import print_note
from rdmodel.cli.progress_line import ProgressLine
from rdmodel.errors import ConfigError
from rdmodel.tiling.programs import open_answers
from rdmodel.tiling.rank import all_tiles, rank_tiles
from rdmodel.tiling.values import Tile

if TYPE_CHECKING:
    from tracegen.cuda import TiledProgram


def rank_program(arguments: argparse.Namespace, sizes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return the ranking of all tiles of a CUDA file that meet ``--where``; `sizes` are the values of each tile size.

    Raises `ConfigError` for an option that a program does not take, for one that it lacks, and if no tile can run.
    """
    from tracegen.cuda import TiledProgram

    source = arguments.source
    if arguments.param:
        raise ConfigError(f"--param: {source} is a CUDA program; --arg gives its arguments and -D its macros")
    for name in ("grid", "block"):
        if getattr(arguments, name) is None:
            raise ConfigError(f"--{name}: is missing; {source} needs its shape, such as --{name} 'N // TX,8'")
    gpu = selected_gpu(arguments)
    program = TiledProgram(
        source=Path(source),
        kernel=arguments.kernel,
        grid=arguments.grid,
        block=arguments.block,
        args=dict(refuse_repeated("--arg", arguments.arg)),
        shared=arguments.shared if arguments.shared is not None else 0,
        where=arguments.where,
        defines=arguments.define,
        includes=arguments.include,
        options=arguments.option,
        architecture=arguments.architecture,
        capability=lowest_capability([gpu]),
        compiler=arguments.compiler or "auto",
        max_instructions=arguments.max_instructions,
    )
    tiles = all_tiles(sizes, program.allows)
    stores = arguments.objective == "time" and arguments.effort == "quick" and not arguments.no_cache
    if arguments.objective != "time":
        with ProgressLine(lambda done, total: f"{source}: {done} of {total} codes compiled") as progress:
            program.compile(tiles, n_jobs=arguments.jobs, progress=progress)
    with (
        open_answers(arguments.cache, len(tiles)) if stores else nullcontext() as answers,
        ProgressLine(lambda done, total: f"{source}: {done} of {total} estimates") as progress,
    ):
        ranking = rank_tiles(
            program,
            tiles,
            gpu,
            objective=arguments.objective,
            effort=arguments.effort,
            top=arguments.top,
            per=None if arguments.per is None else _units_of(program, arguments.per),
            every=arguments.every,
            n_jobs=arguments.jobs,
            seed=arguments.seed,
            answers=answers,
            progress=progress,
        )
    for note in ranking.notes:
        print_note(note)
    if answers is not None and answers.trouble is not None:
        print_note(answers.trouble)
    # Raises a `ConfigError` with the first reason if no tile can run.
    _ = ranking.best
    return ranking.to_dict()


def _units_of(program: TiledProgram, expression: str) -> Callable[[Tile], float]:
    """Return the function of ``--per``, whose name is the expression."""

    def units(tile: Tile) -> float:
        return program.evaluate(expression, tile)

    units.__name__ = expression
    return units
