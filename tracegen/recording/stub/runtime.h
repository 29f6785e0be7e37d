/* Macros and types of the runtime interface. */

#ifndef RDMODEL_RECORDING_RUNTIME_H
#define RDMODEL_RECORDING_RUNTIME_H

#include "core.h"

typedef struct {
  unsigned x, y, z;
} dim3;

/* Store a result for cudaGetLastError, and return it. */
__attribute__((visibility("hidden"))) int done(int result);

#define API(name, ...) EXPORT int name(__VA_ARGS__)
/* Another name of a function. */
#define SAME(name, other) extern __typeof__(name) other __attribute__((alias(#name), visibility("default")));
/* A function that has no effect on a recording. */
#define NOTHING(name) \
  EXPORT int name(void) { return SUCCESS; }

#endif
