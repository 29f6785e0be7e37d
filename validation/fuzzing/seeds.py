"""Make the seeds of fuzzing: small valid files of every format, and the bad files of the tests."""

from __future__ import annotations

import gzip
import io
import json
import lzma
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rdmodel.trace import ArrayInfo, Columns, Launch, Trace, storage
from tracegen.formats.parquet import write_parquet
from validation.fuzzing.mutation import Case

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
MAX_SEED_BYTES = 12_000

_OPCODES = (
    "LDG.E.SYS",
    "LDG.E.64",
    "STG.E.U8",
    "ATOMG.E.ADD.GPU",
    "RED.E",
    "LDS.U.32",
    "LDGSTS.E.128",
    "LDL",
    "LDC.64",
)


def _committed(pattern: str, name: str) -> list[Case]:
    """Return the files of the tests that match a pattern, each as a case with one file called `name`."""
    files = [path.read_bytes() for path in sorted(DATA.glob(pattern))]
    return [{name: data} for data in files if len(data) <= MAX_SEED_BYTES]


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def _xz(data: bytes) -> bytes:
    return lzma.compress(data, preset=0)


def _zstd(data: bytes) -> bytes:
    from backports import zstd

    return bytes(zstd.compress(data))


_PACKERS: dict[str, Callable[[bytes], bytes]] = {"gzip": _gzip, "xz": _xz, "zstd": _zstd}


# ---- Text


def _lanes(first: int, step: int, count: int = 32) -> list[int]:
    return [first + step * lane if lane < count else 0 for lane in range(32)]


def nvbit() -> list[Case]:
    """Return output of NVBit's mem_trace."""
    context = "MEMTRACE: CTX 0x000055d0c0de0000"
    launch = (
        context + " - LAUNCH - Kernel pc 0x00007f1234567800 - Kernel name {} - grid launch id {} - grid size 4,2,1 "
        "- block size 64,1,1 - nregs 16 - shmem 0 - cuda stream id 0\n"
    )
    line = context + " - grid_launch_id {} - CTA {} - warp {} - {} - {} \n"

    def record(opcode: str, values: Iterable[int], number: int = 0, cta: str = "0,0,0", warp: int = 0) -> str:
        return line.format(number, cta, warp, opcode, " ".join(f"0x{value:016x}" for value in values))

    first = launch.format("scale(float*, int)", 0)
    every = "".join(record(opcode, _lanes(4096, 4, 31)) for opcode in _OPCODES)
    slots = "".join(record("LDG.E", _lanes(1 << 40, 128), 0, f"{n % 4},{n % 2},0", 8 + 3 * (n % 2)) for n in range(5))
    two = first + launch.format("gemm", 1) + record("LDG.E", _lanes(64, -1)) + record("STG.E", _lanes(8, 8), 1)
    wide = first + "".join(record("LDG.E", _lanes(4096, 4), warp=warp) for warp in range(2))
    partial = [wide.replace("block size 64", f"block size {threads}") for threads in (16, 40)]
    texts = [first + every, "Hello\n" + first + slots, two, context + "\nMEMTRACE: STARTING CONTEXT 0x5\n" + two]
    texts += [*partial, *(text[:-9] for text in partial)]
    return [{"run.txt": text.encode()} for text in texts] + _committed("formats/nvbit-*", "run.txt")


PPT_CONFIG = """kernel_1 = {
\t"kernel_name" : "scale", "num_registers" : 18, "shared_mem_bytes" : 96, "grid_size" : 2, "block_size" : 64,
\t"cuda_stream_id" : 0
}
app_kernels_id = [1]
"""


