/* The runtime interface, libcudart: registration of kernels, launches, variables and devices.
 *
 * CUDART_MAJOR is the version of CUDA that the program was linked with. Everything happens at once, so streams
 * order nothing. */

#define _GNU_SOURCE
#include "graphs.h"
#include "properties.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

static __thread int last_error;

int done(int result) {
  if (result) last_error = result;
  return result;
}

/* ---- registration */

typedef struct {
  uint32_t magic, version;
  const void *data;
  void *const *units; /* in version 2, of relocatable code: the images that were linked */
} Wrapper;

typedef struct Symbol {
  const void *host;
  Module *module;
  char *name;
  void **pointer; /* of a managed variable: the host's pointer to it */
  size_t bytes;
  struct Symbol *next;
} Symbol;

static Function *functions;
static Symbol *symbols;

EXPORT void **__cudaRegisterFatBinary(void *wrapper) {
  void **handle = malloc(sizeof *handle);
  const Wrapper *given = wrapper;
  *handle = new_module(given->data, given->version == 2 ? given->units : NULL);
  return handle;
}

EXPORT void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
EXPORT void __cudaUnregisterFatBinary(void **handle) { (void)handle; }

EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
                                   void *thread, void *block, void *block_shape, void *grid_shape, int *warp) {
  (void)device, (void)limit, (void)thread, (void)block, (void)block_shape, (void)grid_shape, (void)warp;
  Function *function = new_function(*handle, name, host);
  function->next = functions;
  functions = function;
}

static Symbol *add_symbol(void **handle, const void *host, const char *name, size_t bytes) {
  Symbol *symbol = calloc(1, sizeof *symbol);
  *symbol = (Symbol){host, *handle, strdup(name), NULL, bytes, symbols};
  return symbols = symbol;
}

EXPORT void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes,
                              int constant, int global) {
  (void)device, (void)external, (void)constant, (void)global;
  add_symbol(handle, host, name, bytes);
}

EXPORT void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int external,
                                     size_t bytes, int constant, int global) {
  (void)device, (void)external, (void)constant, (void)global;
  add_symbol(handle, host, name, bytes)->pointer = host;
}

/* Called before the host uses a managed variable for the first time: its pointer gets the address. */
EXPORT char __cudaInitModule(void **handle) {
  size_t bytes;
  for (Symbol *symbol = symbols; symbol; symbol = symbol->next)
    if (symbol->pointer && symbol->module == *handle && !*symbol->pointer)
      if (find_variable(symbol->module, symbol->name, symbol->pointer, &bytes) || share_variable(*symbol->pointer))
        return 0;
  return 1;
}

static int kernel_of(const void *host, Function **function) {
  for (*function = functions; *function; *function = (*function)->next)
    if ((*function)->host == host || *function == host) return load_function(*function);
  return INVALID_FUNCTION;
}

static int symbol_of(const void *host, char **address, size_t *bytes) {
  for (Symbol *symbol = symbols; symbol; symbol = symbol->next)
    if (symbol->host == host) return find_variable(symbol->module, symbol->name, (void **)address, bytes);
  return INVALID_SYMBOL;
}

/* ---- launches */

static __thread struct {
  dim3 grid, block;
  size_t shared;
  void *stream;
} configurations[16];
static __thread int configured;

EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
  if (configured == 16) return INVALID_CONFIGURATION;
  configurations[configured].grid = grid, configurations[configured].block = block;
  configurations[configured].shared = shared, configurations[configured++].stream = stream;
  return SUCCESS;
}

EXPORT int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  if (!configured) return INVALID_CONFIGURATION;
  *grid = configurations[--configured].grid, *block = configurations[configured].block;
  *shared = configurations[configured].shared, *(void **)stream = configurations[configured].stream;
  return SUCCESS;
}

int launch(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared, int cooperative,
           const unsigned *cluster) {
  Function *function;
  const unsigned shape[6] = {grid.x, grid.y, grid.z, block.x, block.y, block.z};
  int result = kernel_of(host, &function);
  return done(result ? result
                     : launch_kernel(function, shape, shared, arguments, NULL, 0, cooperative, cluster));
}

API(cudaLaunchKernel, const void *host, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream) {
  return ON(stream, launch(host, grid, block, arguments, shared, 0, NULL));
}
SAME(cudaLaunchKernel, cudaLaunchKernel_ptsz)
SAME(cudaLaunchKernel, __cudaLaunchKernel)
SAME(cudaLaunchKernel, __cudaLaunchKernel_ptsz)

