"""Restrict Kernel Tuner to the tiles that are predicted to be good."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdmodel.errors import ConfigError, unknown
from rdmodel.integrations.candidates import (
    BLOCK_SIZE_NAMES,
    Names,
    Source,
    Tiles,
    flatten_tile,
    ranking_of,
    select_tiles,
)

if TYPE_CHECKING:
    from tracegen.cuda import TiledProgram

DEFAULT_BLOCK_SIZES = (256, 1, 1)
"""Sizes of a block in the dimensions that no parameter tunes, as Kernel Tuner chooses them."""

COMPILER_OPTIONS: Mapping[str, tuple[str, ...]] = {"CUDA": ("-rdc=true",), "CUPY": (), "NVCUDA": ()}
"""Languages of ``tune_kernel`` in which kernels are written in CUDA, and options with which Kernel Tuner compiles them.

PyCUDA compiles those of ``CUDA``. It links them with other code (``pycuda.compiler.DynamicSourceModule``), so that the
code is relocatable: the assembler does not know where its arrays in shared memory lie, and merges fewer of their words
(docs/work.md).
"""

Divisors = str | int | Sequence[str | int] | None
"""Divisors of a dimension of the grid: expressions of parameters, whose product counts; None: the block size."""


def program(
    kernel_name: str,
    kernel_source: str | Path,
    problem_size: str | int | Sequence[str | int],
    arguments: Sequence[Any],
    tune_params: Mapping[str, Iterable[Any]],
    *,
    grid_div_x: Divisors = None,
    grid_div_y: Divisors = None,
    grid_div_z: Divisors = None,
    block_size_names: Sequence[str] = BLOCK_SIZE_NAMES,
    cmem_args: Mapping[str, Any] | None = None,
    smem_args: Mapping[str, str | int] | None = None,
    compiler_options: Sequence[str] = (),
    lang: str | None = None,
    **options: Any,
) -> TiledProgram:
    """Return the program that ``tune_kernel`` tunes with the same arguments, whose tiles are the configurations.

    ``rank_tiles(program(...), tune_params, objective="time")`` ranks the configurations by time, and `restrictions`
    takes the ranking. The macros of the source are the parameters, the sizes of a block, and ``kernel_tuner``; those of
    the grid (``grid_size_x``, ...) are not defined.

    Parameters
    ----------
    kernel_name, kernel_source, problem_size, arguments, tune_params
        As for ``tune_kernel``, in CUDA. Functions in place of expressions are not supported.
    grid_div_x, grid_div_y, grid_div_z, block_size_names, cmem_args, smem_args, compiler_options
        As for ``tune_kernel``. Expressions are those of loop nests: ``+ - * // %``, ``min`` and ``max``.
    lang
        As for ``tune_kernel``: ``"CUDA"`` (default), ``"CuPy"`` or ``"NVCUDA"``. Each is compiled in its own way: code
        of ``"CUDA"`` is relocatable.
    options
        More options of `tracegen.cuda.TiledProgram`, such as ``includes=``.

    Raises
    ------
    ConfigError
        If `problem_size` does not have one to three dimensions, a divisor is neither a number nor an expression, `lang`
        is another one, or `options` has one that is given already.
    TraceError
        If the source cannot be read.
    """
    from tracegen.cuda import TiledProgram

    sizes = [problem_size] if isinstance(problem_size, str | int) else list(problem_size)
    if not 1 <= len(sizes) <= 3:
        raise ConfigError(f"problem_size={problem_size!r:.60}: must be one to three expressions (x, y, z)")
    names = [*block_size_names, *BLOCK_SIZE_NAMES[len(block_size_names) :]]
    fixed = {name: size for name, size in zip(names, DEFAULT_BLOCK_SIZES, strict=True) if name not in tune_params}
    grid = []
    for name, given, size, divisor in zip(
        ("grid_div_x", "grid_div_y", "grid_div_z"), names, [*sizes, 1, 1], (grid_div_x, grid_div_y, grid_div_z),
        strict=False,
    ):  # fmt: skip
        parts = [given if given in tune_params else 1] if divisor is None else _divisors(name, divisor)
        product = " * ".join(["1", *(f"({part})" for part in parts)])
        grid.append(f"(({size}) + {product} - 1) // ({product})")
    given_options: dict[str, Any] = {
        "source": kernel_source,
        "kernel": kernel_name,
        "grid": grid,
        "block": [name if name in tune_params else fixed[name] for name in names],
        "args": list(arguments),
        "shared": (smem_args or {}).get("size", 0),
        "defines": {"kernel_tuner": 1, **fixed},
        "options": [*_options_of(lang), *compiler_options],
        "variables": dict(cmem_args or {}),
    }
    for name in options:
        if name in given_options:
            raise ConfigError(f"{name}: follows from the arguments of tune_kernel; leave it out")
    return TiledProgram(**given_options, **options)


def _options_of(lang: str | None) -> tuple[str, ...]:
    """Return the options of the compiler with which Kernel Tuner compiles kernels of a language."""
    name = "CUDA" if lang is None else str(lang).upper()
    if name not in COMPILER_OPTIONS:
        raise ConfigError(unknown("lang", str(lang), ("CUDA", "CuPy", "NVCUDA")))
    return COMPILER_OPTIONS[name]


def _divisors(name: str, divisor: str | int | Sequence[str | int]) -> list[str | int]:
    """Return the divisors of a dimension; raise `ConfigError` for what is neither a number nor an expression."""
    parts = [divisor] if isinstance(divisor, str | int) else list(divisor)
    for part in parts:
        if not isinstance(part, str | int):
            raise ConfigError(f"{name}: {part!r:.60}: must be a whole number or an expression, such as 'block_size_x'")
    return parts


def restrictions(
    ranking: Source,
    tune_params: Mapping[str, Iterable[Any]],
    *,
    tiles: Tiles = None,
    top: int | None = None,
    within: float | None = None,
    names: Names | None = None,
    **options: Any,
) -> Callable[..., bool]:
    """Return a restriction for ``tune_kernel(..., tune_params, restrictions=...)``, alone or in a list with others.

    The restriction accepts a configuration as one mapping, as keywords, or as values in the order of `tune_params`.
    Parameters that are not sizes of the tiles are unrestricted.

    Parameters
    ----------
    ranking
        The result of `rdmodel.rank_tiles`, or a function that makes the trace of a tile; it needs `tiles`.
    tune_params
        Values of all parameters by name, as for ``tune_kernel``.
    tiles
        Tiles to rank, if `ranking` is a function. Tiles that were not ranked are rejected.
    top
        Keep tiles with ranks up to `top`.
    within
        Keep tiles at most this share (0.05: 5 %) above the best one. Without `top` and `within`, keep all tiles that
        can run.
    names
        Names in `tune_params` by names in a tile. The default for a tile's ``block`` is ``block_size_x``, ... .
    options
        Options of `rank_tiles`, if `ranking` is a function.

    Raises
    ------
    ConfigError
        If a size of the tiles is not in `tune_params`, or if no configuration would be left.
    """
    chosen = [
        flatten_tile(ranked.tile, names) for ranked in select_tiles(ranking_of(ranking, tiles, options), top, within)
    ]
    order = tuple(tune_params)
    sizes = tuple(chosen[0])
    for tile in chosen:
        if tuple(tile) != sizes:
            raise ConfigError(f"tiles: one has {', '.join(tile)}, the first {', '.join(sizes)}: must be equal")
    for name in sizes:
        if name not in order:
            raise ConfigError(f"tune_params: {unknown('size of a tile', name, order)}")
    good = {tuple(tile.values()) for tile in chosen}
    choices = [set(tune_params[name]) for name in sizes]
    if not any(all(size in choice for size, choice in zip(tile, choices, strict=True)) for tile in good):
        raise ConfigError(f"tune_params: these values cannot form any of the {len(good)} selected tiles")

    # Not a lambda: Kernel Tuner parses the source of functions that contain one.
    def keep(*values: Any, **named: Any) -> bool:
        if len(values) == 1 and isinstance(values[0], Mapping):
            named = dict(values[0])
        elif values:
            named = dict(zip(order, values, strict=True))
        return tuple(named[name] for name in sizes) in good

    return keep