def ppt() -> list[Case]:
    """Return files of one block of PPT-GPU's tracing tool."""
    text = "\n=====\n".join(f"{opcode} 0x1000 0x{1 << 40:x} 0x1008 " for opcode in _OPCODES) + "\n"
    full = "LDG.E " + " ".join(f"0x{4096 + 4 * lane:x}" for lane in range(32)) + "\n"
    name = "kernel_1_block_0.mem"
    texts = [text, full * 5, (full * 3)[:-1], (full * 3)[:-2]]
    return [*({name: text.encode()} for text in texts), *_committed("formats/ppt-*", name)]


def ppt_folder() -> list[Case]:
    """Return folders of PPT-GPU's tracing tool, with its configuration."""
    record = b"LDG.E 0x1000 0x1004 \n=====\nSTG.E 0x2000 \n"
    two = PPT_CONFIG + PPT_CONFIG.replace("kernel_1", "kernel_2")
    return [
        {"app_config.py": PPT_CONFIG.encode(), "kernel_1_block_0.mem": record, "kernel_1_block_1.mem": record * 2},
        {"app_config.py": PPT_CONFIG.encode(), "memory_traces/kernel_1_block_1.mem.gz": gzip.compress(record)},
        {"app_config.py": two.encode(), "memory_traces/kernel_2_block_0.mem": record},
    ]


def _traceg(version: int, *, places: bool = False, tail: str = "") -> str:
    place = "0 0 0 0 " if places else ""
    lines = [
        "0000 ffffffff 1 R2 LDG.E.64 1 R4 8 1 0x7f0000001000 8",
        "0010 0000ffff 1 R8 LD.E 1 R2 4 2 0x7f0000001000 4 4 -8 4 4 4 4 4 4 4 4 4 4 4 4",
        "0020 00000003 0 STG.E.U8 2 R4 R8 1 0 0x1000 0x2000",
        "0030 ffffffff 0 BAR.SYNC 0 0",
        "0040 00000001 1 R0 ATOMG.E.ADD 3 P0 R4 R2 4 0 0x40",
        "0050 ffffffff 1 R3 FFMA 3 R2 UR4 R8 0",
        "0060 00000001 0 LDGSTS.E.128 2 R4 R2 16 0 0x7f0000000000",
        "0070 ffffffff 0 DEPBAR.LE 1 R1 0",
        "0080 00000001 1 R9 LDS 1 R4 4 0 0x10",
    ]
    head = f"""-kernel name = _Z5scalePfi
-kernel id = 1
-grid dim = (2,1,1)
-block dim = (64,1,1)
-shmem = 64
-nregs = 7
-binary version = 70
-shmem base_addr = 0x00007efeb0000000
-local mem base_addr = 0x00007efeb2000000
-nvbit version = 1.5
-accelsim tracer version = {version}

#traces format = PC mask dest_num [reg_dests] opcode src_num [reg_srcs] mem_width [adrrescompress?] [mem_addresses]

"""
    body = "".join(f"{place}{line}{tail}\n" for line in lines)
    blocks = f"#BEGIN_TB\n\nthread block = 0,0,0\n\nwarp = 0\ninsts = {len(lines)}\n{body}\n"
    blocks += "warp = 1\ninsts = 0\n#END_TB\n\n"
    # In old files, each line has the place of its block.
    more = body.replace("0 0 0 0 ", "1 0 0 1 ") if places else body
    blocks += f"#BEGIN_TB\n\nthread block = 1,0,0\n\nwarp = 1\ninsts = {len(lines)}\n{more}\n"
    return head + blocks + "warp = 0\ninsts = 0\n#END_TB\n"


def accelsim() -> list[Case]:
    """Return traces of Accel-Sim of several versions."""
    name = "kernel-1.traceg"
    texts = [_traceg(4), _traceg(2, places=True), _traceg(5, tail=" 0"), _traceg(5, tail=" 16 0")]
    texts += [texts[0].replace("(64,1,1)", "(40,1,1)"), texts[0].replace("warp = 0\ninsts = 0\n", ""), texts[0][:-1]]
    lined = _traceg(4).replace("\n\n#traces", "\n-enable lineinfo = 1\n\n#traces", 1).replace("\n00", "\n12 00")
    return [{name: text.encode()} for text in (*texts, lined)] + _committed("accelsim/*.traceg", name)