API(cudaLaunchCooperativeKernel, const void *host, dim3 grid, dim3 block, void **arguments, size_t shared,
    void *stream) {
  return ON(stream, launch(host, grid, block, arguments, shared, 1, NULL));
}

typedef struct {
  int id;
  char pad[4];
  union {
    char bytes[64];
    unsigned cluster[3];
    int flag;
  } value;
} Attribute;

typedef struct {
  dim3 grid, block;
  size_t shared;
  void *stream;
  Attribute *attributes;
  unsigned count;
} LaunchConfiguration;

API(cudaLaunchKernelExC, const LaunchConfiguration *configuration, const void *host, void **arguments) {
  const unsigned *cluster = NULL;
  int cooperative = 0;
  for (unsigned at = 0; at < configuration->count; at++) {
    const Attribute *attribute = &configuration->attributes[at];
    if (attribute->id == 4) cluster = attribute->value.cluster;
    if (attribute->id == 2) cooperative = attribute->value.flag;
  }
  return ON(configuration->stream, launch(host, configuration->grid, configuration->block, arguments,
                                          configuration->shared, cooperative, cluster));
}

EXPORT int __cudaGetKernel(void **kernel, const void *host) {
  *kernel = (void *)host; /* without the recorder: kernels are looked up before main, too */
  return SUCCESS;
}

API(cudaFuncGetAttributes, void *attributes, const void *host) {
  struct {
    size_t shared, constant, local;
    int threads, registers, ptx, binary, cache, dynamic, carveout;
  } found = {0};
  Function *function;
  int result = kernel_of(host, &function);
  if (result) return done(result);
  found.shared = function->shared, found.local = function->local, found.threads = function->threads;
  found.registers = 32, found.ptx = found.binary = property("major") * 10 + property("minor");
  found.dynamic = property("sharedMemPerBlock") - function->shared, found.carveout = -1;
  memcpy(attributes, &found, sizeof found);
  return SUCCESS;
}

API(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int *blocks, const void *host, int threads, size_t shared,
    unsigned flags) {
  (void)flags;
  Function *function;
  int result = kernel_of(host, &function);
  if (!result) *blocks = resident_blocks(function, threads, shared);
  return done(result);
}

API(cudaOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks, const void *host, int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, threads, shared, 0);
}

/* ---- variables */

API(cudaGetSymbolAddress, void **address, const void *symbol) {
  size_t bytes;
  return done(symbol_of(symbol, (char **)address, &bytes));
}

API(cudaGetSymbolSize, size_t *bytes, const void *symbol) {
  char *address;
  return done(symbol_of(symbol, &address, bytes));
}

API(cudaMemcpyToSymbol, const void *symbol, const void *from, size_t count, size_t offset, int kind) {
  char *address;
  size_t bytes;
  (void)kind;
  int result = symbol_of(symbol, &address, &bytes);
  if (!result && (offset > bytes || count > bytes - offset)) result = INVALID_VALUE;
  return done(result ? result : copy_memory(address + offset, from, count));
}

API(cudaMemcpyFromSymbol, void *to, const void *symbol, size_t count, size_t offset, int kind) {
  char *address;
  size_t bytes;
  (void)kind;
  int result = symbol_of(symbol, &address, &bytes);
  if (!result && (offset > bytes || count > bytes - offset)) result = INVALID_VALUE;
  return done(result ? result : copy_memory(to, address + offset, count));
}

API(cudaMemcpyToSymbolAsync, const void *symbol, const void *from, size_t count, size_t offset, int kind, void *stream) {
  return ON(stream, cudaMemcpyToSymbol(symbol, from, count, offset, kind));
}

API(cudaMemcpyFromSymbolAsync, void *to, const void *symbol, size_t count, size_t offset, int kind, void *stream) {
  return ON(stream, cudaMemcpyFromSymbol(to, symbol, count, offset, kind));
}

/* ---- devices */

#if CUDART_MAJOR < 12
#define OLD_BYTES 728
#else
#define OLD_BYTES (CUDART_MAJOR == 12 ? 728 : 1008)
#endif

API(cudaGetDeviceProperties, void *properties, int device) {
  if (device) return done(INVALID_DEVICE);
  device_properties(properties, OLD_BYTES, CUDART_MAJOR > 12);
  return SUCCESS;
}

API(cudaGetDeviceProperties_v2, void *properties, int device) {
  if (device) return done(INVALID_DEVICE);
  device_properties(properties, 1032, 0);
  return SUCCESS;
}

