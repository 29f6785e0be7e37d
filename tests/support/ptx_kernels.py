"""Run small PTX kernels: one instruction over columns of operands, or a whole text."""

from __future__ import annotations

import numpy as np

from tests.support.paths import DATA as TEST_DATA
from tracegen.ptx import parse
from tracegen.ptx.emulator.emulated_launch import LoadedModule

DATA = TEST_DATA / "ptx"

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"

_ONE_INSTRUCTION = """
.visible .entry one(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pe, .param .u64 pd, .param .u64 pq)
{{
    .reg .b64 %in<6>, %out<2>, %at, %i, %p<6>;
    .reg .b32 %t;
    .reg .{type} %a, %b, %c, %e, %d, %q;
    .reg .pred %pa, %pb, %pc, %pd, %pq;
    .reg .b64 %wa, %wb, %wc, %wd;
    .reg .b32 %xa, %xb, %xc, %xd;
    .reg .b16 %ha, %hb, %hc, %hd;
    mov.u32 %t, %tid.x;
    mul.wide.u32 %i, %t, 8;
    {loads}
    {body}
    {stores}
    ret;
}}
"""


def module_of(text: str, name: str = "<test>"):
    return parse(text if ".version" in text else HEAD + text, name)


def run_kernel(
    text: str, kernel: str, grid, block, args, *, shared: int = 0, values: bool = True, record: bool = True, **options
):
    """Execute all blocks and return their columns; arrays among `args` become buffers and hold the results."""
    machine = LoadedModule(module_of(text))
    given = [
        machine.allocate(value, f"arg{i}") if isinstance(value, np.ndarray) else value for i, value in enumerate(args)
    ]
    launched = machine.launch(kernel, grid, block, given, shared=shared, values=values, **options)
    return [launched.run(b, record) for b in range(launched.launch.blocks)]


def read_kernel(name: str) -> str:
    return (DATA / f"emulator_{name}.ptx").read_text()


def compute(body: str, *operands, outputs: int = 1) -> list[np.ndarray]:
    """Execute `body` for every row of the operand columns (any integers, taken modulo 2^64).

    `body` reads the 64-bit registers %wa, %wb and %wc, or 32 (%xa) or 16 (%ha) bits of them, or the predicates %pa ...
    (the lowest bit), and writes %wd, %xd, %hd or %pd.
    """
    columns = [np.array([int(v) % (1 << 64) for v in column], dtype=np.uint64) for column in operands]
    n = len(columns[0])
    columns += [np.zeros(n, np.uint64)] * (3 - len(columns))
    loads, names = [], "abc"
    for i, name in enumerate(names):
        loads += [
            f"ld.param.u64 %p{i}, [p{name}]; add.s64 %p{i}, %p{i}, %i; ld.global.u64 %w{name}, [%p{i}];",
            f"cvt.u32.u64 %x{name}, %w{name}; cvt.u16.u64 %h{name}, %w{name};",
            f"and.b64 %in{i}, %w{name}, 1; setp.ne.u64 %p{name}, %in{i}, 0;",
        ]
    written = {"%wd": "mov.b64 %out0, %wd;", "%xd": "cvt.u64.u32 %out0, %xd;", "%hd": "cvt.u64.u16 %out0, %hd;"}
    result = next((v for k, v in written.items() if k in body), "selp.b64 %out0, 1, 0, %pd;")
    stores = ["ld.param.u64 %p4, [pd]; add.s64 %p4, %p4, %i;", result, "st.global.u64 [%p4], %out0;"]
    if outputs == 2:
        stores += ["ld.param.u64 %p5, [pq]; add.s64 %p5, %p5, %i;", "selp.b64 %out1, 1, 0, %pq;"]
        stores += ["st.global.u64 [%p5], %out1;"]
    text = _ONE_INSTRUCTION.format(type="b64", loads="\n".join(loads), body=body, stores="\n".join(stores))
    out = [np.zeros(n, np.uint64) for _ in range(2)]
    run_kernel(text, "one", 1, n, [*(c.copy() for c in columns), np.zeros(n, np.uint64), *out])
    return out[:outputs]
