"""The tuning spaces of the measured runs, as programs whose tiles are the points."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from rdmodel.integrations import kernel_tuner
from tracegen.cuda import TiledProgram
from validation.tuning.spaces import MATRIX, Config, Space, gemm

BORDER = 10
"""Most steps of a launch of ``hotspot``: its arrays have a border of as many cells on each side."""


def hotspot(sources: Path, config: Config, _length: int, *, width: int) -> TiledProgram:
    """Return the program of ``hotspot_milo.cu`` on a grid of `width` x `width` cells."""
    cells = f"float[{(width + 2 * BORDER) ** 2}]:zeros"
    sizes = {"grid_width": width, "grid_height": width, "max_tfactor": BORDER}
    macros = "".join(f"#define {name} {size}\n" for name, size in sizes.items())
    return kernel_tuner.program(
        "calculate_temp",
        macros + (sources / "hotspot_milo.cu").read_text(),
        (width, width),
        [cells, cells, f"float[{width**2}]:zeros", 1.0, 1.0, 1.0, 1.0],
        {name: [value] for name, value in config.items()},
        grid_div_x=["block_size_x", "tile_size_x"],
        grid_div_y=["block_size_y", "tile_size_y"],
    )


def steps_of(config: Config) -> int:
    """Return the steps that a launch makes: tiles of ``hotspot`` differ in them."""
    return config.get("temporal_tiling_factor", 1)


SPACES = {
    space.name: space
    for space in (
        Space("hotspot a4000", "a4000", partial(hotspot, width=4096)),
        Space("hotspot a4000 1560", "a4000", partial(hotspot, width=8192)),
        Space("hotspot a100", "a100-40g", partial(hotspot, width=4096)),
        Space("gemm a100", "a100-40g", gemm, (128, 256), MATRIX, kernel_tuner.COMPILER_OPTIONS["CUDA"]),
    )
}
"""The spaces by the name of their kernel and the measured GPU."""
