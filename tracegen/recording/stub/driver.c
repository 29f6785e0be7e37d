/* The driver interface, libcuda. */

#define _GNU_SOURCE
#include "graphs.h"
#include "properties.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API(name, ...) EXPORT int name(__VA_ARGS__)
#define SAME(name, other) extern __typeof__(name) other __attribute__((alias(#name), visibility("default")));
#define NOTHING(name) \
  EXPORT int name(void) { return SUCCESS; }

typedef unsigned long long Address;

static void *const context = (void *)0x100;

/* ---- devices and contexts */

NOTHING(cuInit)
API(cuDriverGetVersion, int *version) { return *version = 13000, SUCCESS; }
API(cuDeviceGetCount, int *count) { return *count = 1, SUCCESS; }
API(cuDeviceGet, int *device, int number) { return *device = 0, number ? INVALID_DEVICE : SUCCESS; }
API(cuDeviceGetName, char *name, int bytes, int device) { return (void)device, device_name(name, bytes), SUCCESS; }
API(cuDeviceTotalMem_v2, size_t *bytes, int device) {
  return (void)device, *bytes = property("totalGlobalMem"), SUCCESS;
}
API(cuDeviceGetAttribute, int *value, int attribute, int device) {
  return (void)device, device_attribute(value, attribute);
}
API(cuDeviceComputeCapability, int *major, int *minor, int device) {
  return (void)device, *major = property("major"), *minor = property("minor"), SUCCESS;
}
API(cuCtxCreate_v2, void **made, unsigned flags, int device) { return (void)flags, (void)device, *made = context, SUCCESS; }
API(cuCtxCreate_v4, void **made, void *parameters, unsigned flags, int device) {
  return (void)parameters, cuCtxCreate_v2(made, flags, device);
}
API(cuDevicePrimaryCtxRetain, void **made, int device) { return (void)device, *made = context, SUCCESS; }
API(cuCtxGetCurrent, void **current) { return *current = context, SUCCESS; }
SAME(cuCtxGetCurrent, cuCtxPopCurrent_v2)
API(cuCtxGetDevice, int *device) { return *device = 0, SUCCESS; }
API(cuCtxGetApiVersion, void *which, unsigned *version) { return (void)which, *version = 3020, SUCCESS; }
API(cuCtxSynchronize, void) { return synchronize(); }
NOTHING(cuCtxDestroy_v2)
NOTHING(cuCtxSetCurrent)
NOTHING(cuCtxPushCurrent_v2)
NOTHING(cuCtxSetCacheConfig)
NOTHING(cuCtxSetLimit)
NOTHING(cuDevicePrimaryCtxRelease)
NOTHING(cuDevicePrimaryCtxRelease_v2)
NOTHING(cuDevicePrimaryCtxSetFlags_v2)

/* ---- modules */

API(cuModuleLoadData, Module **module, const void *image) {
  const struct {
    uint32_t magic, version;
    const void *data;
  } *wrapper = image;
  *module = new_module(wrapper->magic == 0x466243B1u ? wrapper->data : image, NULL);
  return load_module(*module);
}
SAME(cuModuleLoadData, cuModuleLoadFatBinary)
API(cuModuleLoadDataEx, Module **module, const void *image, unsigned count, void *options, void **values) {
  return (void)count, (void)options, (void)values, cuModuleLoadData(module, image);
}

API(cuModuleLoad, Module **module, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return 301; /* no such file */
  char *image = NULL;
  size_t bytes = 0, got = 0;
  do {
    image = realloc(image, bytes + 65537);
    bytes += got = fread(image + bytes, 1, 65536, file);
  } while (got);
  image[bytes] = 0;
  fclose(file);
  return cuModuleLoadData(module, image);
}

NOTHING(cuModuleUnload)

API(cuModuleGetFunction, Function **function, Module *module, const char *name) {
  *function = new_function(module, name, NULL);
  return load_function(*function);
}

API(cuModuleGetGlobal_v2, Address *address, size_t *bytes, Module *module, const char *name) {
  void *found;
  size_t size;
  int result = find_variable(module, name, &found, &size);
  if (!result && address) *address = (Address)found;
  if (!result && bytes) *bytes = size;
  return result;
}

