"""List the words of the formats, which random bytes would hardly ever form."""

from __future__ import annotations

OPCODES = b"""
LDG.E LDG.E.64 LDG.E.256 LD.E ST.E.128 STG.E.U8 LDL LDC LDS ATOM.E.ADD RED.E LDGSTS.E.128 CCTL BAR.SYNC DEPBAR.LE FROB.E
TEX UTMALDG LDGDEPBAR EXIT ULDC
"""

NVBIT = b"""
MEMTRACE:~ MEMTRACE:~CTX~0x1~-~LAUNCH CTX~0x1~-~ ~-~LAUNCH~-~ grid_launch_id~ grid~launch~id~ ~-~CTA~0,0,0 ~-~warp~
STARTING~CONTEXT ~-~ , 0x0000000000000000 0x7ffffffffffffff0 0x7ffffffffffffff1 Kernel~name~ nregs~ M
block~size~16,1,1 block~size~40,1,1
"""

PPT = b"===== = 0x0 0x1 0x3ffff 0x40000 0x7ffffffffffffff0 0x7ffffffffffffff1 LD"

CONFIG = rb"""
kernel_1 kernel_2 "kernel_name" "grid_size" "block_size" "num_registers" "shared_mem_bytes" {} () (1+2j) 1+1j \N{x} b""
True None ... # 1_0 0b1 lambda ((((((((((((((((((((((((((((((( --------------------- \x \d = : f"{x}"
"""

TRACEG = b"""
-kernel~name~= -kernel~id~=~ -grid~dim~=~(2,1,1) -block~dim~=~(64,1,1) -shmem~base_addr~=~0x7efeb0000000
-accelsim~tracer~version~=~5 -enable~lineinfo~=~1 #BEGIN_TB #END_TB thread~block~=~1,0,0 warp~=~1 insts~=~1
cluster R0 R255 R254 UR4 UP0 P0 ffffffff 80000001 0~ 1~ 2~ # 0x7efeb0000010 0x7efeb2000010 -8
-block~dim~=~(40,1,1)
"""

KERNELSLIST = b"""
kernel-1.traceg kernel-2.traceg.xz MemcpyHtoD,0x7f,64 MemcpyDtoH ncclInit cudaFree kernel kernel-1.traceg/ kernelslist.g
kernel-9.traceg MemsetD8
"""

TRC = b"""
blocksize:~32~1~1 0~0~4096~4 1~1~0~16 9223372036854775792 9223372036854775793 68719476703
"""

PLAIN = b"""
0x7ffffffffffffff0 0x7ffffffffffffff1 9223372036854775807 9223372036854775808 address size op pc thread block warp lane
load Store atomic , "" "0x10" # ~L~8,4 ~M~7ffffffffffffff0,32 I~~8,4 ==1==~x SB~8 0~8~4 r~8~4 4~0 2~8 4096 4097
"""

NATIVE = b"""
descr fortran_order shape <i8 "launch" "columns" (3,) True
"""

PARQUET = b"""
PAR1 rdmodel.blocks rdmodel.launch list element [[0,3]]
"""

NCU = b"""
"ID" "Kernel~Name" "Metric~Name" "Metric~Value" "Metric~Unit" "Grid~Size" "n/a" ==ERROR==~x 1,234 1.234,5 1'234 Msector
l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum lts__t_sector_hit_rate.pct "" "(1,~1,~1)" % 1e308 _lookup_hit
_lookup_miss
"""

AFFINE = b"""
"for" "if" "do" "from" "to" "step" "load" "store" "atomic" "at" "gap" "barrier" "wait" "name" "arrays" "block" "body"
"threads" "grid" "type" "space" "shape" "double" "constant" "x" "N" "i" "x+1" "x//0" "-x" "min(x,1)" "x<N" "x%2==0"
"x*x" "(x" "(((" "9999999999999999999" "x.x"
"""

PTX = b"""
.version .target .address_size .visible .entry .func .param .reg .shared .global .const .local .align .u64 .b8 .f32
.pred @%p1 @!%p1 %r1 %r<5> [%rd1+4] {%r1,%r2} ; : { } ( ) [ ] .loc .file .section .v4 ld.global.f32 bra ret; call
mma.sync.aligned wgmma.mma_async ldmatrix.sync .x4 .trans stmatrix cp.async.ca.shared.global cp.async.bulk.tensor.2d
cp.async.commit_group mbarrier.try_wait.parity mbarrier.arrive.expect_tx tensormap.replace.tile.rank elect.sync map
wmma.load.a.sync .m16n16k16 redux.sync .bf16 .f16x2 cvt.rn mapa barrier.cluster.wait %cluster_ctarank _ atom.global
tex.2d.v4.f32.f32 tex.a1d.v4.s32.s32 tld4.r.2d suld.b.3d.v2.b32.clamp sust.b.1d.b16.trap .texref .surfref
[t,~{%f1,~%f2}]
.reqntid .maxntid .pragma 0f3f800000 0d 0x 1e9 // /* */ .branchtargets .callprototype .extern .weak
"""

MATRIX = b"""
%%MatrixMarket matrix vector coordinate array real double integer unsigned-integer complex pattern general symmetric
skew-symmetric hermitian % %c 1~1~1 2~2 0~2 1 2 3 -1 +1 1.5 1e9 nan -inf infinity 0x1p3 1_0 1.0D5 1000000000
"""

LAUNCH = b'''
source= block= grid= cluster= unroll= [args] [[launch]] kernel= shared= args= "int[n]" "float[n*n]:iota"
"int[4]:random:7:0" "@x.npy" "symbol:w"= [variables] options= architecture= "-O3" texels= filter= "linear" "&n"
"int[n]:random:-1" "@scan.cu" "@m.mtx:rows" {x=1} [1,2,3] 1979-05-27 inf nan true """ [[[[ "double[0]" "x[1]"
'''

GPU = b"""
[l1] [l2] index= name= inf nan true [1,2] {} 1979-05-27 [[l1]] [[[[ size= line= ways= -0 0x10
"""


def words(*texts: bytes) -> tuple[bytes, ...]:
    """Return the words in texts; a tilde in a word stands for a blank."""
    return tuple(word.replace(b"~", b" ") for text in texts for word in text.split())
