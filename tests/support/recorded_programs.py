"""Build small CUDA programs without nvcc: C that calls the interfaces which nvcc's output calls, and PTX texts."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

PTX = """
.version 8.0
.target sm_75
.address_size 64
.const .align 4 .u32 weight;
.global .align 4 .u32 counter = 7;
.visible .entry order(.param .u64 out, .param .u32 n) {
  .reg .b64 %rd<5>; .reg .b32 %r<9>;
  ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2;
  shl.b32 %r6, %r5, 3; rem.u32 %r7, %r6, %r1;
  st.global.u32 [%rd3], %r7;
  ret;
}
.visible .entry gather(.param .u64 index, .param .u64 x, .param .align 8 .b8 places[16]) {
  .reg .b64 %rd<12>; .reg .b32 %r<12>;
  ld.param.u64 %rd1, [index]; ld.param.u64 %rd2, [x]; ld.param.u64 %rd3, [places+8];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  mul.wide.u32 %rd4, %r5, 4;
  add.s64 %rd5, %rd1, %rd4; ld.global.u32 %r6, [%rd5];
  mul.wide.u32 %rd6, %r6, 4; add.s64 %rd7, %rd2, %rd6; ld.global.u32 %r7, [%rd7];
  ld.const.u32 %r8, [weight]; mul.lo.u32 %r9, %r7, %r8;
  add.s64 %rd8, %rd3, %rd4; st.global.u32 [%rd8], %r9;
  ret;
}
"""
"""Two kernels: ``order`` writes 8 i mod n at i; ``gather`` writes weight x[index[i]] where its structure points to."""

PROGRAM = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
typedef struct { unsigned x, y, z; } dim3;
void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFatBinaryEnd(void **);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, void *);
int __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
int cudaMalloc(void **, size_t), cudaFree(void *), cudaMallocManaged(void **, size_t, unsigned);
int cudaHostAlloc(void **, size_t, unsigned), cudaMallocPitch(void **, size_t *, size_t, size_t);
int cudaMemcpy(void *, const void *, size_t, int), cudaMemset(void *, int, size_t), cudaDeviceSynchronize(void);
int cudaMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, int);
int cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);
int cudaMemcpyFromSymbol(void *, const void *, size_t, size_t, int);
int cudaGetDeviceProperties_v2(void *, int), cudaGetLastError(void), cudaMallocMipmappedArray();
int cuModuleLoadData(void **, const void *), cuModuleGetFunction(void **, void *, const char *);
int cuMemAlloc_v2(uint64_t *, size_t), cuMemcpyDtoH_v2(void *, uint64_t, size_t);
typedef unsigned U;
int cuLaunchKernel(void *, U, U, U, U, U, U, U, void *, void **, void **);

enum { N = 256 };
static struct { uint32_t magic, version; const void *data; void *more; } wrapper = {0x466243b1, 1, 0, 0};
static char weight, counter;
static void order(void) {}
static void gather(void) {}
typedef struct { uint64_t unused; unsigned *to; } Places;

static void launch(void *kernel, void **arguments) {
  dim3 grid = {2, 1, 1}, block = {N / 2, 1, 1};
  size_t shared;
  void *stream;
  __cudaPushCallConfiguration(grid, block, 0, 0);
  __cudaPopCallConfiguration(&grid, &block, &shared, &stream);
  cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

static void run(unsigned *index, unsigned *x, unsigned *y) {
  unsigned n = N;
  Places places = {0, y};
  launch(order, (void *[]){&index, &n});
  launch(gather, (void *[]){&index, &x, &places});
}

static unsigned sum(const unsigned *values) {
  unsigned all = 0;
  for (int i = 0; i < N; i++) all += values[i];
  return all;
}

int main(int count, char **words) {
  static char image[1 << 16];
  FILE *file = fopen(words[1], "rb");
  if (!file || !fread(image, 1, sizeof image - 1, file)) return 9;
  const char *mode = words[2];
  unsigned host[N], *index, *x, *y, three = 3;
  for (int i = 0; i < N; i++) host[i] = i;
  if (!strcmp(mode, "driver")) {
    void *module, *function;
    uint64_t out;
    if (cuModuleLoadData(&module, image) || cuModuleGetFunction(&function, module, "order")) return 8;
    cuMemAlloc_v2(&out, sizeof host);
    unsigned n = N;
    cuLaunchKernel(function, 2, 1, 1, N / 2, 1, 1, 0, 0, (void *[]){&out, &n}, 0);
    struct { uint64_t out; unsigned n; } packed = {out, N / 2};
    size_t bytes = sizeof packed;
    cuLaunchKernel(function, 2, 1, 1, N / 2, 1, 1, 0, 0, 0, (void *[]){(void *)1, &packed, (void *)2, &bytes, 0});
    cuMemcpyDtoH_v2(host, out, sizeof host);
    printf("%u\n", sum(host));
    return 0;
  }
  wrapper.data = image;
  if (count > 3) { /* relocatable code of two units */
    static char second[1 << 16];
    static void *units[] = {image, second, 0};
    FILE *more = fopen(words[3], "rb");
    if (!more || !fread(second, 1, sizeof second, more)) return 9;
    wrapper.version = 2, wrapper.data = "\x7f" "ELF", wrapper.more = units;
  }
  void **handle = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(handle, (char *)order, "order", "order", -1, 0, 0, 0, 0, 0);
  __cudaRegisterFunction(handle, (char *)gather, "gather", "gather", -1, 0, 0, 0, 0, 0);
  __cudaRegisterVar(handle, &weight, "weight", "weight", 0, 4, 1, 0);
  __cudaRegisterVar(handle, &counter, "counter", "counter", 0, 4, 0, 0);
  __cudaRegisterFatBinaryEnd(handle);
  if (!strcmp(mode, "properties")) {
    char properties[1032];
    cudaGetDeviceProperties_v2(properties, 0);
    int *numbers = (int *)properties;
    printf("%s %d %d.%d\n", properties, numbers[97], numbers[90], numbers[91]);
    return 0;
  }
  if (!strcmp(mode, "managed")) { /* the host writes and reads the memory itself */
    cudaMallocManaged((void **)&index, sizeof host, 1);
    cudaMallocManaged((void **)&x, sizeof host, 1);
    cudaHostAlloc((void **)&y, sizeof host, 0);
    cudaMemcpyToSymbol(&weight, &three, 4, 0, 1);
    memcpy(x, host, sizeof host);
    run(index, x, y);
    cudaDeviceSynchronize();
    printf("%u ", sum(y));
    x[0] = 1000;
    run(index, x, y);
    cudaDeviceSynchronize();
    printf("%u\n", sum(y));
    return 0;
  }
  cudaMalloc((void **)&index, sizeof host);
  cudaMalloc((void **)&x, sizeof host);
  cudaMalloc((void **)&y, sizeof host);
  if (!strcmp(mode, "copies")) {
    unsigned *rows, back[N], seven;
    size_t pitch;
    cudaMemset(x, 1, sizeof host);
    cudaMemcpy(back, x, sizeof host, 2);
    printf("%x ", back[N - 1]);
    cudaMallocPitch((void **)&rows, &pitch, 64, 16);
    cudaMemcpy2D(rows, pitch, host, 64, 64, 16, 1);
    cudaMemcpy2D(back, 64, rows, pitch, 64, 16, 2);
    printf("%d %zu ", memcmp(back, host, sizeof host), pitch);
    cudaMemcpyFromSymbol(&seven, &counter, 4, 0, 2);
    printf("%u ", seven);
    printf("%d ", cudaMemcpy(x + N - 1, host, 8, 1)); /* across the end */
    printf("%d ", cudaGetLastError());
    cudaFree(rows);
    printf("%d ", cudaFree(rows));
    printf("%d\n", cudaMemset(rows, 0, 4));
  }
  if (!strcmp(mode, "fork")) {
    if (!fork()) return cudaFree(x);
    wait(0);
  }
  cudaMemcpyToSymbol(&weight, &three, 4, 0, 1);
  cudaMemcpy(x, host, sizeof host, 1);
  cudaMemset(y, 0, sizeof host);
  if (!strcmp(mode, "freed")) cudaFree(x);
  run(index, x, y);
  if (!strcmp(mode, "late")) cudaFree(x), cudaFree(index);
  if (!strcmp(mode, "array")) cudaMallocMipmappedArray(0, 0, 0, 0, 0);
  if (!strcmp(mode, "wait")) {
    puts("waiting");
    fflush(stdout);
    sleep(60);
  }
  cudaMemcpy(host, y, sizeof host, 2);
  printf("%u\n", sum(host));
  return !strcmp(mode, "fail") ? 3 : 0;
}
"""
"""A program that reads the image of a module from a file, and does what its second argument says.

A third argument is the image of another unit, which is linked to the first one.
"""


