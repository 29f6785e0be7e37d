"""Parse PTX, the assembly language of NVIDIA's compilers, into values.

>>> from tracegen.ptx import parse, without_final_nulls
>>> module = parse('.version 8.0 .target sm_80 .address_size 64 .visible .entry idle() { ret; }')
>>> module.kernels
['idle']
"""

from tracegen.ptx.syntax.ast import (
    Address,
    Float,
    Function,
    Instruction,
    Integer,
    Module,
    Name,
    Not,
    Operand,
    Pair,
    Register,
    Variable,
    Vector,
)
from tracegen.ptx.syntax.lexer import PtxError
from tracegen.ptx.syntax.parser import parse, without_final_nulls

__all__ = [
    "Address",
    "Float",
    "Function",
    "Instruction",
    "Integer",
    "Module",
    "Name",
    "Not",
    "Operand",
    "Pair",
    "PtxError",
    "Register",
    "Variable",
    "Vector",
    "parse",
    "without_final_nulls",
]
