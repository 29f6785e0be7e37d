/* The connection to the recorder, device memory, modules and launches.
 *
 * Device memory is a file that the recorder maps, too. It lies at one fixed place, so that an address of the device is
 * also one of the host, and no address is used twice. */

#define _GNU_SOURCE
#include "graphs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define MEMORY_BASE 0x10000000000ull
#define MEMORY_BYTES 0x8000000000ull /* variables of modules follow, up to twice as far */
#define MAPPED_BYTES (2 * MEMORY_BYTES)
#define ALIGNMENT 256
#define MAX_ANSWER (1 << 18)
#define EXIT_REFUSED 70

struct Module {
  const void *image;
  void *const *units; /* images of the units that were linked to this one, up to NULL */
  long id; /* number at the recorder; -1: not sent yet */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int channel = -1;
static pid_t owner;
static char *properties;
static int values;  /* whether the recorder executes kernels */
static int pending; /* whether kernels were launched since it last did */
static int visible; /* allocations that the host may access directly */
static Block *blocks;
static size_t block_count, block_room;
static size_t next_offset, live_bytes;

static void leave(const char *text) {
  fprintf(stderr, "rdmodel: error: %s\n", text);
  _exit(EXIT_REFUSED);
}

static void send_all(const char *data, size_t bytes) {
  while (bytes) {
    ssize_t sent = send(channel, data, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) _exit(EXIT_REFUSED); /* the recorder is gone, and has said why */
    data += sent, bytes -= sent;
  }
}

static char *receive_line(void) {
  static char line[MAX_ANSWER];
  size_t length = 0;
  while (!length || line[length - 1] != '\n') {
    ssize_t got = recv(channel, line + length, sizeof line - 1 - length, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) _exit(EXIT_REFUSED);
    length += got;
  }
  line[length - 1] = 0;
  return line;
}

static void connect_recorder(void) {
  int memory = -1;
  const char *text = getenv("RDMODEL_RECORDER");
  if (!text || sscanf(text, "%d:%d", &channel, &memory) != 2 || fcntl(channel, F_GETFD) < 0)
    leave("this CUDA library has no device; it serves programs that 'rdmodel record' started");
  void *place = mmap((void *)MEMORY_BASE, MAPPED_BYTES, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, memory, 0);
  if (place != (void *)MEMORY_BASE) leave("the addresses of device memory are taken; turn sanitizers off");
  owner = getpid();
  char hello[64];
  send_all(hello, snprintf(hello, sizeof hello, "hello %ld\n", (long)owner));
  const char *answer = receive_line();
  if (strncmp(answer, "ok ", 3)) _exit(EXIT_REFUSED);
  properties = strdup(answer + 2);
  values = strstr(properties, " values=1") != NULL;
}

static int exchange(char **answer, const void *payload, size_t bytes, const char *format, va_list arguments) {
  if (channel < 0) connect_recorder();
  /* The channel serves one process: requests of two would mix. */
  if (getpid() != owner) leave("a second process uses CUDA after a fork; it ends, and is not recorded");
  va_list again;
  va_copy(again, arguments);
  size_t length = vsnprintf(NULL, 0, format, arguments);
  if (!payload) bytes = 0;
  char *message = malloc(length + 1 + bytes);
  vsnprintf(message, length + 1, format, again);
  va_end(again);
  message[length] = '\n';
  if (bytes) memcpy(message + length + 1, payload, bytes);
  send_all(message, length + 1 + bytes);
  free(message);
  char *reply = receive_line();
  if (!strncmp(reply, "ok", 2)) {
    if (answer) *answer = strdup(reply + 2);
    return SUCCESS;
  }
  int result = 0;
  if (sscanf(reply, "error %d", &result) != 1) _exit(EXIT_REFUSED);
  return result;
}

int call(char **answer, const void *payload, size_t bytes, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  pthread_mutex_lock(&lock);
  int result = exchange(answer, payload, bytes, format, arguments);
  pthread_mutex_unlock(&lock);
  va_end(arguments);
  return result;
}

void not_provided(const char *name) {
  call(NULL, NULL, 0, "missing %s", name);
  _exit(EXIT_REFUSED);
}

static void connect_first(void) {
  pthread_mutex_lock(&lock);
  if (channel < 0) connect_recorder();
  pthread_mutex_unlock(&lock);
}

long long property(const char *name) {
  connect_first();
  size_t length = strlen(name);
  for (const char *at = properties; (at = strstr(at, name)); at += length)
    if (at[-1] == ' ' && at[length] == '=') return atoll(at + length + 1);
  return 0;
}

/* ---- memory */

static Block *block_of(const void *pointer) {
  size_t low = 0, high = block_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if ((const char *)blocks[middle].base <= (const char *)pointer)
      low = middle + 1;
    else
      high = middle;
  }
  return low ? &blocks[low - 1] : NULL;
}

