"""Trace kernels of Triton: compile a ``@triton.jit`` function to PTX without a GPU, and execute the PTX."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.integrations.host_memory import HandedOut, find_memory, translate_address
from rdmodel.integrations.ptx_launch import PtxLaunch, target_capability
from rdmodel.integrations.torch_on_cpu import device_of
from rdmodel.trace import WARP, Trace

_TYPES = {
    "float16": "fp16", "float32": "fp32", "float64": "fp64", "bfloat16": "bf16", "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "i1",
}  # fmt: skip
"""Triton's types by the names of NumPy and torch."""

_OWN_TYPES = frozenset({*_TYPES.values(), "fp8e4b15", "fp8e4b8", "fp8e5b16"})
"""Triton's types by its own names, which objects have that wrap tensors."""

_POINTING = ("*i64", "*u64", "i64", "u64")
"""Types of arrays and of numbers that may be addresses."""

_ALIGNMENT = 16
"""Numbers and addresses that it divides are marked for the compiler, in bytes for addresses."""

PreHook = Callable[[dict[str, Any]], Any]
"""A function that prepares the arguments of a launch by name, such as the ``pre_hook`` of a ``triton.Config``."""

Grid = int | Sequence[int] | Callable[[Mapping[str, Any]], int | Sequence[int]]


def trace(
    kernel: Any,
    grid: Grid,
    *args: Any,
    architecture: str = "sm_80",
    blocks: Sequence[int] | None = None,
    memory: Sequence[Any] = (),
    **meta: Any,
) -> Trace:
    """Trace a launch ``kernel[grid](*args, **meta)`` of a ``@triton.jit`` or ``@gluon.jit`` function; no GPU is needed.

    The arguments are specialised as Triton does it: whole numbers that are 1 are constants, those that 16 divides are
    marked, and so are arrays that begin at multiples of 16 bytes; memory begins at multiples of 256 bytes here, and a
    view where it begins in the memory of its array. The arrays do not change.

    Parameters
    ----------
    kernel
        The function. Of an autotuned one, `meta` has the values of one configuration; heuristics are evaluated.
    grid
        Programs of the grid along x, y and z, or a function of the arguments by name that returns them.
    args, meta
        NumPy arrays or torch tensors on the CPU, descriptors of such tensors
        (``triton.tools.tensor_descriptor.TensorDescriptor``), numbers, Booleans and None; in `meta` also values of
        ``tl.constexpr`` parameters, and the options of the compiler, such as ``num_warps``, ``num_stages``,
        ``num_ctas`` and ``maxnreg``.
    architecture
        Target of the compiler, such as ``sm_90``.
    blocks
        Ids of the blocks in the trace (None: all).
    memory
        Further arrays, to which addresses in the arguments of type int64 or uint64 point.

    Raises
    ------
    ConfigError
        If an argument is missing, unknown or of a type that a kernel does not take, or if the kernel does not compile.
    LaunchError
        If the launch does not fit the kernel.
    TraceError
        If the PTX cannot be executed.
    """
    return trace_launch(compile_launch(kernel, args, meta, architecture), grid, blocks, memory)


def trace_keywords(
    kernel: Any, grid: Grid, keywords: Mapping[str, Any], architecture: str, pre_hook: PreHook | None = None
) -> Trace:
    """Trace a launch whose arguments are all `keywords`, as Triton's autotuner names them.

    Keywords that the kernel has no parameters for are left out. Arrays on a GPU are copied to the CPU. `pre_hook` may
    change the keywords and their descriptors, which are copies, before the launch.
    """
    if pre_hook is not None:
        keywords = {
            name: dataclasses.replace(value) if _is_descriptor(value) else value for name, value in keywords.items()
        }
        pre_hook(keywords)
    names, options = {parameter.name for parameter in _function(kernel).params}, compiler_options()
    known = {
        name: value for name, value in keywords.items() if name in names or (name in options and value is not None)
    }
    on_cpu = {name: _copy_to_cpu(value) for name, value in known.items()}
    return trace(kernel, grid, architecture=architecture, **on_cpu)


