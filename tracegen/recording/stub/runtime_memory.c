/* The runtime interface, libcudart: memory and copies. */

#include "graphs.h"
#include "runtime.h"

#include <stdlib.h>

API(cudaMalloc, void **pointer, size_t bytes) { return done(pointer ? allocate(pointer, bytes, DEVICE_MEMORY) : INVALID_VALUE); }
API(cudaMallocAsync, void **pointer, size_t bytes, void *stream) {
  int result = cudaMalloc(pointer, bytes);
  return result || !captured_graph(stream) ? result : keep_memory(*pointer);
}
SAME(cudaMallocAsync, cudaMallocAsync_ptsz)
API(cudaMallocFromPoolAsync, void **pointer, size_t bytes, void *pool, void *stream) {
  return (void)pool, cudaMallocAsync(pointer, bytes, stream);
}
API(cudaMallocManaged, void **pointer, size_t bytes, unsigned flags) {
  return (void)flags, done(allocate(pointer, bytes, MANAGED_MEMORY));
}
API(cudaMallocHost, void **pointer, size_t bytes) { return done(allocate(pointer, bytes, HOST_MEMORY)); }
API(cudaHostAlloc, void **pointer, size_t bytes, unsigned flags) { return (void)flags, cudaMallocHost(pointer, bytes); }
API(cudaFree, void *pointer) { return done(release(pointer)); }
API(cudaFreeAsync, void *pointer, void *stream) {
  return captured_graph(stream) ? SUCCESS : cudaFree(pointer); /* memory of a graph is allocated once, and stays */
}
SAME(cudaFreeAsync, cudaFreeAsync_ptsz)
SAME(cudaFree, cudaFreeHost)

static size_t pitch_of(size_t width) { return (width + 511) / 512 * 512; }

API(cudaMallocPitch, void **pointer, size_t *pitch, size_t width, size_t height) {
  *pitch = pitch_of(width);
  return cudaMalloc(pointer, *pitch * height);
}

API(cudaMalloc3D, Pitched *pitched, Triple extent) {
  *pitched = (Pitched){NULL, pitch_of(extent.x), extent.x, extent.y};
  return cudaMalloc(&pitched->pointer, pitched->pitch * extent.y * extent.z);
}

/* Pages of the host that the program has allocated itself: kernels may not access them here. */
API(cudaHostRegister, void *pointer, size_t bytes, unsigned flags) {
  return (void)pointer, (void)bytes, (void)flags, SUCCESS;
}
API(cudaHostUnregister, void *pointer) { return (void)pointer, SUCCESS; }

API(cudaHostGetDevicePointer, void **device, void *host, unsigned flags) {
  Block block;
  (void)flags;
  if (!find_block(host, &block)) not_provided("cudaHostGetDevicePointer (of memory from cudaHostRegister)");
  *device = host;
  return SUCCESS;
}

API(cudaHostGetFlags, unsigned *flags, void *host) { return (void)host, *flags = 0, SUCCESS; }

API(cudaMemGetInfo, size_t *available, size_t *total) {
  *total = property("totalGlobalMem");
  *available = *total - *total / 32;
  return SUCCESS;
}

typedef struct {
  int type, device;
  void *device_pointer, *host_pointer;
} PointerAttributes;

API(cudaPointerGetAttributes, PointerAttributes *attributes, const void *pointer) {
  Block block;
  *attributes = (PointerAttributes){0, 0, NULL, (void *)pointer};
  if (find_block(pointer, &block)) {
    attributes->type = block.kind == DEVICE_MEMORY ? 2 : block.kind == MANAGED_MEMORY ? 3 : 1;
    attributes->device_pointer = (void *)pointer;
    attributes->host_pointer = block.kind == DEVICE_MEMORY ? NULL : (void *)pointer;
  }
  return SUCCESS;
}

NOTHING(cudaMemAdvise)
NOTHING(cudaMemAdvise_v2)
NOTHING(cudaMemPrefetchAsync)
NOTHING(cudaMemPrefetchAsync_v2)
NOTHING(cudaDeviceEnablePeerAccess)

/* ---- copies */

API(cudaMemcpy, void *to, const void *from, size_t bytes, int kind) { return (void)kind, done(copy_memory(to, from, bytes)); }
SAME(cudaMemcpy, cudaMemcpy_ptds)

API(cudaMemcpyAsync, void *to, const void *from, size_t bytes, int kind, void *stream) {
  return (void)kind, done(ON(stream, copy_memory(to, from, bytes)));
}
SAME(cudaMemcpyAsync, cudaMemcpyAsync_ptsz)

API(cudaMemcpyPeer, void *to, int to_device, const void *from, int from_device, size_t bytes) {
  return (void)to_device, (void)from_device, done(copy_memory(to, from, bytes));
}

API(cudaMemcpyPeerAsync, void *to, int to_device, const void *from, int from_device, size_t bytes, void *stream) {
  return (void)to_device, (void)from_device, done(ON(stream, copy_memory(to, from, bytes)));
}

API(cudaMemcpy2D, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
    int kind) {
  return (void)kind, done(copy_rows(to, to_pitch, from, from_pitch, width, height));
}
API(cudaMemcpy2DAsync, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
    int kind, void *stream) {
  return ON(stream, cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind));
}

char *start_of_rows(const Pitched *pitched, const Triple *position, size_t plane) {
  return (char *)pitched->pointer + position->x + pitched->pitch * (position->y + pitched->height * (position->z + plane));
}

int copy_box(const Copy3D *copy) {
  if (copy->from_array || copy->to_array) return copy_array(copy);
  int result = SUCCESS;
  for (size_t plane = 0; plane < copy->extent.z && !result; plane++)
    result = copy_rows(start_of_rows(&copy->to, &copy->to_position, plane), copy->to.pitch,
                       start_of_rows(&copy->from, &copy->from_position, plane), copy->from.pitch, copy->extent.x,
                       copy->extent.y);
  return result;
}
API(cudaMemcpy3D, const Copy3D *copy) { return done(copy_box(copy)); }
API(cudaMemcpy3DAsync, const Copy3D *copy, void *stream) { return ON(stream, cudaMemcpy3D(copy)); }

API(cudaMemset, void *to, int value, size_t bytes) { return done(fill_memory(to, value, 1, bytes)); }
API(cudaMemsetAsync, void *to, int value, size_t bytes, void *stream) { return ON(stream, cudaMemset(to, value, bytes)); }
SAME(cudaMemset, cudaMemset_ptds)
SAME(cudaMemsetAsync, cudaMemsetAsync_ptsz)
API(cudaMemset2D, void *to, size_t pitch, int value, size_t width, size_t height) {
  return done(fill_rows(to, pitch, value, 1, width, height));
}
API(cudaMemset2DAsync, void *to, size_t pitch, int value, size_t width, size_t height, void *stream) {
  return ON(stream, cudaMemset2D(to, pitch, value, width, height));
}
API(cudaMemset3D, Pitched to, int value, Triple extent) {
  int result = SUCCESS;
  for (size_t plane = 0; plane < extent.z && !result; plane++)
    result = fill_rows((char *)to.pointer + plane * to.pitch * to.height, to.pitch, value, 1, extent.x, extent.y);
  return done(result);
}