int allocate(void **pointer, size_t bytes, int kind) {
  static const char *const kinds[] = {"device", "managed", "host"};
  connect_first();
  size_t room = (bytes ? bytes + ALIGNMENT - 1 : 1) / ALIGNMENT * ALIGNMENT + (bytes ? 0 : ALIGNMENT);
  *pointer = NULL;
  pthread_mutex_lock(&lock);
  size_t left = (size_t)(MEMORY_BYTES - next_offset);
  pthread_mutex_unlock(&lock);
  if (bytes > left || room > left) return OUT_OF_MEMORY;
  if (kind != HOST_MEMORY && live_bytes + bytes > (size_t)property("totalGlobalMem")) return OUT_OF_MEMORY;
  pthread_mutex_lock(&lock);
  if (block_count == block_room) {
    block_room = block_room ? 2 * block_room : 64;
    blocks = realloc(blocks, block_room * sizeof *blocks);
  }
  Block *block = &blocks[block_count++];
  *block = (Block){(char *)MEMORY_BASE + next_offset, bytes, kind, 0};
  next_offset += room;
  if (kind != HOST_MEMORY) live_bytes += bytes;
  visible += kind != DEVICE_MEMORY;
  *pointer = (void *)block->base;
  pthread_mutex_unlock(&lock);
  return call(NULL, NULL, 0, "allocate %s %llu %zu", kinds[kind], (unsigned long long)*pointer, bytes);
}