API(cudaDeviceGetAttribute, int *value, int attribute, int device) {
  return done(device ? INVALID_DEVICE : device_attribute(value, attribute));
}

API(cudaSetDevice, int device) { return done(device ? INVALID_DEVICE : SUCCESS); }
API(cudaGetDevice, int *device) { return *device = 0, SUCCESS; }
API(cudaGetDeviceCount, int *count) { return *count = 1, SUCCESS; }
API(cudaChooseDevice, int *device, const void *wanted) { return (void)wanted, *device = 0, SUCCESS; }
API(cudaDeviceSynchronize, void) { return done(synchronize()); }
SAME(cudaDeviceSynchronize, cudaThreadSynchronize)
API(cudaDeviceReset, void) { return SUCCESS; }
SAME(cudaDeviceReset, cudaThreadExit)
API(cudaDeviceCanAccessPeer, int *can, int device, int peer) { return (void)device, (void)peer, *can = 0, SUCCESS; }
API(cudaDeviceGetLimit, size_t *value, int limit) { return (void)limit, *value = 8 << 20, SUCCESS; }
API(cudaDeviceGetCacheConfig, int *config) { return *config = 0, SUCCESS; }
API(cudaDeviceGetSharedMemConfig, int *config) { return *config = 1, SUCCESS; }
API(cudaDeviceGetStreamPriorityRange, int *least, int *most) { return *least = 0, *most = -5, SUCCESS; }
API(cudaGetDeviceFlags, unsigned *flags) { return *flags = 0, SUCCESS; }
API(cudaDeviceGetDefaultMemPool, void **pool, int device) { return (void)device, *pool = new_handle(), SUCCESS; }
API(cudaRuntimeGetVersion, int *version) { return *version = 1000 * CUDART_MAJOR, SUCCESS; }
API(cudaDriverGetVersion, int *version) { return *version = 1000 * CUDART_MAJOR, SUCCESS; }
API(cudaDeviceGetPCIBusId, char *text, int bytes, int device) {
  (void)device;
  snprintf(text, bytes, "0000:00:00.0");
  return SUCCESS;
}

NOTHING(cudaSetDeviceFlags)
NOTHING(cudaSetValidDevices)
NOTHING(cudaInitDevice)
NOTHING(cudaDeviceSetLimit)
NOTHING(cudaThreadSetLimit)
NOTHING(cudaDeviceSetCacheConfig)
NOTHING(cudaThreadSetCacheConfig)
NOTHING(cudaDeviceSetSharedMemConfig)
NOTHING(cudaFuncSetCacheConfig)
NOTHING(cudaFuncSetSharedMemConfig)
NOTHING(cudaFuncSetAttribute)
NOTHING(cudaCtxResetPersistingL2Cache)
NOTHING(cudaMemPoolSetAttribute)
NOTHING(cudaMemPoolTrimTo)
NOTHING(cudaProfilerStart)
NOTHING(cudaProfilerStop)

/* ---- functions of the driver, by name */

static int find_function(const char *name, void **function, int *status) {
  char longer[128];
  snprintf(longer, sizeof longer, "%s_v2", name);
  *function = dlsym(RTLD_DEFAULT, longer);
  if (!*function) *function = dlsym(RTLD_DEFAULT, name);
  if (status) *status = !*function;
  return done(*function ? SUCCESS : NOT_FOUND);
}

API(cudaGetDriverEntryPoint, const char *name, void **function, unsigned long long flags, int *status) {
  return (void)flags, find_function(name, function, status);
}
SAME(cudaGetDriverEntryPoint, cudaGetDriverEntryPoint_ptsz)
API(cudaGetDriverEntryPointByVersion, const char *name, void **function, unsigned version, unsigned long long flags,
    int *status) {
  return (void)version, (void)flags, find_function(name, function, status);
}
SAME(cudaGetDriverEntryPointByVersion, cudaGetDriverEntryPointByVersion_ptsz)

/* ---- errors */

API(cudaGetLastError, void) {
  int result = last_error;
  last_error = SUCCESS;
  return result;
}
API(cudaPeekAtLastError, void) { return last_error; }
EXPORT const char *cudaGetErrorString(int result) { return error_text(result); }
EXPORT const char *cudaGetErrorName(int result) {
  static __thread char name[64];
  snprintf(name, sizeof name, "cuda%s%s", result ? "Error" : "", error_name(result));
  return name;
}
