/* Macros and types of the runtime interface. */

#ifndef RDMODEL_RECORDING_RUNTIME_H
#define RDMODEL_RECORDING_RUNTIME_H

#include "core.h"

typedef struct {
  unsigned x, y, z;
} dim3;

/* Store a result for cudaGetLastError, and return it. */
__attribute__((visibility("hidden"))) int done(int result);

/* Launch the kernel of a function of the host. */
__attribute__((visibility("hidden"))) int launch(const void *host, dim3 grid, dim3 block, void **arguments,
                                                 size_t shared, int cooperative, const unsigned *cluster);

typedef struct {
  void *pointer;
  size_t pitch, width, height;
} Pitched;

typedef struct {
  size_t x, y, z;
} Triple;

/* Parameters of a copy of a box. */
typedef struct {
  void *from_array;
  Triple from_position;
  Pitched from;
  void *to_array;
  Triple to_position;
  Pitched to;
  Triple extent;
  int kind;
} Copy3D;

__attribute__((visibility("hidden"))) int copy_box(const Copy3D *copy);
__attribute__((visibility("hidden"))) int copy_array(const Copy3D *copy);
__attribute__((visibility("hidden"))) char *start_of_rows(const Pitched *pitched, const Triple *position, size_t plane);
EXPORT int cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, int kind);
EXPORT int cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, int kind);

#define API(name, ...) EXPORT int name(__VA_ARGS__)
/* Another name of a function. */
#define SAME(name, other) extern __typeof__(name) other __attribute__((alias(#name), visibility("default")));
/* A function that has no effect on a recording. */
#define NOTHING(name) \
  EXPORT int name(void) { return SUCCESS; }

#endif