int keep_memory(void *pointer) {
  pthread_mutex_lock(&lock);
  block_of(pointer)->kept = 1;
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

int release(void *pointer) {
  if (!pointer) return SUCCESS;
  pthread_mutex_lock(&lock);
  Block *block = block_of(pointer);
  int known = block && block->base == pointer && block->kind >= 0, kept = known && block->kept;
  if (known && !kept) {
    if (block->kind != HOST_MEMORY) live_bytes -= block->bytes;
    visible -= block->kind != DEVICE_MEMORY;
    block->kind = -1;
  }
  pthread_mutex_unlock(&lock);
  if (kept) return SUCCESS;
  return known ? call(NULL, NULL, 0, "free %llu", (unsigned long long)pointer) : INVALID_VALUE;
}

int find_block(const void *pointer, Block *block) {
  uintptr_t address = (uintptr_t)pointer;
  if (address < MEMORY_BASE || address >= MEMORY_BASE + MAPPED_BYTES) return 0;
  *block = (Block){(void *)address, 0, DEVICE_MEMORY, 0};
  pthread_mutex_lock(&lock);
  Block *found = address < MEMORY_BASE + MEMORY_BYTES ? block_of(pointer) : NULL;
  if (found) *block = *found;
  pthread_mutex_unlock(&lock);
  return 1;
}

static int on_device(const void *pointer) {
  uintptr_t address = (uintptr_t)pointer;
  return address >= MEMORY_BASE && address < MEMORY_BASE + MAPPED_BYTES;
}

int flush(void) {
  if (!values || !pending) return SUCCESS;
  pending = 0;
  return call(NULL, NULL, 0, "flush");
}

int synchronize(void) { return visible ? flush() : SUCCESS; }

int copy_memory(void *to, const void *from, size_t bytes) {
  if (!bytes) return SUCCESS;
  if (!to || !from) return INVALID_VALUE;
  if (defer(&(Operation){.kind = COPY_NODE, .to = to, .from = from, .bytes = bytes})) return SUCCESS;
  int into = on_device(to), out = on_device(from);
  int result = into || out ? flush() : SUCCESS;
  if (result) return result;
  unsigned long long target = (unsigned long long)to, origin = (unsigned long long)from;
  if (into || out) /* before the copy, because an address outside every allocation is an error */
    result = call(NULL, NULL, 0, "inside %llu %llu %zu", into ? target : 0, out ? origin : 0, bytes);
  if (result) return result;
  memmove(to, from, bytes);
  if (into && out) return call(NULL, NULL, 0, "copy %llu %llu %zu", target, origin, bytes);
  if (into) return call(NULL, NULL, 0, "write %llu %zu", target, bytes);
  return out ? call(NULL, NULL, 0, "read %llu %zu", origin, bytes) : SUCCESS;
}

int copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height) {
  if (width == to_pitch && width == from_pitch) return copy_memory(to, from, width * height);
  int result = SUCCESS;
  for (size_t row = 0; row < height && !result; row++)
    result = copy_memory((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
  return result;
}

int fill_memory(void *to, unsigned value, size_t element, size_t count) {
  if (!count) return SUCCESS;
  if (!on_device(to)) return INVALID_VALUE;
  const Operation fill = {.kind = FILL_NODE, .to = to, .value = value, .element = element, .bytes = count};
  if (defer(&fill)) return SUCCESS;
  int result = flush();
  unsigned long long target = (unsigned long long)to;
  if (!result) result = call(NULL, NULL, 0, "inside %llu 0 %zu", target, element * count);
  if (result) return result;
  if (element == 1)
    memset(to, value, count);
  else
    for (size_t at = 0; at < count; at++) memcpy((char *)to + at * element, &value, element);
  return call(NULL, NULL, 0, "fill %llu %zu %u %zu", target, element, element == 1 ? value & 255 : value, count);
}

int fill_rows(void *to, size_t pitch, unsigned value, size_t element, size_t width, size_t height) {
  if (width * element == pitch) return fill_memory(to, value, element, width * height);
  int result = SUCCESS;
  for (size_t row = 0; row < height && !result; row++)
    result = fill_memory((char *)to + row * pitch, value, element, width);
  return result;
}

/* ---- modules and launches */

Module *new_module(const void *image, void *const *units) {
  Module *module = malloc(sizeof *module);
  *module = (Module){image, units, -1};
  return module;
}

static size_t image_bytes(const unsigned char *image) {
  uint32_t magic;
  uint16_t header;
  uint64_t body;
  memcpy(&magic, image, 4);
  if (magic == 0xBA55ED50u) {
    memcpy(&header, image + 6, 2);
    memcpy(&body, image + 8, 8);
    return header + body;
  }
  return magic == 0x464C457Fu ? 4 : strlen((const char *)image); /* ELF: machine code; else a text */
}

int load_module(Module *module) {
  if (module->id >= 0) return SUCCESS;
  char *answer, *joined = NULL;
  size_t bytes = module->units && *module->units ? 0 : image_bytes(module->image);
  if (!bytes)
    for (void *const *unit = module->units; *unit; unit++) {
      size_t more = image_bytes(*unit);
      joined = realloc(joined, bytes + more);
      memcpy(joined + bytes, *unit, more);
      bytes += more;
    }
  int result = call(&answer, joined ? joined : module->image, bytes, "module %zu", bytes);
  free(joined);
  if (result) return result;
  module->id = atol(answer);
  free(answer);
  return SUCCESS;
}

Function *new_function(Module *module, const char *name, const void *host) {
  Function *function = calloc(1, sizeof *function);
  function->module = module, function->name = strdup(name), function->host = host, function->id = -1;
  return function;
}

int load_function(Function *function) {
  if (function->id >= 0) return SUCCESS;
  int result = load_module(function->module);
  if (result) return result;
  char *answer, *at;
  result = call(&answer, NULL, 0, "function %ld %s", function->module->id, function->name);
  if (result) return result;
  long id = strtol(answer, &at, 10);
  function->shared = strtol(at, &at, 10);
  function->local = strtol(at, &at, 10);
  function->threads = strtol(at, &at, 10);
  function->parameters = (int)strtol(at, &at, 10);
  function->offsets = calloc(function->parameters + 1, sizeof(size_t));
  function->sizes = calloc(function->parameters + 1, sizeof(size_t));
  for (int n = 0; n < function->parameters; n++) {
    function->offsets[n] = strtoul(at, &at, 10);
    function->sizes[n] = strtoul(at, &at, 10);
  }
  free(answer);
  function->id = id;
  return SUCCESS;
}

int find_variable(Module *module, const char *name, void **address, size_t *bytes) {
  int result = load_module(module);
  if (result) return result;
  char *answer, *at;
  result = call(&answer, NULL, 0, "variable %ld %s", module->id, name);
  if (result) return result;
  *address = (void *)strtoull(answer, &at, 10);
  *bytes = strtoull(at, &at, 10);
  free(answer);
  return SUCCESS;
}

int share_variable(void *address) {
  visible++;
  return call(NULL, NULL, 0, "share %llu", (unsigned long long)address);
}

static size_t parameter_bytes(const Function *function) {
  int last = function->parameters - 1;
  return last < 0 ? 0 : function->offsets[last] + function->sizes[last];
}

int launch_kernel(Function *function, const unsigned shape[6], size_t shared, void **arguments, const void *packed,
                  size_t packed_bytes, int cooperative, const unsigned *cluster) {
  static const unsigned one[3] = {1, 1, 1};
  int result = load_function(function);
  if (result) return result;
  size_t bytes = parameter_bytes(function);
  if (packed && packed_bytes < bytes) return INVALID_VALUE;
  Operation launch = {.kind = KERNEL_NODE, .function = function, .shared = shared, .cooperative = cooperative};
  memcpy(launch.shape, shape, sizeof launch.shape);
  memcpy(launch.cluster, cluster ? cluster : one, sizeof launch.cluster);
  launch.parameters = calloc(bytes + 1, 1);
  if (packed)
    memcpy(launch.parameters, packed, bytes);
  else
    for (int n = 0; n < function->parameters; n++)
      memcpy(launch.parameters + function->offsets[n], arguments[n], function->sizes[n]);
  if (defer(&launch)) return SUCCESS;
  result = submit_kernel(&launch);
  free(launch.parameters);
  return result;
}

int submit_kernel(const Operation *launch) {
  size_t bytes = parameter_bytes(launch->function);
  const unsigned *shape = launch->shape, *cluster = launch->cluster;
  int result = call(NULL, launch->parameters, bytes, "launch %ld %u %u %u %u %u %u %zu %d %u %u %u %zu",
                    launch->function->id, shape[0], shape[1], shape[2], shape[3], shape[4], shape[5], launch->shared,
                    launch->cooperative, cluster[0], cluster[1], cluster[2], bytes);
  pending = pending || !result;
  return result;
}

/* ---- the rest */

int resident_blocks(Function *function, int threads, size_t shared) {
  if (threads < 1 || load_function(function)) return 0;
  long long most = property("maxBlocksPerMultiProcessor");
  long long warps = property("maxThreadsPerMultiProcessor") / 32 / ((threads + 31) / 32);
  long long memory = function->shared + shared + property("reservedSharedMemPerBlock");
  if (warps < most) most = warps;
  if (memory && property("sharedMemPerMultiprocessor") / memory < most)
    most = property("sharedMemPerMultiprocessor") / memory;
  return threads > property("maxThreadsPerBlock") ? 0 : (int)most;
}

double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

void *new_handle(void) {
  static uintptr_t last = 0x1000;
  return (void *)__atomic_add_fetch(&last, 16, __ATOMIC_SEQ_CST);
}

static const struct {
  int result;
  const char *name, *text;
} results[] = {
    {SUCCESS, "Success", "no error"},
    {INVALID_VALUE, "InvalidValue", "invalid argument"},
    {OUT_OF_MEMORY, "MemoryAllocation", "out of memory"},
    {INVALID_CONFIGURATION, "InvalidConfiguration", "invalid configuration argument"},
    {INVALID_SYMBOL, "InvalidSymbol", "invalid device symbol"},
    {INVALID_FUNCTION, "InvalidDeviceFunction", "invalid device function"},
    {INVALID_DEVICE, "InvalidDevice", "invalid device ordinal"},
    {INVALID_IMAGE, "InvalidKernelImage", "invalid kernel image"},
    {INVALID_HANDLE, "InvalidResourceHandle", "invalid resource handle"},
    {NOT_FOUND, "SymbolNotFound", "named symbol not found"},
    {ILLEGAL_ADDRESS, "IllegalAddress", "an access of a kernel outside every allocation"},
    {NOT_SUPPORTED, "NotSupported", "operation not supported"},
};

const char *error_name(int result) {
  for (size_t at = 0; at < sizeof results / sizeof *results; at++)
    if (results[at].result == result) return results[at].name;
  return "Unknown";
}

const char *error_text(int result) {
  for (size_t at = 0; at < sizeof results / sizeof *results; at++)
    if (results[at].result == result) return results[at].text;
  return "unrecognized error code";
}