/* ---- kernels */

API(cuLaunchKernel, Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
    unsigned shared, void *stream, void **arguments, void **extra) {
  const unsigned shape[6] = {gx, gy, gz, bx, by, bz};
  const void *packed = NULL;
  size_t bytes = 0;
  for (; extra && *extra; extra += 2) { /* 1: the parameters; 2: their bytes; 0 ends the list */
    if ((uintptr_t)*extra == 1) packed = extra[1];
    if ((uintptr_t)*extra == 2) bytes = *(size_t *)extra[1];
  }
  return ON(stream, launch_kernel(function, shape, shared, arguments, packed, bytes, 0, NULL));
}

API(cuLaunchCooperativeKernel, Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
    unsigned bz, unsigned shared, void *stream, void **arguments) {
  const unsigned shape[6] = {gx, gy, gz, bx, by, bz};
  return ON(stream, launch_kernel(function, shape, shared, arguments, NULL, 0, 1, NULL));
}

API(cuFuncGetAttribute, int *value, int attribute, Function *function) {
  const int known[] = {(int)function->threads, (int)function->shared, 0, (int)function->local, 32, 0, 0};
  *value = attribute >= 0 && attribute < 5 ? known[attribute] : 10 * property("major") + property("minor");
  return SUCCESS;
}

NOTHING(cuFuncSetAttribute)
NOTHING(cuFuncSetCacheConfig)
NOTHING(cuFuncSetBlockShape)

API(cuOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks, Function *function, int threads, size_t shared) {
  return *blocks = resident_blocks(function, threads, shared), SUCCESS;
}

/* ---- memory */

API(cuMemAlloc_v2, Address *address, size_t bytes) { return bytes ? allocate((void **)address, bytes, DEVICE_MEMORY) : INVALID_VALUE; }
API(cuMemAllocAsync, Address *address, size_t bytes, void *stream) { return (void)stream, cuMemAlloc_v2(address, bytes); }
API(cuMemAllocManaged, Address *address, size_t bytes, unsigned flags) {
  return (void)flags, allocate((void **)address, bytes, MANAGED_MEMORY);
}
API(cuMemAllocHost_v2, void **pointer, size_t bytes) { return allocate(pointer, bytes, HOST_MEMORY); }
API(cuMemHostAlloc, void **pointer, size_t bytes, unsigned flags) { return (void)flags, cuMemAllocHost_v2(pointer, bytes); }
API(cuMemHostGetDevicePointer_v2, Address *address, void *pointer, unsigned flags) {
  Block block;
  (void)flags;
  if (!find_block(pointer, &block)) not_provided("cuMemHostGetDevicePointer (of memory from cuMemHostRegister)");
  return *address = (Address)pointer, SUCCESS;
}
API(cuMemFree_v2, Address address) { return release((void *)address); }
API(cuMemFreeAsync, Address address, void *stream) {
  return captured_graph(stream) ? SUCCESS : release((void *)address); /* memory of a graph stays */
}
API(cuMemFreeHost, void *pointer) { return release(pointer); }
API(cuMemGetInfo_v2, size_t *available, size_t *total) {
  *total = property("totalGlobalMem");
  return *available = *total - *total / 32, SUCCESS;
}

API(cuMemcpy, Address to, Address from, size_t bytes) { return copy_memory((void *)to, (void *)from, bytes); }
SAME(cuMemcpy, cuMemcpyDtoD_v2)
API(cuMemcpyHtoD_v2, Address to, const void *from, size_t bytes) { return copy_memory((void *)to, from, bytes); }
API(cuMemcpyDtoH_v2, void *to, Address from, size_t bytes) { return copy_memory(to, (void *)from, bytes); }
API(cuMemcpyAsync, Address to, Address from, size_t bytes, void *stream) { return ON(stream, cuMemcpy(to, from, bytes)); }
SAME(cuMemcpyAsync, cuMemcpyDtoDAsync_v2)
API(cuMemcpyHtoDAsync_v2, Address to, const void *from, size_t bytes, void *stream) {
  return ON(stream, cuMemcpyHtoD_v2(to, from, bytes));
}
API(cuMemcpyDtoHAsync_v2, void *to, Address from, size_t bytes, void *stream) {
  return ON(stream, cuMemcpyDtoH_v2(to, from, bytes));
}