def kernelslist() -> list[Case]:
    """Return kernel lists of Accel-Sim with their traces."""
    small = _traceg(4).encode()
    other = small.replace(b"scale", b"gemm").replace(b"-kernel id = 1", b"-kernel id = 2")
    commands = b"MemcpyHtoD,0x00007f0000001000,4096\n"
    return [
        {"kernelslist.g": commands + b"kernel-1.traceg\n", "kernel-1.traceg": small},
        {
            "kernelslist.g": commands + b"kernel-1.traceg\nkernel-2.traceg.xz\n",
            "kernel-1.traceg": small,
            "kernel-2.traceg.xz": lzma.compress(other, preset=0),
        },
    ]


def trc() -> list[Case]:
    """Return traces of the Ocelot tracer."""
    lines = [
        f"{thread} {way} {4096 + 4 * thread} {size}" for way, size in ((0, 4), (1, 8)) for thread in range(0, 70, 3)
    ]
    texts = ["blocksize: 32 1 1\n" + "\n".join(lines) + "\n", "blocksize: 3 2 1\n0 0 0 4\n7 1 16 16\n7 0 1 1"]
    return [{"run.trc": text.encode()} for text in texts]


_PLAIN_TEXTS = {
    "addresses": ["# list\n" + "".join(f"{64 * n}\n0x{n:x}\r\n" for n in range(40)), "8"],
    "csv": [
        "addr,bytes,rw,pc\n" + "".join(f"{n},{n % 40 + 1},{'rwa'[n % 3]},0x{n % 5}\n" for n in range(30)),
        "block,thread,address\n" + "".join(f"{n % 3},{n * 7 % 40},{n}\n" for n in range(90)),
        'name,warp,lane,address\n"f(""x"", 1)",1,3,"0x10"\n,0,31,4\n',
        "block,warp,lane,address\n0,1,7,4\n2,0,0,8\n",
        "tid,address\n79,4\n0,8\n",
    ],
    "lackey": [
        "==1== Lackey, an example Valgrind tool\n" + "I  04,3\nI  08,2\n L 1fff00,8\n M 40,64\n S 80,4\nSB 04\n" * 9,
    ],
    "dinero": ["2 0 x\n0 1000\n1 70f60888 8\n3 10 add\n" * 9, "r 0x20 4\nw 30 2 text\ni 4 4\nm 40 1\nv 0 0\n"],
}


def plain_lines(form: str) -> Callable[[], list[Case]]:
    """Return a function that makes files of one of the formats with one access per line."""

    def cases() -> list[Case]:
        return [{"run.txt": text.encode()} for text in _PLAIN_TEXTS[form]]

    return cases


def packed(kind: str) -> Callable[[], list[Case]]:
    """Return a function that makes traces of the Ocelot tracer packed with gzip, xz or zstd."""
    pack = _PACKERS[kind]

    def cases() -> list[Case]:
        text, short = (case["run.trc"] for case in trc())
        return [{"run.trc": data} for data in (pack(text), pack(short), pack(short) + pack(b"\n0 0 4 4\n"), pack(b""))]

    return cases


def ncu() -> list[Case]:
    """Return reports of Nsight Compute."""
    return _committed("ncu/*.csv", "report.csv")


# ---- Binary


def traces() -> list[Trace]:
    """Return small traces of several shapes."""
    return [_trace(3, 1, 2), _trace(1, 2, 5), _trace(2, 3, 0)]