def fat_binary(parts: Sequence[tuple[int, int, int, bytes, int]]) -> bytes:
    """Return a fat binary of entries (kind, compute capability, flags, bytes, uncompressed size)."""
    body = b""
    for kind, capability, flags, data, size in parts:
        padded = data + bytes(-len(data) % 8)
        compressed = len(data) if flags & 0xA000 else 0
        body += struct.pack(
            "<HHIQIIHHIQQQQ", kind, 0x101, 64, len(padded), compressed, 0, 0, 8, capability, 0, flags, 0, size
        )
        body += padded
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def build_program(folder: Path, libraries: Path, text: str = PROGRAM, runtime: str = "libcudart.so.12") -> Path:
    """Compile a program against the stand-ins in a folder, those for CUDA 12 by default, and return it."""
    source, program = folder / "program.c", folder / "program"
    source.write_text(text)
    linked = [str(libraries / name) for name in (runtime, "libcuda.so.1")]
    subprocess.run(["gcc", "-w", str(source), "-o", str(program), *linked], check=True)
    return program


def write_images(folder: Path) -> tuple[Path, Path]:
    """Write the image of a fat binary with `PTX`, and of the text itself; return both files."""
    text = PTX.encode()
    fat, plain = folder / "image.fatbin", folder / "image.ptx"
    fat.write_bytes(fat_binary([(2, 75, 0, b"\x7fELF machine code", 0), (1, 75, 0, text, 0)]))
    plain.write_bytes(text)
    return fat, plain


