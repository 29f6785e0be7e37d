/* The part that both stand-ins share: the connection to the recorder, device memory, modules and launches. */

#ifndef RDMODEL_RECORDING_CORE_H
#define RDMODEL_RECORDING_CORE_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* Results that the runtime and the driver number alike. */
enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_CONFIGURATION = 9,
  INVALID_SYMBOL = 13,
  INVALID_FUNCTION = 98,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  ILLEGAL_ADDRESS = 700,
  NOT_SUPPORTED = 801,
};

/* Kinds of memory: only the device, both sides, and pages of the host that the device may access. */
enum { DEVICE_MEMORY, MANAGED_MEMORY, HOST_MEMORY };

typedef struct Module Module;
typedef struct Function Function;

struct Function {
  Module *module;
  char *name;
  const void *host; /* address of the host's function; NULL for those of the driver interface */
  long id;          /* number at the recorder; -1: not asked for yet */
  long shared, local, threads;
  int parameters;
  size_t *offsets, *sizes;
  Function *next;
};

typedef struct {
  const void *base;
  size_t bytes;
  int kind;
  int kept; /* whether it belongs to a graph, which may allocate it again */
} Block;

/* The names below are seen by the other library only. */
#define call rdmodel_call
#define property rdmodel_property
#define allocate rdmodel_allocate
#define keep_memory rdmodel_keep_memory
#define release rdmodel_release
#define find_block rdmodel_find_block
#define flush rdmodel_flush
#define synchronize rdmodel_synchronize
#define copy_memory rdmodel_copy_memory
#define copy_rows rdmodel_copy_rows
#define fill_memory rdmodel_fill_memory
#define fill_rows rdmodel_fill_rows
#define new_module rdmodel_new_module
#define load_module rdmodel_load_module
#define new_function rdmodel_new_function
#define load_function rdmodel_load_function
#define find_variable rdmodel_find_variable
#define share_variable rdmodel_share_variable
#define launch_kernel rdmodel_launch_kernel
#define not_provided rdmodel_not_provided
#define device_attribute rdmodel_device_attribute
#define resident_blocks rdmodel_resident_blocks
#define seconds_now rdmodel_seconds_now
#define error_name rdmodel_error_name
#define error_text rdmodel_error_text
#define new_handle rdmodel_new_handle

/* Send one line to the recorder and return its answer: 0, with the rest of the line in `answer`, or a result. */
EXPORT int call(char **answer, const void *payload, size_t bytes, const char *format, ...);
/* Return a number that describes the device, or 0. */
EXPORT long long property(const char *name);

EXPORT int allocate(void **pointer, size_t bytes, int kind);
EXPORT int keep_memory(void *pointer); /* let a release of an allocation have no effect */
EXPORT int release(void *pointer);
EXPORT int find_block(const void *pointer, Block *block); /* 1 if it lies in memory of the device */
EXPORT int flush(void);       /* execute what was launched, before its results are read or its inputs change */
EXPORT int synchronize(void); /* the same if the host can see results without a copy */
EXPORT int copy_memory(void *to, const void *from, size_t bytes);
EXPORT int copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height);
EXPORT int fill_memory(void *to, unsigned value, size_t element, size_t count);
EXPORT int fill_rows(void *to, size_t pitch, unsigned value, size_t element, size_t width, size_t height);

EXPORT Module *new_module(const void *image, void *const *units); /* units: those of relocatable code, or NULL */
EXPORT int load_module(Module *module);
EXPORT Function *new_function(Module *module, const char *name, const void *host);
EXPORT int load_function(Function *function);
EXPORT int find_variable(Module *module, const char *name, void **address, size_t *bytes);
EXPORT int share_variable(void *address); /* the host accesses a variable directly from now on */
EXPORT int launch_kernel(Function *function, const unsigned shape[6], size_t shared, void **arguments,
                         const void *packed, size_t packed_bytes, int cooperative, const unsigned *cluster);
EXPORT void not_provided(const char *name) __attribute__((noreturn));

EXPORT int device_attribute(int *value, int attribute);
EXPORT int resident_blocks(Function *function, int threads, size_t shared);
EXPORT double seconds_now(void);
EXPORT const char *error_name(int result);
EXPORT const char *error_text(int result);
EXPORT void *new_handle(void);

#endif