def _trace(blocks: int, warps: int, rows: int) -> Trace:
    count = blocks * warps * rows
    rng = np.random.default_rng(count)
    op = rng.choice([0, 1, 2, 3], count, p=[0.6, 0.2, 0.1, 0.1])
    mask = rng.choice([1, 0xFFFFFFFF, 0x80000001], count)
    lanes = np.where(op == 3, 0, np.bitwise_count(mask.astype(np.uint32)).astype(np.int64))
    columns = Columns(
        warp_start=np.arange(blocks * warps + 1) * rows,
        pc=rng.integers(0, 99, count, np.int32),
        op=op,
        space=rng.integers(0, 4, count, np.uint8),
        size=rng.choice([1, 4, 16], count),
        gap=rng.integers(0, 9, count, np.int32),
        needs=rng.integers(0, 1 << 63, count, np.uint64),
        loop_exit=rng.integers(0, 2, count).astype(np.bool_),
        mask=mask,
        address_start=np.concatenate([[0], np.cumsum(lanes)]),
        addresses=rng.integers(0, 1 << 40, int(lanes.sum())),
    )
    launch = Launch(
        kernel="scale", grid=(blocks + 2, 1, 1), block=(32 * warps, 1, 1), registers=16, arrays=(ArrayInfo("A", 0, 64),)
    )
    return Trace(launch, columns, [0, *range(2, blocks + 1)][:blocks])


def native() -> list[Case]:
    """Return folders of the native form."""
    cases = []
    for trace in traces():
        with TemporaryDirectory() as folder:
            where = Path(folder) / "trace"
            storage.save(trace, where, source={"kernel": "scale"})
            cases.append({path.name: path.read_bytes() for path in sorted(where.iterdir())})
    return cases


def parquet() -> list[Case]:
    """Return Parquet files."""
    cases = []
    for trace in traces():
        with TemporaryDirectory() as folder:
            where = Path(folder) / "trace.parquet"
            write_parquet(trace, where)
            cases.append({where.name: where.read_bytes()})
    return cases


def npy(array: Any) -> bytes:
    """Return an array as the bytes of a ``.npy`` file."""
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


# ---- Data of kernels

_BANNER = b"%%MatrixMarket matrix "


def matrices() -> list[Case]:
    """Return Matrix Market files of every form."""
    texts = [
        b"coordinate real general\n% comment\n3 4 3\n1 1 1.5\n3 4 -2e3\n1 1 4\n",
        b"coordinate integer symmetric\n3 3 2\n2 1 7\n3 3 -5\n",
        b"coordinate unsigned-integer skew-symmetric\n3 3 1\n2 1 7\n",
        b"coordinate pattern general\r\n5 5 2\r\n5 1\r\n1 5\r\n",
        b"coordinate double hermitian\n\n 2 2 1\n\n 2 \t 2 1\n\n",
        b"array real general\n2 3\n1\n0\n3\n4\n5\n6\n",
        b"array integer symmetric\n2 2\n1\n2\n3\n",
        b"array real skew-symmetric\n3 3\n1\n2\n3\n",
        b"coordinate complex general\n1 1 1\n1 1 1 2\n",
        b"coordinate integer general\n4 1 2J",
        b"array integer general\n0 2\n",
    ]
    return [{"a.mtx": _BANNER + text} for text in texts]


def arrays() -> list[Case]:
    """Return ``.npy`` files of several types, shapes and orders."""
    numbers = np.arange(12)
    given = [
        *(numbers.astype(kind) for kind in ("<i4", ">f8", "<u2", "|i1", "<f2", "<c8")),
        np.asfortranarray(numbers.reshape(3, 4)),
        numbers.reshape(3, 2, 2) > 4,
        np.array(5.0),
        numbers[:0],
    ]
    return [{"a.npy": npy(array)} for array in given]


# ---- Programs


