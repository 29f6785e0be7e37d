"""The tuning spaces of the measured runs, as programs whose tiles are the points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rdmodel.integrations import kernel_tuner
from tracegen.cuda import TiledProgram
from validation.tuning.spaces import CUDA_SPACES, MATRIX, Config, Space, architecture_of, relocatable

BORDER = 10
"""Most steps of a launch of ``hotspot``: its arrays have a border of as many cells on each side."""


def hotspot(sources: Path, config: Config, _length: int, *, width: int, gpu: str) -> TiledProgram:
    """Return the program of ``hotspot_milo.cu`` on a grid of `width` x `width` cells."""
    cells = f"float[{(width + 2 * BORDER) ** 2}]:zeros"
    sizes = {"grid_width": width, "grid_height": width, "max_tfactor": BORDER}
    macros = "".join(f"#define {name} {size}\n" for name, size in sizes.items())
    program = kernel_tuner.program(
        "calculate_temp",
        macros + (sources / "hotspot_milo.cu").read_text(),
        (width, width),
        [cells, cells, f"float[{width**2}]:zeros", 1.0, 1.0, 1.0, 1.0],
        {name: [value] for name, value in config.items()},
        grid_div_x=["block_size_x", "tile_size_x"],
        grid_div_y=["block_size_y", "tile_size_y"],
    )
    return replace(program, architecture=architecture_of(gpu))


def product(sources: Path, config: Config, length: int, *, gpu: str) -> TiledProgram:
    """Return the program of CLBlast's ``Xgemm`` in CUDA, whose sums have `length` terms."""
    program = relocatable(CUDA_SPACES["gemm"].make)(sources, config, length)
    return replace(program, architecture=architecture_of(gpu))


def steps_of(config: Config) -> int:
    """Return the steps that a launch makes: tiles of ``hotspot`` differ in them."""
    return config.get("temporal_tiling_factor", 1)


def _space(name: str, gpu: str, make: Callable[..., TiledProgram], **more: Any) -> tuple[str, Space]:
    return name, Space(name, gpu, partial(make, gpu=gpu), **more)


SPACES = dict(
    [
        _space("hotspot a4000", "a4000", partial(hotspot, width=4096)),
        _space("hotspot a4000 1560", "a4000", partial(hotspot, width=8192)),
        _space("hotspot a100", "a100-40g", partial(hotspot, width=4096)),
        _space("gemm a100", "a100-40g", product, lengths=(128, 256), whole=MATRIX),
    ]
)
"""The spaces by the name of their kernel and the measured GPU."""
