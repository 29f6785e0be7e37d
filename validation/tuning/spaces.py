"""The tuning spaces, as programs whose tiles are the points (`tracegen.cuda.TiledProgram`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rdmodel import presets
from rdmodel.gpu.device_properties import compute_capability
from rdmodel.integrations.kernel_tuner import COMPILER_OPTIONS
from tracegen.cuda import TiledProgram

Config = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Space:
    """A tuning space: the GPU that was measured, and the function that makes the program of a configuration.

    The configuration chooses the source, and is a tile of the program. A long loop is run for each of `lengths`
    iterations, and the time is extrapolated linearly to `whole` iterations; (0,) if all are run. `options` are those
    of the compiler that the program itself does not need.
    """

    name: str
    gpu: str
    make: Callable[[Path, Config, int], TiledProgram]
    lengths: tuple[int, ...] = (0,)
    whole: int = 0
    options: tuple[str, ...] = ()

    @property
    def architecture(self) -> str:
        """The architecture of the GPU, for the compiler."""
        major, minor = compute_capability(presets.gpu(self.gpu))
        return f"sm_{major}{minor}"

    def program(self, sources: Path, config: Config, length: int) -> TiledProgram:
        """Return the program of a configuration, for the GPU of the space."""
        made = self.make(sources, config, length)
        return replace(made, architecture=self.architecture, options=[*made.options, *self.options])


# ---- 2-D convolution

IMAGE, FILTER = 4096, 15

_SHARED_ELEMENT = "sh_input[ty+yi*block_size_y+i][tx+xi*block_size_x+j]"
_SUM = f"sum[yi][xi] += {_SHARED_ELEMENT} * d_filter[i*filter_width+j];"
_SUM_FROM_GLOBAL = """
#if ((image_height%(block_size_y*tile_size_y)!=0) || (image_width%(block_size_x*tile_size_x)!=0))
                    int y = by+ty+yi*block_size_y+i;
                    int x = bx+tx+xi*block_size_x+j;
                    if (y < input_height && x < input_width) {
                        sum[yi][xi] += LDG(input, y*input_width+x) * d_filter[i*filter_width+j];
                    }
#else
                    sum[yi][xi] += LDG(input, (by+ty+yi*block_size_y+i)*input_width + (bx+tx+xi*block_size_x+j))
                        * d_filter[i*filter_width+j];
#endif
"""


def _without_shared_memory(source: str) -> str:
    """Return the variant with ``use_shmem=0``, whose source is not public: it reads its input in the inner loops.

    Where tiles reach beyond the image, it checks each element, as the public variant does when it fills shared memory.
    """
    first, end = source.index("    //shared memory to hold"), source.index("    //thread-local registers")
    assert _SUM in source
    return (source[:first] + source[end:]).replace(_SUM, _SUM_FROM_GLOBAL)


_READ_ONLY = """
__device__ __forceinline__ float load_read_only(const float *address) {
    float value;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(value) : "l"(address));
    return value;
}
"""


def with_assembly(program: TiledProgram) -> TiledProgram:
    """Return a program that calls assembly in place of `__ldg`, as in the headers of nvcc 13.0."""
    assert isinstance(program.source, str)
    return replace(program, source=_READ_ONLY + program.source.replace("__ldg(", "load_read_only("))


def calls_ldg(config: Config) -> bool:
    """Return whether a point is one of the convolution whose inner loops call `__ldg`."""
    return config.get("use_shmem") == 0 and config.get("read_only") == 1


def fits_image(config: Config) -> bool:
    """Return whether the tiles of a convolution cover its image without reaching beyond it."""
    return all(IMAGE % (config[f"block_size_{axis}"] * config[f"tile_size_{axis}"]) == 0 for axis in "xy")


def convolution(sources: Path, config: Config, _length: int) -> TiledProgram:
    """Return the program of ``convolution_milo.cu``."""
    source = (sources / "convolution_milo.cu").read_text()
    if not config["use_shmem"]:
        source = _without_shared_memory(source)
    width = IMAGE + FILTER - 1
    return TiledProgram(
        source=source,
        kernel="convolution_kernel",
        grid=_grid(f"{IMAGE}", f"{IMAGE}"),
        block=("block_size_x", "block_size_y"),
        args=[f"float[{IMAGE * IMAGE}]:zeros", f"float[{width * width}]:zeros", f"float[{FILTER**2}]:zeros"],
        variables={"d_filter": np.zeros(33 * 33, np.float32)},
    )


def _grid(width: str, height: str) -> tuple[str, str]:
    """Return the grid that covers so many results with the tiles of all blocks."""
    tiles = [f"block_size_{axis} * tile_size_{axis}" for axis in "xy"]
    return f"({width} + {tiles[0]} - 1) // ({tiles[0]})", f"({height} + {tiles[1]} - 1) // ({tiles[1]})"


# ---- Dedispersion

DMS, SAMPLES, CHANNELS, MAX_SHIFT = 2048, 25000, 1536, 650
_HEADER = """
#define nr_dms 2048
#define nr_samples 25000
#define nr_channels {channels}
#define nr_samples_per_channel (nr_samples + 650)
#define dm_first 0.0f
#define dm_step 0.02f
"""


def shifts() -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the delay of each channel per dispersion measure, in samples, as the hub's script computes it."""
    frequency = 1425.0 + np.arange(CHANNELS, dtype=np.float32) * 0.1953125
    highest = 1425.0 + (CHANNELS - 1) * 0.1953125
    time_unit = SAMPLES * 0.00004096
    found = (4148.808 * (1.0 / frequency**2 - 1 / highest**2) * SAMPLES / time_unit).astype(np.float32)
    found[-1] = 0
    return found