def affine() -> list[Case]:
    """Return affine kernels: some of tracegen's, and one with all statements."""
    whole = {
        "name": "all",
        "description": "d",
        "parameters": {"N": 64, "M": 4},
        "arrays": {"A": ["N", "M"], "B": {"shape": ["N"], "type": "float64", "space": "constant"}},
        "grid": ["N // 32", 1, 1],
        "block": [32, 1],
        "shared_memory": 16,
        "registers": 20,
        "body": [
            {
                "if": ["x < N", "x % 2 == 0"],
                "do": [{"for": "i", "from": "M - 1", "to": -1, "step": -1, "do": ["barrier"]}],
            },
            {"gap": 3},
            "wait",
            {"load": "A", "at": ["x", "min(x, M - 1)"]},
            {"atomic": "B", "at": ["(x * 3 + 1) // 4"]},
        ],
    }
    files = sorted((ROOT / "tracegen" / "kernel_library" / "affine").glob("*.json"))[::3]
    return [{"kernel.json": json.dumps(whole).encode()}, *({"kernel.json": path.read_bytes()} for path in files)]


def ptx() -> list[Case]:
    """Return the small PTX files of the tests."""
    return _committed("ptx/*.ptx", "kernel.ptx")


LAUNCH = """source = "scan.cu"
defines = { TILE = 32 }
includes = ["."]
block = 256
options = ["-O3", "-arch", "sm_80"]
[args]
n = 100
"symbol:w" = { texels = "float[8,8]", filter = "linear" }
in = "int[n]:random:1:10"
out = "int[n]"
f = "double[4]:zeros"
[[launch]]
kernel = "scan_blocks"
grid = [4, 2]
shared = 1024
[[launch]]
kernel = "scan_add"
grid = 391
args = { n = 1000, in = "out", x = 0.5 }
"""


LAUNCH_OF_PTX = """source = "k.ptx"
architecture = "sm_90a"
block = [32, 2]
grid = 4
cluster = 2
shared = 1024
unroll = 2
[args]
n = 64
x = "float[n]:iota"
y = "int[n]"
[variables]
weights = "float[4]:zeros"
[[launch]]
kernel = "k"
[launch.args]
p = { struct = "float *q; int n", q = "&x", n = 4 }
out = "y"
image = { texels = "float[8, 8]", filter = "linear" }
[[launch]]
grid = [2, 2]
cluster = [2, 2]
[launch.args]
p = { struct = "int *q; int n", q = "&y", n = 8 }
out = "x"
image = "float[8, 8]"
"symbol:weights" = "float[4]:iota"
"""

SOURCE_OF_LAUNCH = b"""
.version 8.7
.target sm_90a
.address_size 64
.const .align 4 .b8 weights[16];
.visible .entry k(.param .align 8 .b8 p[16], .param .u64 out, .param .u64 image)
{
	.reg .b32 %r<5>;
	.reg .f32 %f<5>;
	.reg .b64 %rd<6>;
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [p+8];
	ld.param.u64 %rd2, [out];
	ld.param.u64 %rd3, [image];
	mov.u32 %r2, %tid.x;
	rem.u32 %r2, %r2, %r1;
	mul.wide.u32 %rd4, %r2, 4;
	add.s64 %rd5, %rd1, %rd4;
	ld.global.f32 %f1, [%rd5];
	tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd3, {%r2, %r2}];
	add.s64 %rd5, %rd2, %rd4;
	st.global.f32 [%rd5], %f1;
	ret;
}
"""


def launch() -> list[Case]:
    """Return launch files, of CUDA and of PTX."""
    of_cuda = {"launch.toml": LAUNCH.encode(), "scan.cu": b"__global__ void scan_blocks(int n) {}\n"}
    return [of_cuda, {"launch.toml": LAUNCH_OF_PTX.encode(), "k.ptx": SOURCE_OF_LAUNCH}]


def gpu() -> list[Case]:
    """Return descriptions of GPUs."""
    files = sorted((ROOT / "rdmodel" / "presets").glob("*.toml"))
    return [{"gpu.toml": path.read_bytes()} for path in files if path.stat().st_size <= MAX_SEED_BYTES]