API(cuMemsetD8_v2, Address to, unsigned char value, size_t count) { return fill_memory((void *)to, value, 1, count); }
API(cuMemsetD16_v2, Address to, unsigned short value, size_t count) { return fill_memory((void *)to, value, 2, count); }
API(cuMemsetD32_v2, Address to, unsigned value, size_t count) { return fill_memory((void *)to, value, 4, count); }
API(cuMemsetD8Async, Address to, unsigned char value, size_t count, void *stream) {
  return ON(stream, cuMemsetD8_v2(to, value, count));
}
API(cuMemsetD32Async, Address to, unsigned value, size_t count, void *stream) {
  return ON(stream, cuMemsetD32_v2(to, value, count));
}

/* ---- streams and events */

API(cuStreamCreate, void **stream, unsigned flags) { return (void)flags, *stream = new_handle(), SUCCESS; }
API(cuStreamCreateWithPriority, void **stream, unsigned flags, int priority) {
  return (void)priority, cuStreamCreate(stream, flags);
}
API(cuStreamSynchronize, void *stream) { return (void)stream, synchronize(); }
SAME(cuStreamSynchronize, cuStreamQuery)
SAME(cuStreamSynchronize, cuEventSynchronize)
SAME(cuStreamSynchronize, cuEventQuery)
NOTHING(cuStreamDestroy_v2)
API(cuStreamWaitEvent, void *stream, const Event *event, unsigned flags) {
  return (void)flags, wait_event(stream, event), SUCCESS;
}
API(cuEventCreate, Event **event, unsigned flags) { return (void)flags, *event = calloc(1, sizeof **event), SUCCESS; }
API(cuEventRecord, Event *event, void *stream) { return record_event(event, stream), SUCCESS; }
API(cuEventElapsedTime, float *milliseconds, const Event *start, const Event *end) {
  return *milliseconds = (float)(1000 * (end->seconds - start->seconds)) + 1e-6f, SUCCESS;
}
SAME(cuEventElapsedTime, cuEventElapsedTime_v2)
API(cuEventDestroy_v2, Event *event) { return free(event), SUCCESS; }

/* ---- graphs, which streams are captured into */

API(cuLaunchHostFunc, void *stream, void (*function)(void *), void *data) {
  return ON(stream, host_function(function, data));
}
API(cuStreamBeginCapture_v2, void *stream, int mode) { return (void)mode, begin_capture(stream, NULL); }
API(cuStreamEndCapture, void *stream, Graph **graph) { return end_capture(stream, graph); }
API(cuStreamIsCapturing, void *stream, int *status) { return *status = captured_graph(stream) != NULL, SUCCESS; }
API(cuThreadExchangeStreamCaptureMode, int *mode) { return *mode = 0, SUCCESS; }
API(cuGraphInstantiateWithFlags, Graph **executable, const Graph *graph, unsigned long long flags) {
  return (void)flags, *executable = copy_graph(graph), SUCCESS;
}
SAME(cuGraphInstantiateWithFlags, cuGraphInstantiateWithParams)
API(cuGraphLaunch, Graph *executable, void *stream) { return (void)stream, run_graph(executable); }
NOTHING(cuGraphUpload)
NOTHING(cuGraphExecDestroy)
NOTHING(cuGraphDestroy)

/* ---- errors, entry points */

API(cuGetErrorString, int result, const char **text) { return *text = error_text(result), SUCCESS; }
API(cuGetErrorName, int result, const char **text) { return *text = error_name(result), SUCCESS; }

API(cuGetProcAddress_v2, const char *name, void **function, int version, uint64_t flags, int *status) {
  char longer[128];
  (void)version, (void)flags;
  snprintf(longer, sizeof longer, "%s_v2", name);
  *function = dlsym(RTLD_DEFAULT, longer);
  if (!*function) *function = dlsym(RTLD_DEFAULT, name);
  if (status) *status = !*function;
  return *function ? SUCCESS : NOT_FOUND;
}
API(cuGetProcAddress, const char *name, void **function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

API(cuGetExportTable, const void **table, const void *id) {
  (void)table, (void)id;
  not_provided("cuGetExportTable");
}