def write_units(folder: Path) -> tuple[Path, Path]:
    """Write the images of two units that make `PTX` together, the first one with a function that the second calls."""
    first, _, gather = PTX.partition(".visible .entry gather")
    head = first.partition(".const")[0]
    first = first.replace(".const", ".extern .const").replace(
        ".visible .entry",
        ".visible .func (.param .b32 product) times(.param .b32 a, .param .b32 b) {"
        " .reg .b32 %r<4>; ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b]; mul.lo.u32 %r3, %r1, %r2;"
        " st.param.b32 [product], %r3; ret; }\n.visible .entry",
    )
    call = (
        "{ .param .b32 p0; st.param.b32 [p0], %r7; .param .b32 p1; st.param.b32 [p1], %r8; .param .b32 o0;"
        " call (o0), times, (p0, p1); ld.param.b32 %r9, [o0]; }"
    )
    second = (
        f"{head}.visible .const .align 4 .u32 weight;\n"
        ".extern .func (.param .b32 product) times(.param .b32 a, .param .b32 b);\n"
        f".visible .entry gather{gather.replace('mul.lo.u32 %r9, %r7, %r8;', call)}"
    )
    files = folder / "first.fatbin", folder / "second.fatbin"
    for file, text in zip(files, (first, second), strict=True):
        file.write_bytes(fat_binary([(2, 75, 0, b"\x7fELF machine code", 0), (1, 75, 0, text.encode(), 0)]))
    return files
