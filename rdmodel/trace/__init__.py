"""Represent, read, coalesce, split, summarise and store traces: the memory instructions of a kernel launch."""

from rdmodel.trace.cache_ops import CacheOp
from rdmodel.trace.columns import (
    ALL_NEEDS,
    EVERY_ITERATION,
    FIRST_NON_L1_SPACE,
    LAST_ADDRESS,
    Columns,
    Op,
    Program,
    Segment,
    Space,
    slice_rows,
    slice_warps,
)
from rdmodel.trace.launch import WARP, ArrayInfo, Launch
from rdmodel.trace.registers import RegisterUse
from rdmodel.trace.sources import InstructionSource
from rdmodel.trace.trace import Trace, check_blocks, locate_block, missing_block
from rdmodel.trace.work import Work

__all__ = [
    "ALL_NEEDS",
    "EVERY_ITERATION",
    "FIRST_NON_L1_SPACE",
    "LAST_ADDRESS",
    "WARP",
    "ArrayInfo",
    "CacheOp",
    "Columns",
    "InstructionSource",
    "Launch",
    "Op",
    "Program",
    "RegisterUse",
    "Segment",
    "Space",
    "Trace",
    "Work",
    "check_blocks",
    "locate_block",
    "missing_block",
    "slice_rows",
    "slice_warps",
]
