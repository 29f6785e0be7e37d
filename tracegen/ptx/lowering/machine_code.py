"""Estimate the machine instructions of each PTX instruction, by class, and the arithmetic of its threads.

Most PTX instructions become one machine instruction. GPUs have no instruction for some: 64-bit integers take one for
each half, divisions and exact square roots take a reciprocal and steps of Newton's method, and integer division takes
about 20 (CUDA programming guide, "Arithmetic instructions"). The numbers here are those of `ptxas` for recent GPUs,
without the branches for rare operands. Functions that keep subnormal numbers scale their operands before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from rdmodel.common.late_dataclass import dataclass
from rdmodel.trace.work import MATRIX_TYPES
from tracegen.ptx.syntax.ast import Address, Instruction, Register, Vector

Classes = Mapping[str, int]
"""Machine instructions by class (`rdmodel.trace.work.ARITHMETIC_CLASSES`)."""


@dataclass(frozen=True, slots=True)
class MachineCode:
    """The machine code of one PTX instruction.

    `classes` are machine instructions per warp, without those that access memory. `operations` are arithmetic per
    thread (`rdmodel.trace.work.OPERATIONS`). `matrix_type` (`rdmodel.trace.work.MATRIX_TYPES`) and
    `matrix_flops` are the type and the operations per warp of a matrix product, which reads `matrix_bytes` of its
    factors from shared memory. `latency` is the class whose latency the results have, if it is not the `slowest` of
    its own.
    """

    classes: Classes = field(default_factory=dict)
    operations: Classes = field(default_factory=dict)
    matrix_type: str = ""
    matrix_flops: int = 0
    matrix_bytes: int = 0
    latency: str = ""

    @property
    def slowest(self) -> str:
        """The class whose latency the results have: that of most instructions; empty if there are none."""
        return self.latency or max(self.classes, key=lambda name: self.classes[name], default="")


_NOTHING = MachineCode()

_ONE_INTEGER = frozenset(
    {
        "add", "addc", "sub", "subc", "min", "max", "and", "or", "xor", "not", "cnot", "shl", "shr", "sad", "bfe",
        "bfi", "bmsk", "szext", "shf", "prmt", "lop3", "setp", "set", "selp", "slct", "mul24", "mad24", "dp2a", "dp4a",
        "abs", "neg", "vote", "elect", "testp", "isspacep",
    }
)  # fmt: skip
"""Opcodes that become one instruction for integers of 32 bits, and two for 64 bits."""

_MULTIPLICATIONS = {
    ("lo", 32): 1, ("hi", 32): 1, ("wide", 16): 1, ("lo", 16): 1, ("wide", 32): 1, ("lo", 64): 3, ("hi", 64): 8,
}  # fmt: skip
"""Integer instructions of ``mul`` and ``mad``, by part of the product and width of the factors."""

_SPECIAL_INTEGERS = frozenset({"popc", "clz", "bfind", "brev", "match", "redux"})
"""Integer opcodes that run at the rate of special functions."""

_SPECIAL_FLOATS = frozenset({"rsqrt", "ex2", "lg2", "sin", "cos", "tanh"})

_FUNCTIONS: dict[tuple[str, str, bool], Classes] = {
    ("div", "f32", True): {"special": 1, "fp32": 1},
    ("div", "f32", False): {"special": 1, "fp32": 8, "branch": 1},
    ("rcp", "f32", True): {"special": 1},
    ("rcp", "f32", False): {"special": 1, "fp32": 2, "int": 2, "branch": 1},
    ("sqrt", "f32", True): {"special": 1, "fp32": 1},
    ("sqrt", "f32", False): {"special": 1, "fp32": 5, "int": 2, "branch": 1},
    ("div", "f64", False): {"special": 1, "fp64": 8, "int": 3, "branch": 1},
    ("rcp", "f64", False): {"special": 1, "fp64": 6, "int": 3, "branch": 1},
    ("rcp", "f64", True): {"special": 1},
    ("sqrt", "f64", False): {"special": 1, "fp64": 8, "int": 3, "branch": 1},
    ("rsqrt", "f64", True): {"special": 1, "fp64": 6, "int": 3},
    ("div", "int32", False): {"special": 1, "conversion": 2, "int": 16},
    ("rem", "int32", False): {"special": 1, "conversion": 2, "int": 16},
    ("div", "int64", False): {"special": 1, "conversion_64": 2, "int": 70},
    ("rem", "int64", False): {"special": 1, "conversion_64": 2, "int": 70},
}
"""Machine instructions of functions by opcode, type, and whether they are approximate."""

_PRECISIONS = {"f32": "fp32", "f64": "fp64", "f16": "fp16", "bf16": "fp16", "f16x2": "fp16", "bf16x2": "fp16"}
_OPERATIONS = {
    "add": "add", "sub": "add", "mul": "mul", "fma": "fma", "mad": "fma", "div": "other", "sqrt": "other",
}  # fmt: skip

_PACKED = ("f16x2", "bf16x2", "f32x2")

_HALVES = ("f16", "bf16", "f16x2", "bf16x2")

_PACKED_FORMATS = ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2", "ue8m0x2", "e4m3x4", "e5m2x4", "tf32")
"""Formats to and from which packed conversions lead."""

_FAST_INTEGERS = ("s32", "u32", "u16", "u8")
"""Integers whose conversion to single precision later GPUs leave to the units for integers."""


def machine_code(instruction: Instruction, descriptor: int | None = None) -> MachineCode:
    """Return the machine instructions of a PTX instruction, except for its accesses to memory.

    `descriptor` is the operand that has the shape of a product of ``tcgen05``, if it is known.
    """
    if instruction.opcode == "tcgen05" and instruction.modifiers[0] == "mma" and descriptor is not None:
        return _tensor_product(instruction, descriptor)
    rule = _RULES.get(instruction.opcode)
    return _NOTHING if rule is None else rule(instruction)


def _type_of(instruction: Instruction) -> tuple[str, int]:
    """Return the kind (``int``, or a floating-point type as written) and the bits of the last type."""
    for modifier in reversed(instruction.modifiers):
        if modifier in _PRECISIONS or modifier == "f32x2":
            return modifier, int("".join(c for c in modifier.split("x")[0] if c.isdigit()))
        if modifier[:1] in "busp" and (modifier[1:].isdecimal() or modifier == "pred"):
            return "int", int(modifier[1:]) if modifier[1:].isdecimal() else 1
    return "int", 32


def _integers(count: int) -> MachineCode:
    return MachineCode({"int": count}, {"int": count})


def _arithmetic(instruction: Instruction) -> MachineCode:
    kind, bits = _type_of(instruction)
    opcode = instruction.opcode
    if kind == "int":
        return _integer_arithmetic(instruction, opcode, bits)
    precision = _PRECISIONS.get(kind, "fp32")
    approximate = "approx" in instruction.modifiers or "full" in instruction.modifiers
    operation = _OPERATIONS.get(opcode)
    operations = {f"{precision}_{operation}": 2 if kind in _PACKED else 1} if operation else {}
    function = _FUNCTIONS.get((opcode, kind, approximate))
    if function is not None:
        return MachineCode(function, operations)
    if opcode in _SPECIAL_FLOATS:
        if opcode in ("sin", "cos"):
            return MachineCode({"special": 1, "fp32": 1})
        scaled = opcode != "tanh" and "ftz" not in instruction.modifiers and precision == "fp32"
        return MachineCode({"special": 1, "fp32": 2, "int": 1} if scaled else {"special": 1})
    if opcode in ("abs", "neg"):
        return _NOTHING  # signs are parts of the operands of other instructions
    if operation is None:
        return MachineCode({"int" if precision == "fp32" else precision: 1})
    return MachineCode({"packed_fp32" if kind == "f32x2" else precision: 1}, operations)


def _integer_arithmetic(instruction: Instruction, opcode: str, bits: int) -> MachineCode:
    halves = 2 if bits == 64 else 1
    if opcode in ("mul", "mad", "madc"):
        part = next((m for m in instruction.modifiers if m in ("lo", "hi", "wide")), "lo")
        return _integers(_MULTIPLICATIONS.get((part, bits), 1))
    if opcode in ("div", "rem"):
        classes = _FUNCTIONS[opcode, "int64" if bits == 64 else "int32", False]
        return MachineCode(classes, {"int": classes["int"]})
    if opcode in _SPECIAL_INTEGERS:
        return MachineCode({"special": halves}, {"int": halves})
    return _integers(halves) if opcode in _ONE_INTEGER else MachineCode({"other": 1})


def _comparison(instruction: Instruction) -> MachineCode:
    """Return the code of comparisons and selections: units of fp64 and fp16 compare their own numbers."""
    kind, bits = _type_of(instruction)
    if instruction.opcode in ("setp", "set") and _PRECISIONS.get(kind) in ("fp64", "fp16"):
        return MachineCode({_PRECISIONS[kind]: 1})
    return _integers(2 if bits == 64 else 1) if kind == "int" else MachineCode({"int": 2 if bits == 64 else 1})


def _conversion(instruction: Instruction) -> MachineCode:
    """Return the code of ``cvt``: what ``ptxas`` 13.5 makes of it for compute capability 7.5 to 12.0.

    Classes of their own have the conversions that later GPUs leave to other units than earlier ones:
    I2FP (``int_to_fp32``), F2FP (``pack_fp16``) and HADD2.F32 (``fp16_to_fp32``). So have those from and to 64 bits
    (``conversion_64``), of which GPUs with few units for double precision make few per cycle.
    """
    modifiers = set(instruction.modifiers)
    types = [m for m in instruction.modifiers if m in _PRECISIONS or m in _PACKED_FORMATS or _is_integer(m)]
    to, source = types[-2:] if len(types) >= 2 else ("", "")
    if _is_integer(to) and _is_integer(source):
        return _integer_conversion(to, source, "sat" in modifiers)
    if to == "f32" and source in _FAST_INTEGERS and not modifiers & {"rm", "rp"}:
        return MachineCode({"int_to_fp32": 1})
    if to == "tf32" and "rna" in modifiers:
        return MachineCode({"int": 3})  # the magnitude is rounded as an integer
    if to in _PACKED_FORMATS or source in _PACKED_FORMATS or (to in _HALVES and source == "f32"):
        return MachineCode({"pack_fp16": 1})
    if (to, source) == ("f32", "f16"):
        return MachineCode({"fp16_to_fp32": 1})
    if (to, source) == ("f32", "bf16"):
        return MachineCode({"int": 1})  # a shift
    if (to, source) == ("f32", "f32") and not modifiers & {"rni", "rzi", "rmi", "rpi"}:
        return MachineCode({"fp32": 1})
    return MachineCode({"conversion_64" if "64" in (to[1:], source[1:]) else "conversion": 1})


def _is_integer(name: str) -> bool:
    return name[:1] in "bus" and name[1:].isdecimal()


def _integer_conversion(to: str, source: str, saturates: bool) -> MachineCode:
    new, old = int(to[1:]), int(source[1:])
    if saturates and source[0] == "s":
        return MachineCode({"conversion": 1})
    if new > old and (source[0] == "s" or old < 32):
        return _integers(1)
    return _NOTHING if new in (32, 64) and not saturates else _integers(1)


def _move(instruction: Instruction) -> MachineCode:
    """Return the code of ``mov``: register allocation removes copies, and constants are parts of other instructions."""
    source = instruction.operands[-1]
    if isinstance(source, Register) and source.name.split(".")[0] in _READ_BY_INSTRUCTION:
        return MachineCode({"other": 1})
    return _NOTHING


_READ_BY_INSTRUCTION = frozenset(
    {"%tid", "%ctaid", "%laneid", "%warpid", "%smid", "%nsmid", "%gridid", "%clock", "%clock_hi", "%clock64"}
    | {"%globaltimer", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt"}
    | {"%cluster_ctaid", "%cluster_ctarank"}
)
"""Special registers that an instruction reads; sizes of the launch are constants, which need none."""

_MATRIX_TYPES = {
    "f16": "fp16", "bf16": "bf16", "tf32": "tf32", "f64": "fp64", "e4m3": "fp8", "e5m2": "fp8", "e3m2": "fp6",
    "e2m3": "fp6", "e2m1": "fp4", "s8": "int8", "u8": "int8", "s4": "int4", "u4": "int4", "b1": "binary",
}  # fmt: skip

_ACCUMULATORS = ("f32", "s32")
_WARPS_PER_GROUP = 4


def _product(instruction: Instruction) -> MachineCode:
    modifiers = instruction.modifiers
    shape = next((m for m in modifiers if m[0] == "m" and m[1:2].isdecimal() and "n" in m and "k" in m), None)
    types = [m for m in modifiers if m in _MATRIX_TYPES or m in _ACCUMULATORS]  # result, factors, summand
    if shape is None or not types or (instruction.opcode == "wmma" and modifiers[0] != "mma"):
        return _NOTHING
    factors = types[1] if len(types) > 2 else "f16"
    m, n, k = map(int, shape[1:].replace("n", " ").replace("k", " ").split())
    flops, size = 2 * m * n * k, 0
    type = _MATRIX_TYPES.get(factors, "fp16")
    if instruction.opcode == "wgmma":
        # The group reads the second factor from shared memory, and the first one, unless it is in registers.
        in_registers = isinstance(instruction.operands[1], Vector)
        size = _bytes_of(n * k if in_registers else (m + n) * k, type) // _WARPS_PER_GROUP
        flops //= _WARPS_PER_GROUP
    elif shape == "m8n8k4" and factors == "f16":
        flops *= 4  # each quarter of the warp computes a product of its own
    # ptxas makes HMMA.F16 of a product whose result and summand are both in half precision, and else HMMA.F32.
    summand = types[0] if instruction.opcode == "wgmma" else types[-1]
    return MachineCode({"matrix": 1}, {}, _with_sums(type, types[0] == summand == "f16"), flops, size)


def _with_sums(factors: str, half: bool) -> str:
    """Return the type of a product, with sums in half precision or not."""
    return name if half and (name := f"{factors}_fp16") in MATRIX_TYPES else factors


_FACTOR_BITS = {"fp16": 16, "bf16": 16, "tf32": 32, "fp64": 64, "fp8": 8, "fp6": 8, "fp4": 4, "int8": 8, "int4": 4}
"""Bits that a factor takes in shared memory, by type."""


def _bytes_of(factors: int, type: str) -> int:
    return factors * _FACTOR_BITS.get(type, 1) // 8


_TENSOR_KINDS = {
    "f16": ("fp16", 16), "tf32": ("tf32", 8), "i8": ("int8", 32), "f8f6f4": ("fp8", 32), "mxf8f6f4": ("fp8", 32),
    "mxf4": ("fp4", 64), "mxf4nvf4": ("fp4", 64),
}  # fmt: skip
"""Type of the factors and their common extent, by the kind of a product of ``tcgen05``."""


def _tensor_product(instruction: Instruction, descriptor: int) -> MachineCode:
    """Return the code of ``tcgen05.mma``, which one thread issues for its block, or for a pair of blocks.

    Bits of the instruction descriptor (PTX ISA, "Instruction descriptor"): the format of the sums (0: half precision)
    from 4 on unless the factors have scales, that of A (1: bfloat16) from 7 on, N / 8 from 17 on, M / 16 from 24 on.
    """
    kind = next((m.removeprefix("kind::") for m in instruction.modifiers if m.startswith("kind::")), "")
    if kind not in _TENSOR_KINDS:
        return MachineCode({"other": 1})
    factors, k = _TENSOR_KINDS[kind]
    if kind == "f16" and descriptor >> 7 & 7 == 1:
        factors = "bf16"
    half = kind in ("f16", "f8f6f4") and descriptor >> 4 & 3 == 0
    m, n = (descriptor >> 24 & 31) * 16, (descriptor >> 17 & 63) * 8
    # The first factor is in shared memory if its operand is a descriptor, and else in tensor memory.
    rows = n if isinstance(instruction.operands[1], Address) else m + n
    return MachineCode({"other": 1}, {}, _with_sums(factors, half), 2 * m * n * k, _bytes_of(rows * k, factors))


def _of(name: str) -> Callable[[Instruction], MachineCode]:
    code = MachineCode({name: 1})
    return lambda instruction: code


_GROUP_MODIFIERS = {"bulk", "commit_group", "wait_group", "wait_all", "mbarrier"}


def _copy(instruction: Instruction) -> MachineCode:
    """Return the code of ``cp``: copies of words are memory instructions, and are counted as such."""
    return MachineCode({"other": 1}) if _GROUP_MODIFIERS & set(instruction.modifiers) else _NOTHING


_ARITHMETIC_OPCODES = (
    *_ONE_INTEGER,
    *_SPECIAL_INTEGERS,
    *_SPECIAL_FLOATS,
    *_OPERATIONS,
    *("rem", "madc", "rcp", "copysign"),
)

_RULES: dict[str, Callable[[Instruction], MachineCode]] = {
    **dict.fromkeys(_ARITHMETIC_OPCODES, _arithmetic),
    **dict.fromkeys(("setp", "set", "selp", "slct"), _comparison),
    **dict.fromkeys(("mma", "wgmma", "wmma"), _product),
    **dict.fromkeys(("bra", "brx", "call", "ret", "exit", "trap"), _of("branch")),
    **dict.fromkeys(("bar", "barrier"), _of("barrier")),
    **dict.fromkeys(("shfl", "movmatrix"), _of("shuffle")),
    **dict.fromkeys(("activemask", "mapa", "getctarank", "mbarrier", "tcgen05"), _of("other")),
    "cp": _copy,
    "cvt": _conversion,
    "mov": _move,
}