def dedispersion(sources: Path, _config: Config, length: int) -> TiledProgram:
    """Return the program of ``dedispersion.cu`` with `length` channels, spread evenly over all."""
    source = (sources / "dedisp_milo" / "dedispersion.cu").read_text()
    return TiledProgram(
        source=source.replace('#include "dedispersion.h"', _HEADER.format(channels=length)),
        kernel="dedispersion_kernel",
        grid=_grid(f"{SAMPLES}", f"{DMS}"),
        block=("block_size_x", "block_size_y"),
        args=[
            f"uint8[{length * (SAMPLES + MAX_SHIFT) + 64}]:zeros",
            f"float[{DMS * SAMPLES}]:zeros",
            shifts()[:: CHANNELS // length][:length],
        ],
    )


# ---- CLBlast's matrix product

MATRIX = 4096
_PARTS = ("common", "xgemm_part1", "xgemm_part2", "xgemm_part3")
_POINTER = re.compile(r"__local (real[MN]\* )")
"""A parameter in OpenCL that points to local memory; CUDA knows no such pointers."""

_STRUCTURE = re.compile(r"typedef struct\b")
"""Vectors of eight and more numbers, which CUDA does not have, in the header that makes CUDA of OpenCL."""


def gemm(sources: Path, _config: Config, length: int) -> TiledProgram:
    """Return the program of CLBlast's ``Xgemm`` in CUDA, whose sums have `length` terms."""
    folder = sources / "gemm_milo"
    return _product(_header(sources) + _text(folder, (*_PARTS, "xgemm_part4")), length, (0, 0))


def gemm_of_opencl(sources: Path, _config: Config, length: int) -> TiledProgram:
    """Return the program of ``Xgemm`` as it was measured: in OpenCL.

    The sources are those of the hub's script that measured it, ``currently_unused/kernels/gemm.py``. Vectors in OpenCL
    are aligned to their size, of which CUDA's accesses use 16 bytes.
    """
    folder = sources.parent / "currently_unused" / "kernels" / "gemm"
    header = _STRUCTURE.sub("typedef struct __align__(16)", _header(sources))
    return _product(header + _text(folder, _PARTS), length, ())


def _header(sources: Path) -> str:
    return (sources / "gemm_milo" / "cl_to_cuda.h").read_text() + "\n"


def _text(folder: Path, parts: Sequence[str]) -> str:
    return _POINTER.sub(r"\1", "".join((folder / f"{part}.opencl").read_text() for part in parts))


def _product(source: str, length: int, more: Sequence[int]) -> TiledProgram:
    return TiledProgram(
        source=source,
        kernel="Xgemm",
        grid=(f"{MATRIX} // MWG", f"{MATRIX} // NWG"),
        block=("MDIMC", "NDIMC"),
        args=[
            *(MATRIX, MATRIX, length, 1.0, 1.0),
            *(f"float[{MATRIX * length}]:zeros", f"float[{MATRIX * length}]:zeros", f"float[{MATRIX * MATRIX}]:zeros"),
            *more,
        ],
    )


CUDA_SPACES = {
    "convolution": Space("convolution", "a4000", convolution),
    "dedispersion": Space("dedispersion", "a4000", dedispersion, (48, 96), CHANNELS),
    "gemm": Space("gemm", "rtx3090", gemm, (128, 256), MATRIX),
}
"""The spaces by the name of their kernel, all in CUDA."""

IN_CUDA = ("convolution", "dedispersion")
"""The spaces that others measured in CUDA, with Kernel Tuner."""

ASSEMBLED_BEFORE_LINKED = ("-rdc=true",)
"""Options with which code in CUDA becomes what a compiler for OpenCL makes of the same code."""

SPACES = {
    **{name: replace(CUDA_SPACES[name], options=COMPILER_OPTIONS["CUDA"]) for name in IN_CUDA},
    "gemm": replace(CUDA_SPACES["gemm"], make=gemm_of_opencl, options=ASSEMBLED_BEFORE_LINKED),
}
"""The same spaces, as others measured them."""
