/* The numbers that describe the device: attributes, and the places of fields in the structure of each CUDA version. */

#include "core.h"
#include "properties.h"

#include <string.h>

/* Name, number of the attribute (0: none), place up to CUDA 12 and since CUDA 13 (-1: no such field), bytes. */
static const struct {
  const char *name;
  int attribute, place12, place13, bytes;
} fields[] = {
    {"totalGlobalMem", 0, 288, 288, 8},
    {"sharedMemPerBlock", 8, 296, 296, 8},
    {"regsPerBlock", 12, 304, 304, 4},
    {"warpSize", 10, 308, 308, 4},
    {"memPitch", 11, 312, 312, 8},
    {"maxThreadsPerBlock", 1, 320, 320, 4},
    {"maxThreadsDimX", 2, 324, 324, 4},
    {"maxThreadsDimY", 3, 328, 328, 4},
    {"maxThreadsDimZ", 4, 332, 332, 4},
    {"maxGridSizeX", 5, 336, 336, 4},
    {"maxGridSizeY", 6, 340, 340, 4},
    {"maxGridSizeZ", 7, 344, 344, 4},
    {"clockRate", 13, 348, -1, 4},
    {"totalConstMem", 9, 352, 352, 8},
    {"major", 75, 360, 360, 4},
    {"minor", 76, 364, 364, 4},
    {"textureAlignment", 14, 368, 368, 8},
    {"texturePitchAlignment", 51, 376, 376, 8},
    {"deviceOverlap", 15, 384, -1, 4},
    {"multiProcessorCount", 16, 388, 384, 4},
    {"canMapHostMemory", 19, 400, 392, 4},
    {"concurrentKernels", 31, 576, 560, 4},
    {"asyncEngineCount", 40, 600, 584, 4},
    {"unifiedAddressing", 41, 604, 588, 4},
    {"memoryClockRate", 36, 608, -1, 4},
    {"memoryBusWidth", 37, 612, 592, 4},
    {"l2CacheSize", 38, 616, 596, 4},
    {"maxThreadsPerMultiProcessor", 39, 624, 604, 4},
    {"streamPrioritiesSupported", 78, 628, 608, 4},
    {"globalL1CacheSupported", 79, 632, 612, 4},
    {"localL1CacheSupported", 80, 636, 616, 4},
    {"sharedMemPerMultiprocessor", 81, 640, 624, 8},
    {"regsPerMultiprocessor", 82, 648, 632, 4},
    {"managedMemory", 83, 652, 636, 4},
    {"concurrentManagedAccess", 89, 676, 656, 4},
    {"cooperativeLaunch", 95, 688, 668, 4},
    {"sharedMemPerBlockOptin", 97, 696, 672, 8},
    {"maxBlocksPerMultiProcessor", 106, 712, 688, 4},
    {"reservedSharedMemPerBlock", 111, 720, 696, 8},
    {"memoryPoolsSupported", 115, -1, 720, 4},
    {"clusterLaunch", 120, -1, 748, 4},
};

int device_attribute(int *value, int attribute) {
  *value = 0;
  for (size_t at = 0; at < sizeof fields / sizeof *fields; at++)
    if (fields[at].attribute == attribute) *value = (int)property(fields[at].name);
  return SUCCESS;
}

void device_name(char *name, size_t bytes) {
  char *answer;
  if (!bytes || call(&answer, NULL, 0, "name")) return;
  strncpy(name, *answer ? answer + 1 : answer, bytes - 1);
  name[bytes - 1] = 0;
}

void device_properties(void *structure, size_t bytes, int since13) {
  memset(structure, 0, bytes);
  device_name(structure, 256);
  for (size_t at = 0; at < sizeof fields / sizeof *fields; at++) {
    int place = since13 ? fields[at].place13 : fields[at].place12;
    long long number = property(fields[at].name);
    if (place >= 0) memcpy((char *)structure + place, &number, fields[at].bytes);
  }
}
