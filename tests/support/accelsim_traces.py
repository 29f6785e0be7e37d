"""Write Accel-Sim traces, chosen and random, and list the rows of a trace that was read."""

import itertools
import random

import numpy as np
from hypothesis import strategies as st

from rdmodel.trace import LAST_ADDRESS
from tests.support.random_traces import FIELDS

SHARED_BASE, LOCAL_BASE = 0x7EFEB0000000, 0x7EFEB2000000
BLOCKS = [(32, 1, 1), (33, 1, 1), (1, 1, 1), (8, 8, 2)]


def header(*, grid="(1,1,1)", block="(32,1,1)", version=4, name="kernel", more=""):
    return (
        f"-kernel name = {name}\n-kernel id = 1\n-grid dim = {grid}\n-block dim = {block}\n-shmem = 64\n-nregs = 7\n"
        f"-shmem base_addr = 0x{SHARED_BASE:016x}\n-local mem base_addr = 0x{LOCAL_BASE:016x}\n"
        f"-accelsim tracer version = {version}\n{more}\n#traces format = PC mask dest_num ...\n\n"
    )


def warp_text(lines, warp=0):
    return f"warp = {warp}\ninsts = {len(lines)}\n" + "".join(line + "\n" for line in lines)


def one_warp(*lines, **options):
    return header(**options) + f"#BEGIN_TB\n\nthread block = 0,0,0\n\n{warp_text(lines)}\n#END_TB\n"


def rows_of(trace):
    """Return {(block, warp): rows}, a row being (pc, op, space, size, gap, needs, mask, addresses)."""
    result = {}
    for block in trace.blocks:
        c = trace.block(int(block))
        for warp in range(c.warps):
            rows = result[int(block), warp] = []
            for i in range(c.warp_start[warp], c.warp_start[warp + 1]):
                pc = int(c.pc[i]) & 0xFFFFFFFF
                row = (pc, *(getattr(c, name)[i].item() for name in ("op", "space", "size", "gap", "needs", "mask")))
                rows.append((*row, c.addresses[c.address_start[i] : c.address_start[i + 1]].tolist()))
    return result


def assert_same(one, other):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one.columns, name), getattr(other.columns, name), name)
    assert list(one.blocks) == list(other.blocks)
    assert one.launch == other.launch


A = "0010 ffffffff 1 R4 LDG.E 1 R2 4 1 0x1000 4"
B = "0020 ffffffff 1 R5 LDG.E 1 R2 4 1 0x2000 4"
PUT = "0030 ffffffff 0 STG.E 2 R2 {} 4 1 0x3000 4"
WIDE = "0010 ffffffff 1 R4 LDG.E.64 1 R2 8 1 0x1000 8"
QUAD = "0010 ffffffff 1 R4 LDG.E.128 1 R2 16 1 0x1000 16"

MEMORY_OPCODES = [
    *("LDG.E.SYS", "LDG.E.64", "LDG.E.128.CONSTANT.SYS", "LDG.E.U8", "LDG.E.S16", "LDG.E.LTC128B.64", "LD.E", "LDL.64"),
    *("LDC.32", "TLD.LZ", "LDGSTS.E.BYPASS.128", "STG.E", "STG.E.128.SYS", "ST.E.64", "STL", "SUST.D", "RED.E.ADD.F32"),
    *("ATOM.E.ADD.F64", "ATOMG.E.CAS.64", "ATOMG.E.ADD.F16x2.RN", "SUATOM.D", "LDS.U.128", "STS.64", "ATOMS.ADD"),
    *("CCTL.E.PF2", "LDSM.16.M88.4"),
]
OTHER_OPCODES = [
    "IMAD.MOV.U32",
    "FFMA",
    "MOV",
    "BRA",
    "BAR.SYNC",
    "BAR.SYNC.DEFER_BLOCKING",
    "DEPBAR.LE",
    "LDGDEPBAR",
    "LDG.E",
]


