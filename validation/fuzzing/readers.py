"""List every reader to fuzz: traces, packed files, and the other files that a user may give."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel import presets
from rdmodel.comparison import nsight
from rdmodel.errors import RdmodelError, TraceError
from rdmodel.trace import Trace, storage
from tracegen import cuda
from tracegen.affine.json_form import load_affine, to_json
from tracegen.cuda import array_arguments
from tracegen.cuda.launchfile import read_launch_file
from tracegen.formats import parquet
from tracegen.kernel_library.inputs import Sparse, read_matrix
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.emulator.textures import ADDRESSES, FILTERS, TextureOptions, make_texture
from tracegen.ptx.isa import tensor_map
from tracegen.ptx.lowering.lowering import is_reference, variable_bytes
from tracegen.ptx.lowering.textures import texture_axes
from tracegen.ptx.syntax.parser import parse
from validation.fuzzing import programs, seeds, shaping, tables
from validation.fuzzing.laws import check_equal, check_round_trip, plain, require
from validation.fuzzing.recorded import PACKED, TEXTS
from validation.fuzzing.target import SMALL, Target, Way, nothing
from validation.fuzzing.words import AFFINE, GPU, LAUNCH, MATRIX, NATIVE, NCU, PARQUET, PTX, words

# ---- Binary forms


def _check_round_trip(found: Trace, way: Way, path: Path) -> None:
    check_round_trip(found, path)


def _check_round_trips(found: Trace, way: Way, path: Path) -> None:
    """Check that a trace does not change when it is written in the native form or as Parquet, and read back."""
    check_round_trip(found, path.parent)
    again = path.with_name("again.parquet")
    again.unlink(missing_ok=True)
    parquet.write_parquet(found, again)
    check_equal(found, parquet.read_parquet(again), "written and read back")


BINARY = (
    Target(
        name="native",
        file=".",
        read=lambda path, way: storage.load(path),
        seeds=seeds.native,
        deeply=_check_round_trip,
        watched=("/rdmodel/trace/",),
        words=(*words(NATIVE), b"\x93NUMPY\1\0"),
        shapers=(shaping.column, shaping.column, shaping.json_file("meta.json"), shaping.missing),
        most=8000,
    ),
    Target(
        name="parquet",
        file="trace.parquet",
        read=lambda path, way: parquet.read_parquet(path, memory=way.memory),
        seeds=seeds.parquet,
        deeply=_check_round_trips,
        watched=("/tracegen/formats/", "/rdmodel/trace/"),
        words=words(PARQUET),
        shapers=(tables.table,),
        ways=SMALL,
        most=1 << 16,
    ),
)


# ---- Reports


def _check_launches(found: tuple[nsight.Measurement, ...]) -> None:
    """Check that launches have finite numbers, rates of 0 to 1, and a JSON form."""
    for one in found:
        require(len(one.launches) == 1, "a launch of several")
        require(plain(one.kernel), "a kernel's name with line breaks or control characters")
        require(all(abs(value) < float("inf") for value in one.metrics.values()), "no finite number")
    for one in (*found, nsight.merge_launches(found)):
        try:
            rates = [rate for rate in (one.l1_loads, one.l1, one.l2) if rate is not None]
        except TraceError as error:
            require(plain(str(error)), "a message with line breaks or control characters")
            continue
        require(all(0 <= rate.hit_rate <= 1 for rate in rates), "a hit rate beyond 0 to 1")
        json.dumps(one.to_dict(), allow_nan=False)
        require(isinstance(one.name, str), "no name")


# ---- Programs

POINTER = 8
"""Bytes of a pointer."""

ARRAY_BYTES = 1 << 14
"""Bytes of an array that a kernel gets."""


def _check_affine_round_trip(found: Any, way: Way, path: Path) -> None:
    again = load_affine(json.loads(json.dumps(to_json(found))))
    require(to_json(again) == to_json(found), "written and read back: another kernel")


def _ptx(path: Path, way: Way) -> Any:
    """Parse a module, and execute a block of each of its kernels, with and without values; errors are results.

    Parameters of the size of a pointer have small arrays, which are textures if the kernel reads any. Those of the size
    of a tensor map describe the first array.
    """
    module = parse(path.read_bytes().decode("utf-8", "replace"), path.name)
    for kernel in module.kernels[:4]:
        for values in (True, False):
            with suppress(RdmodelError):
                machine = LoadedModule(module)
                arguments = _arguments(machine, kernel)
                _bind_textures(machine, kernel)
                launched = machine.launch(
                    *(kernel, 2, 64, arguments),
                    shared=1024,
                    cluster=None if values else 2,
                    max_instructions=2000,
                    values=values,
                )
                require(all("\n" not in note for note in launched.notes), "a note of several lines")
                launched.run(1)
    return module


def _arguments(machine: LoadedModule, kernel: str) -> list[Any]:
    """Return small arrays of numbers, maps of the first of them as a matrix or as images, and zeros."""
    arguments: list[Any] = []
    for parameter in machine.module.functions[kernel].parameters:
        size = variable_bytes(parameter)
        if size == POINTER:
            arguments.append(machine.allocate(np.arange(ARRAY_BYTES // 4, dtype=np.uint32), "x"))
        elif size == tensor_map.BYTES and machine.memory.buffers:
            arguments.append(_tensor_map(parameter.name, machine.memory.buffers[0].base))
        else:
            arguments.append(bytes(size))
    return arguments


def _tensor_map(name: str, base: int) -> bytes:
    """Return a map of pixels for the parameter ``pixels``; one of boxes for others, with a swizzle that fits rows."""
    if name == "pixels":
        corners: dict[str, Any] = {"lower": (-1,), "upper": (-1,), "channels": 4, "pixels": 8}
        return tensor_map.pixel_map(base, "u32", shape=(3, 6, 8), strides=(192, 32), **corners)
    return tensor_map.tensor_map(base, "u32", shape=(32, 32), strides=(128,), box=(1, 32), swizzle=128)


def _bind_textures(machine: LoadedModule, kernel: str) -> None:
    """Let the arrays and the references be textures of the shapes that a kernel reads."""
    for at, axes in enumerate(texture_axes(machine.program(kernel)).values()):
        options = TextureOptions(filter=FILTERS[at % 2], address=list(ADDRESSES)[at % 4], normalized=at % 3 == 0)
        texture = make_texture("x", np.zeros((8,) * max(axes), np.float32), axes, options)
        buffer = machine.allocate(texture.content, "x")
        machine.bind_texture(texture, buffer)
        for name, variable in machine.module.variables.items():
            if is_reference(variable) and variable.space in ("global", "const"):
                machine.bind_texture(texture, buffer, name)
        for array in [b for b in machine.memory.buffers if b.name == "x"]:
            machine.bind_texture(texture, array)


def _launch(path: Path, way: Way) -> Any:
    """Read a launch file; if its source is PTX, prepare all launches, and execute a block of the first one."""
    array_arguments.MAX_ARRAY_BYTES = 1 << 20  # a file may ask for any amount of memory below the limit
    file = read_launch_file(path)
    if file.source.suffix == ".ptx":
        with suppress(RdmodelError):
            trace = next(cuda.launches(path, max_instructions=2000))
            require(all("\n" not in note for note in trace.notes), "a note of several lines")
            trace.block(0)
    return file


# ---- Data of kernels


def _check_matrix(found: Sparse) -> None:
    """Check that a matrix has a valid CSR form."""
    require(found.rows[0] == 0 and found.rows[-1] == len(found.columns), "rows that do not cover the entries")
    require(bool((np.diff(found.rows) >= 0).all()), "rows that descend")
    require(len(found.values) == len(found.columns) > 0, "not one value per entry")
    require(int(found.columns.min()) >= 0 and int(found.columns.max()) < found.width, "a column outside the matrix")


def _check_array(found: NDArray[Any]) -> None:
    require(found.dtype.kind in "biuf" and found.dtype.isnative, "numbers of a foreign type")
    require(found.size > 0 and found.flags.c_contiguous and found.flags.writeable, "no array of its own")


def _check_same_values(found: NDArray[Any], way: Way, path: Path) -> None:
    np.save(path, found)
    again = array_arguments.read_array("x", path, None, None)
    require(again.tobytes() == found.tobytes(), "written and read back: other values")


OTHERS = (
    Target(
        name="matrix",
        file="a.mtx",
        read=lambda path, way: read_matrix(path),
        seeds=seeds.matrices,
        check=_check_matrix,
        watched=("/tracegen/matrix_market.py", "/tracegen/kernel_library/inputs.py"),
        words=words(MATRIX),
        shapers=(shaping.entries,),
    ),
    Target(
        name="npy",
        file="a.npy",
        read=lambda path, way: array_arguments.read_array("x", path, None, None),
        seeds=seeds.arrays,
        check=_check_array,
        deeply=_check_same_values,
        watched=("/tracegen/cuda/npy_arguments.py", "/tracegen/cuda/array_arguments.py", "/rdmodel/trace/npy.py"),
        words=(*words(NATIVE), b"\x93NUMPY\1\0"),
        shapers=(shaping.column,),
        most=8000,
    ),
    Target(
        name="ncu",
        file="report.csv",
        read=lambda path, way: nsight.read_ncu(path),
        seeds=seeds.ncu,
        check=_check_launches,
        watched=("/rdmodel/comparison/nsight.py",),
        words=words(NCU),
        most=8000,
    ),
    Target(
        name="affine",
        file="kernel.json",
        read=lambda path, way: load_affine(path),
        seeds=seeds.affine,
        check=nothing,
        deeply=_check_affine_round_trip,
        watched=("/tracegen/affine/",),
        words=words(AFFINE),
        shapers=(shaping.json_file("kernel.json"),),
        most=8000,
    ),
    Target(
        name="ptx",
        file="kernel.ptx",
        read=_ptx,
        seeds=seeds.ptx,
        check=nothing,
        watched=("/tracegen/ptx/",),
        words=words(PTX),
        shapers=(programs.instructions("kernel.ptx"),),
    ),
    Target(
        name="launch",
        file="launch.toml",
        read=_launch,
        seeds=seeds.launch,
        check=nothing,
        watched=("/tracegen/cuda/",),
        words=words(LAUNCH),
        shapers=(programs.settings("launch.toml"),),
        most=8000,
    ),
    Target(
        name="gpu",
        file="gpu.toml",
        read=lambda path, way: presets.load(path),
        seeds=seeds.gpu,
        check=nothing,
        watched=("/rdmodel/gpu/", "/rdmodel/presets/"),
        words=words(GPU),
        most=8000,
    ),
)

TARGETS = {target.name: target for target in (*TEXTS, *PACKED, *BINARY, *OTHERS)}
"""Every reader by name."""
