"""A program with arrays, textures and surfaces, written as nvcc would compile it, and its kernels."""

from __future__ import annotations

TEXTURE_PTX = """
.version 8.0
.target sm_75
.address_size 64
.visible .entry read(.param .u64 texture, .param .u64 out, .param .u32 width) {
  .reg .b64 %rd<6>; .reg .b32 %r<6>; .reg .f32 %f<9>;
  ld.param.u64 %rd1, [texture]; ld.param.u64 %rd2, [out]; ld.param.u32 %r1, [width];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x;
  cvt.rn.f32.u32 %f1, %r2; cvt.rn.f32.u32 %f2, %r3; add.f32 %f1, %f1, 0f3F000000; add.f32 %f2, %f2, 0f3F000000;
  tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%rd1, {%f1, %f2}];
  mad.lo.u32 %r4, %r3, %r1, %r2; mul.wide.u32 %rd3, %r4, 4; add.s64 %rd4, %rd2, %rd3;
  st.global.f32 [%rd4], %f3;
  ret;
}
.visible .entry fetch(.param .u64 texture, .param .u64 out) {
  .reg .b64 %rd<6>; .reg .b32 %r<9>;
  ld.param.u64 %rd1, [texture]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x;
  tex.1d.v4.s32.s32 {%r2, %r3, %r4, %r5}, [%rd1, {%r1}];
  mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3; add.s32 %r6, %r2, %r3; st.global.u32 [%rd4], %r6;
  ret;
}
.visible .entry double(.param .u64 surface) {
  .reg .b64 %rd<3>; .reg .b32 %r<6>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [surface]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; shl.b32 %r3, %r1, 2;
  suld.b.2d.b32.trap {%r4}, [%rd1, {%r3, %r2}];
  mov.b32 %f1, %r4; add.f32 %f1, %f1, %f1; mov.b32 %r5, %f1;
  sust.b.2d.b32.trap [%rd1, {%r3, %r2}], {%r5};
  ret;
}
"""
"""Kernels: ``read`` samples a float at each texel, ``fetch`` adds two components, ``double`` changes a surface."""

TEXTURE_PROGRAM = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct { unsigned x, y, z; } dim3;
typedef struct { int x, y, z, w, format; } Channels;
typedef struct { size_t x, y, z; } Triple;
typedef struct { void *pointer; size_t pitch, width, height; } Pitched;
typedef struct {
  void *from_array; Triple from_position; Pitched from; void *to_array; Triple to_position; Pitched to; Triple extent;
  int kind;
} Copy;
typedef struct {
  int type;
  union {
    void *array;
    struct { void *place; Channels channels; size_t bytes; } linear;
    struct { void *place; Channels channels; size_t width, height, pitch; } pitched;
    int reserved[32];
  } of;
  unsigned flags;
} Resource;
typedef struct { int address[3], filter, read, srgb; float border[4]; int normalised, others[8]; } Sampling;
void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, void *);
int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
int cudaMalloc(void **, size_t), cudaMemcpy(void *, const void *, size_t, int);
int cudaMallocPitch(void **, size_t *, size_t, size_t);
int cudaMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, int);
Channels cudaCreateChannelDesc(int, int, int, int, int);
int cudaMallocArray(void **, const Channels *, size_t, size_t, unsigned), cudaFreeArray(void *);
int cudaMalloc3DArray(void **, const Channels *, Triple, unsigned);
int cudaArrayGetInfo(Channels *, Triple *, unsigned *, void *);
int cudaMemcpy2DToArray(void *, size_t, size_t, const void *, size_t, size_t, size_t, int);
int cudaMemcpy2DFromArray(void *, size_t, void *, size_t, size_t, size_t, size_t, int);
int cudaMemcpyToArray(void *, size_t, size_t, const void *, size_t, int), cudaMemcpy3D(const Copy *);
int cudaCreateTextureObject(uint64_t *, const Resource *, const Sampling *, const void *);
int cudaCreateSurfaceObject(uint64_t *, const Resource *), cudaDestroyTextureObject(uint64_t);

enum { W = 50, H = 21 };
static struct { uint32_t magic, version; const void *data; void *more; } wrapper = {0x466243b1, 1, 0, 0};
static void read(void) {}
static void fetch(void) {}
static void twice(void) {}
static float host[W * H], back[W * H];

static void show(const char *name, const void *values, int count, int floats) {
  printf("%s", name);
  for (int i = 0; i < count; i++) {
    if (floats) printf(" %g", ((const float *)values)[i]);
    else printf(" %d", ((const int *)values)[i]);
  }
  puts("");
}