def random_access(r, mask, same):
    """Width, mode and addresses; `same` keeps all of an instruction's addresses in one window."""
    lanes = mask.bit_count()
    start = r.choice([r.randrange(1 << 14, LAST_ADDRESS), 1 << 20, SHARED_BASE + 4096, LOCAL_BASE + 4096])
    contiguous = lanes > 0 and (mask // (mask & -mask) + 1).bit_count() == 1
    if contiguous and r.random() < 0.5:
        stride = r.randint(-16, 16)
        return f"4 1 0x{start:x} {-stride if start + stride * 31 > LAST_ADDRESS else stride}"
    room = r.choice([8, 8, 1 << 40]) if not same else 8
    addresses = [start]
    for _ in range(lanes - 1):
        addresses.append(min(max(addresses[-1] + r.randint(-room, room), 0), LAST_ADDRESS))
    if not lanes or r.random() < 0.3:
        return " ".join(["4 0", *(f"0x{a:016x}" for a in addresses[:lanes])])
    deltas = (str(b - a) for a, b in itertools.pairwise(addresses))
    return " ".join([f"4 2 0x{start:x}", *deltas])


def random_instruction(r, lanes=0xFFFFFFFF):
    """Return a line whose active lanes are among `lanes`, the lowest ones."""
    wide = r.choice([0xFFFFFFFF, 0xFFFFFFFF, r.getrandbits(32), 1 << r.randrange(32)])
    mask = r.choice([wide, 0, ((1 << r.randint(1, 32)) - 1) << r.randrange(32) & 0xFFFFFFFF])
    mask &= lanes
    memory = r.random() < 0.6
    opcode = r.choice(MEMORY_OPCODES if memory else OTHER_OPCODES)
    targets, sources = ([r.choice([*range(7), 254, 255]) for _ in range(r.randint(0, n))] for n in (1, 4))
    named = [" ".join([str(len(some)), *(f"R{n}" for n in some)]) for some in (targets, sources)]
    access = random_access(r, mask, opcode.split(".")[0] in ("LD", "ST", "ATOM", "RED")) if memory else "0"
    return f"{r.randrange(1 << 16):04x} {mask:08x} {named[0]} {opcode} {named[1]} {access}"


@st.composite
def files(draw):
    """A file of one of the layouts; blocks and warps in any order, some blocks missing, some warps empty."""
    block = draw(st.sampled_from(BLOCKS))
    version = draw(st.sampled_from([1, 3, 4, 5, 6]))
    lined = draw(st.booleans())
    blocks, most = draw(st.integers(1, 3)), draw(st.integers(0, 12))
    r = random.Random(draw(st.integers(0, 1 << 32)))
    tail = {5: " 17", 6: " 3 -1 Val 2 0x1 ff"}.get(version, "")
    text = header(
        grid="(2,3,2)",
        block="({},{},{})".format(*block),
        version="1.2" if version == 1 else version,
        more="-enable lineinfo = 1\n" if lined else "",
    )
    threads = block[0] * block[1] * block[2]
    warps = range(-(-threads // 32))
    for i, number in enumerate(r.sample(range(12), blocks)):
        x, y, z = number % 2, number // 2 % 3, number // 6
        text += f"\n#BEGIN_TB\n\nthread block = {x},{y},{z}\n"
        for j, warp in enumerate(r.sample(warps, len(warps))):
            lanes = 0xFFFFFFFF >> max(32 * (warp + 1) - threads, 0)
            lines = [random_instruction(r, lanes) + tail for _ in range(r.randint(0, most))]
            if i == j == 0:
                lines.insert(0, "0010 00000001 1 R2 LDG.E 1 R3 4 1 0x100 4" + tail)
            lines = [f"{index} {line}" for index, line in enumerate(lines)] if lined else lines
            lines = [f"{x} {y} {z} {warp} {line}" for line in lines] if version < 3 else lines
            text += "\n" + warp_text(lines, warp)
        text += "\n#END_TB\n"
    return text