def is_triton_kernel(kernel: Any) -> bool:
    """Return whether an object is a ``@triton.jit`` function, or one with decorators for tuning."""
    while not hasattr(kernel, "params") and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return hasattr(kernel, "params") and hasattr(kernel, "fn")


def _copy_to_cpu(value: Any) -> Any:
    if _is_descriptor(value):
        return dataclasses.replace(value, base=_copy_to_cpu(value.base))
    on_gpu = hasattr(value, "data_ptr") and device_of(value) != "cpu"
    return value.cpu() if on_gpu else value


# ---- arguments


def compiler_options() -> tuple[str, ...]:
    """Return the keywords of a launch that are options of the compiler."""
    try:
        from triton.backends.nvidia.compiler import CUDAOptions
    except ImportError:
        return ()
    return tuple(option.name for option in dataclasses.fields(CUDAOptions))


def _function(kernel: Any) -> Any:
    """Return the function under the decorators of a kernel."""
    while not hasattr(kernel, "params"):
        kernel = kernel.fn
    return kernel


def _bind(kernel: Any, args: Sequence[Any], meta: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the function under its decorators, and a value for each of its parameters."""
    heuristics: dict[str, Callable[[Mapping[str, Any]], Any]] = {}
    function = kernel
    while not hasattr(function, "params"):
        heuristics |= getattr(function, "values", {}) if hasattr(function, "fn") else {}
        function = getattr(function, "fn", None)
        if function is None:
            raise ConfigError(f"kernel={kernel!r:.60}: must be a function with @triton.jit")
    names, options = [parameter.name for parameter in function.params], compiler_options()
    title = function.__name__
    if len(args) > len(names):
        raise ConfigError(f"{title}: {len(args)} arguments, but it has {len(names)} parameters")
    values = dict(zip(names, args, strict=False))
    for name, value in meta.items():
        if name in values:
            raise ConfigError(f"{title}: {name} is given twice")
        if name not in names and name not in options:
            raise ConfigError(f"{title}: unknown argument {name}: must be one of {', '.join((*names, *options))}")
        if name in names:
            values[name] = value
    for name, heuristic in heuristics.items():
        values[name] = heuristic(values)
    for parameter in function.params:
        if parameter.name not in values and parameter.has_default:
            values[parameter.name] = parameter.default
    missing = [name for name in names if name not in values]
    if missing:
        raise ConfigError(f"{title}: missing argument {', '.join(missing)}")
    return function, {name: values[name] for name in names}


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or hasattr(value, "data_ptr")


def _is_descriptor(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("base", "shape", "strides", "block_shape"))


def _element(name: str, value: Any) -> str:
    """Return the type of an array's elements in Triton's notation."""
    given = str(value.dtype).removeprefix("torch.")
    kind = _TYPES.get(given, given if given in _OWN_TYPES else None)
    if kind is None:
        raise ConfigError(f"{name}: elements of type {value.dtype}: must be one of {', '.join(_TYPES)}")
    return kind


def _signature(name: str, parameter: Any, value: Any) -> tuple[str, bool]:
    """Return the type of a parameter in Triton's notation ("constexpr": a constant), and whether 16 divides it."""
    if parameter.is_constexpr or value is None:
        return "constexpr", False
    if _is_array(value):
        return f"*{_element(name, value)}", find_memory(name, value).offset % _ALIGNMENT == 0
    if _is_descriptor(value):
        shape, layout = [int(size) for size in value.block_shape], getattr(value, "layout", None)
        of_gluon = "" if layout is None else f",{layout!r}"
        return f"tensordesc<{_element(name, value.base)}{shape}{of_gluon}>", False
    if isinstance(value, bool | np.bool_):
        return "u1", False
    if isinstance(value, int | np.integer):
        number, declared = int(value), parameter.annotation_type
        if number == 1 and not parameter.do_not_specialize and not declared:
            return "constexpr", False
        if not -(1 << 63) <= number < 1 << 64:
            raise ConfigError(f"{name}={number}: must fit 64 bits")
        kind = "i32" if -(1 << 31) <= number < 1 << 31 else ("i64" if number < 1 << 63 else "u64")
        special = not (parameter.do_not_specialize or parameter.do_not_specialize_on_alignment)
        return declared or kind, special and number % _ALIGNMENT == 0
    if isinstance(value, float | np.floating):
        return parameter.annotation_type or "fp32", False
    raise ConfigError(
        f"{name}={value!r:.60}: must be a NumPy array, a tensor on the CPU, a descriptor of one, a number, a Boolean "
        "or None"
    )


# ---- compilation and launch


@dataclass(frozen=True, slots=True)
class CompiledLaunch:
    """A function with the values of its parameters, and Triton's program for them.

    `signature` has the types of the parameters in Triton's notation.
    """

    function: Any
    values: dict[str, Any]
    program: Any
    signature: dict[str, str]


def compile_launch(kernel: Any, args: Sequence[Any], meta: Mapping[str, Any], architecture: str) -> CompiledLaunch:
    """Bind the arguments of a launch, and compile the kernel for them; raise `ConfigError` as `trace` does."""
    function, values = _bind(kernel, args, meta)
    options = {key: meta[key] for key in compiler_options() if key in meta}
    try:
        import triton
        from triton.backends.compiler import GPUTarget
    except ImportError as error:
        raise ConfigError(f"triton: cannot be imported ({error}): install it with 'rdmodel[triton]'") from None
    major, minor = target_capability(architecture)
    signature, constants, attributes = {}, {}, {}
    for at, parameter in enumerate(function.params):
        value = values[parameter.name]
        signature[parameter.name], aligned = _signature(parameter.name, parameter, value)
        if signature[parameter.name] == "constexpr":
            constants[at,] = value
        elif aligned:
            attributes[at,] = [["tt.divisibility", _ALIGNMENT]]
    source = _source_class(function)(fn=function, signature=signature, constexprs=constants, attrs=attributes)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about defaults of the compiler
            program = triton.compile(source, target=GPUTarget("cuda", 10 * major + minor, WARP), options=options)
    except Exception as error:  # the compiler has many errors, and each is about the kernel
        text = " ".join(str(error).split())
        raise ConfigError(f"{function.__name__}: Triton cannot compile it for {architecture}: {text[-400:]}") from error
    return CompiledLaunch(function, values, program, signature)


def _source_class(function: Any) -> Any:
    """Return Triton's class for the source of a function, which may be one of Gluon."""
    if getattr(function, "is_gluon", bool)():
        from triton.experimental.gluon._runtime import GluonASTSource

        return GluonASTSource
    from triton.compiler import ASTSource

    return ASTSource


def evaluate_grid(compiled: CompiledLaunch, grid: Grid) -> tuple[int, ...]:
    """Return the programs along each dimension; a function may also fill and replace arguments of the launch."""
    given = grid(compiled.values) if callable(grid) else grid
    return tuple(given) if isinstance(given, Sequence) else (given,)


def trace_launch(
    compiled: CompiledLaunch,
    grid: Grid,
    blocks: Sequence[int] | None = None,
    memory: Sequence[Any] = (),
    *,
    handed_out: HandedOut | None = None,
    **outside: Any,
) -> Trace:
    """Place the arguments of a compiled launch in memory, and return its trace; see `trace`.

    Addresses in arguments may also point to what is `handed_out`. `outside` are the options of `PtxLaunch` about
    addresses outside the arrays.
    """
    launch, shape = _prepare(compiled, grid, memory, handed_out, outside)
    metadata = compiled.program.metadata
    return launch.trace(shape, WARP * metadata.num_warps, shared=metadata.shared, blocks=blocks)


def execute_launch(compiled: CompiledLaunch, grid: Grid, *, handed_out: HandedOut, **outside: Any) -> None:
    """Execute a compiled launch; its arrays then hold the results. Raises `TraceError` for results that are not."""
    launch, shape = _prepare(compiled, grid, (), handed_out, outside)
    metadata = compiled.program.metadata
    launch.execute(shape, WARP * metadata.num_warps, shared=metadata.shared)


def _prepare(
    compiled: CompiledLaunch,
    grid: Grid,
    memory: Sequence[Any],
    handed_out: HandedOut | None,
    outside: Mapping[str, Any],
) -> tuple[PtxLaunch, tuple[int, ...]]:
    """Return a launch with all its parameters, and its grid."""
    title, program, values = compiled.function.__name__, compiled.program, compiled.values
    metadata = program.metadata
    launch = PtxLaunch(program.asm["ptx"], title, metadata.name, **outside)
    shape = evaluate_grid(compiled, grid)
    pointing = [values[name] for name, kind in compiled.signature.items() if kind in _POINTING]
    spans = _place_targets(launch, memory, pointing, handed_out)
    descriptors = iter(getattr(metadata, "tensordesc_meta", None) or ())
    for name, kind in compiled.signature.items():
        value = values[name]
        if kind.startswith("*"):
            launch.add(launch.address(name, value, spans if kind in _POINTING else ()))
        elif kind.startswith("tensordesc"):
            launch.add(*_descriptor_parameters(name, value, next(descriptors, None), launch))
        elif kind in _POINTING:
            launch.add(translate_address(int(value), spans))
        elif kind != "constexpr":
            launch.add(float(value) if isinstance(value, float | np.floating) else int(value))
    programs = int(np.prod(shape, dtype=object)) if all(isinstance(n, int | np.integer) for n in shape) else 1
    if shape and isinstance(shape[0], int | np.integer):  # a program is a cluster of as many blocks
        shape = (int(shape[0]) * metadata.num_ctas, *shape[1:])
    scratch = {"global_scratch": getattr(metadata, "global_scratch_size", 0) or 0}
    scratch["profile_scratch"] = getattr(metadata, "profile_scratch_size", 0) or 0
    for name, size in list(scratch.items())[: launch.parameters_left]:
        content = np.zeros(max(1, size * programs), np.uint8)
        launch.add(launch.address(name, content, private=name == "global_scratch"))
    return launch, shape


def _place_targets(
    launch: PtxLaunch, memory: Sequence[Any], pointing: Sequence[Any], handed_out: HandedOut | None
) -> list[tuple[int, int, int]]:
    """Place arrays to which addresses in arguments point; return their addresses here, bytes, and addresses there."""
    targets = [(f"memory[{i}]", array) for i, array in enumerate(memory)]
    if handed_out is not None:
        targets += [(f"address[{i}]", array) for i, array in enumerate(handed_out.targets(pointing))]
    spans = []
    for name, array in targets:
        found, there = find_memory(name, array), launch.address(name, array)
        spans.append((found.address, found.bytes, there - found.offset))
    return spans


def _descriptor_parameters(
    name: str, descriptor: Any, made: Mapping[str, Any] | None, launch: PtxLaunch
) -> list[int | bytes]:
    """Return the parameters that a descriptor becomes; `made` says which tensor map, or None where there are none."""
    from tracegen.ptx.isa.tensor_map import SWIZZLES, TENSOR_TYPES, tensor_map

    address = launch.address(name, descriptor.base)
    shape, strides = ([int(size) for size in sizes] for sizes in (descriptor.shape, descriptor.strides))
    padded, rounded = descriptor.padding == "nan", bool(getattr(descriptor, "round_f32_to_tf32", False))
    if made is None:
        return [address, *shape, *strides, int(padded), int(rounded), *shape, *strides]
    if made.get("is_im2col") or made["fp4_padded"] or made["elem_type"] >= len(TENSOR_TYPES):
        raise ConfigError(f"{name}: descriptors for im2col and for padded elements of 4 bits are not supported")
    try:
        encoded = tensor_map(
            address,
            "tf32" if rounded else TENSOR_TYPES[made["elem_type"]],
            shape=shape,
            strides=[stride * made["elem_size"] for stride in strides[:-1]],
            box=made["block_size"],
            swizzle=SWIZZLES[made["swizzle"]],
            nan=padded,
        )
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    return [encoded, *shape, *strides]