int main(int count, char **words) {
  static char image[1 << 16];
  FILE *file = fopen(words[1], "rb");
  if (!file || !fread(image, 1, sizeof image - 1, file)) return 9;
  const char *mode = words[2];
  wrapper.data = image;
  void **handle = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(handle, (char *)read, "read", "read", -1, 0, 0, 0, 0, 0);
  __cudaRegisterFunction(handle, (char *)fetch, "fetch", "fetch", -1, 0, 0, 0, 0, 0);
  __cudaRegisterFunction(handle, (char *)twice, "double", "double", -1, 0, 0, 0, 0, 0);
  for (int i = 0; i < W * H; i++) host[i] = i;
  Channels floats = cudaCreateChannelDesc(32, 0, 0, 0, 2), pairs = cudaCreateChannelDesc(16, 16, 0, 0, 0);
  Sampling clamp = {{1, 1, 1}};
  Resource resource = {0};
  void *array, *out;
  uint64_t texture, surface;
  unsigned width = W;
  dim3 rows = {H, 1, 1}, columns = {W, 1, 1}, one = {1, 1, 1};
  cudaMalloc(&out, sizeof host);
  if (!strcmp(mode, "linear")) {
    short values[2 * W];
    void *place;
    for (int i = 0; i < 2 * W; i++) values[i] = i - W;
    cudaMalloc(&place, sizeof values), cudaMemcpy(place, values, sizeof values, 1);
    resource.type = 2, resource.of.linear.place = place, resource.of.linear.channels = pairs;
    resource.of.linear.bytes = sizeof values;
    cudaCreateTextureObject(&texture, &resource, &clamp, 0);
    cudaLaunchKernel(fetch, one, columns, (void *[]){&texture, &out}, 0, 0);
    cudaMemcpy(back, out, 4 * W, 2);
    show("fetched", back, W, 0);
    return 0;
  }
  if (!strcmp(mode, "pitched")) {
    size_t pitch;
    void *place;
    cudaMallocPitch(&place, &pitch, 4 * W, H), cudaMemcpy2D(place, pitch, host, 4 * W, 4 * W, H, 1);
    resource.type = 3, resource.of.pitched.place = place, resource.of.pitched.channels = floats;
    resource.of.pitched.width = W, resource.of.pitched.height = H, resource.of.pitched.pitch = pitch;
    printf("pitch %zu\n", pitch);
  } else {
    if (cudaMallocArray(&array, &floats, W, H, 2)) return 8;
    resource.of.array = array;
    if (!strcmp(mode, "device")) { /* from memory of the device, by a copy of a box */
      void *place;
      cudaMalloc(&place, sizeof host), cudaMemcpy(place, host, sizeof host, 1);
      Copy box = {.from = {place, 4 * W, W, H}, .to_array = array, .extent = {W, H, 1}};
      printf("%d\n", cudaMemcpy3D(&box));
    } else
      printf("%d\n", cudaMemcpy2DToArray(array, 0, 0, host, 4 * W, 4 * W, H, 1));
  }
  if (!strcmp(mode, "srgb")) clamp.srgb = 1;
  if (!strcmp(mode, "modes")) clamp.normalised = 1, clamp.address[1] = 0;
  printf("%d\n", cudaCreateTextureObject(&texture, &resource, &clamp, !strcmp(mode, "view") ? host : 0));
  cudaLaunchKernel(read, rows, columns, (void *[]){&texture, &out, &width}, 0, 0);
  if (!strcmp(mode, "surface")) {
    cudaCreateSurfaceObject(&surface, &resource);
    cudaLaunchKernel(twice, rows, columns, (void *[]){&surface}, 0, 0);
    float more[3] = {-1, -2, -3};
    cudaMemcpyToArray(array, 4 * (W - 2), 5, more, sizeof more, 1); /* from the end of a row to the next */
    memset(back, 0, sizeof back);
    cudaMemcpy2DFromArray(back, 4 * W, array, 12, 5, 4 * (W - 3), 2, 2);
    show("surface", back, 2 * W, 1);
    Channels found;
    Triple extent;
    unsigned flags;
    cudaArrayGetInfo(&found, &extent, &flags, array);
    printf("%d %d %zu %zu %zu %u\n", found.x, found.format, extent.x, extent.y, extent.z, flags);
    int outside = cudaMemcpy2DToArray(array, 4, 0, host, 4 * W, 4 * W, 1, 1);
    int destroyed = cudaDestroyTextureObject(texture), freed = cudaFreeArray(array);
    printf("%d %d %d %d\n", outside, destroyed, freed, cudaCreateTextureObject(&texture, &resource, &clamp, 0));
    return 0;
  }
  cudaMemcpy(back, out, sizeof back, 2);
  show("read", back, W * H, 1);
}
"""
"""A program that reads the image of `TEXTURE_PTX` from a file, and does what its second argument says."""
