/* The driver interface, libcuda: tensor maps, with the layout of tracegen/ptx/isa/_code.pxd (TensorMap). */

#include "core.h"

#include <string.h>

#define API(name, ...) EXPORT int name(__VA_ARGS__)

enum {
  MAP_RANK = 8,
  MAP_TYPE = 12,
  MAP_INTERLEAVE = 13,
  MAP_SWIZZLE = 14,
  MAP_FILL = 15,
  MAP_DIMS = 16,
  MAP_BOX = 36,
  MAP_STEPS = 56,
  MAP_STRIDES = 80,
  MAP_LOWER = 112,
  MAP_UPPER = 118,
  MAP_PIXELS = 124,
  MAP_BYTES = 128,
  MAX_RANK = 5,
};

/* The number of an element type in PTX, by that in the interface. */
static const unsigned char types[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 11, 12, 13, 14, 15};

static void put_word(unsigned char *place, uint32_t word) { memcpy(place, &word, 4); }

static int put_tensor(unsigned char *map, unsigned type, unsigned rank, const void *address, const uint64_t *dims,
                      const uint64_t *strides, const uint32_t *steps, unsigned interleave, unsigned swizzle,
                      unsigned fill) {
  if (type >= sizeof types || rank < 1 || rank > MAX_RANK) return INVALID_VALUE;
  memset(map, 0, MAP_BYTES);
  memcpy(map, &address, 8);
  put_word(map + MAP_RANK, rank - 1);
  map[MAP_TYPE] = types[type], map[MAP_INTERLEAVE] = interleave, map[MAP_SWIZZLE] = swizzle, map[MAP_FILL] = fill;
  for (unsigned d = 0; d < rank; d++) {
    put_word(map + MAP_DIMS + 4 * d, (uint32_t)dims[d]);
    put_word(map + MAP_STEPS + 4 * d, d ? steps[d] : 1); /* the step of the first dimension is ignored */
    if (d) memcpy(map + MAP_STRIDES + 8 * (d - 1), &strides[d - 1], 8);
  }
  return SUCCESS;
}

API(cuTensorMapEncodeTiled, unsigned char *map, unsigned type, unsigned rank, void *address, const uint64_t *dims,
    const uint64_t *strides, const uint32_t *box, const uint32_t *steps, unsigned interleave, unsigned swizzle,
    unsigned promotion, unsigned fill) {
  (void)promotion;
  int result = put_tensor(map, type, rank, address, dims, strides, steps, interleave, swizzle, fill);
  for (unsigned d = 0; d < rank && !result; d++) put_word(map + MAP_BOX + 4 * d, box[d]);
  return result;
}

API(cuTensorMapEncodeIm2col, unsigned char *map, unsigned type, unsigned rank, void *address, const uint64_t *dims,
    const uint64_t *strides, const int *lower, const int *upper, uint32_t channels, uint32_t pixels,
    const uint32_t *steps, unsigned interleave, unsigned swizzle, unsigned promotion, unsigned fill) {
  (void)promotion;
  int result = put_tensor(map, type, rank, address, dims, strides, steps, interleave, swizzle, fill);
  if (result || rank < 3) return INVALID_VALUE;
  put_word(map + MAP_BOX, channels), put_word(map + MAP_BOX + 4, pixels);
  for (unsigned d = 0; d < rank - 2; d++) {
    int16_t corners[] = {(int16_t)lower[d], (int16_t)upper[d]};
    memcpy(map + MAP_LOWER + 2 * d, &corners[0], 2), memcpy(map + MAP_UPPER + 2 * d, &corners[1], 2);
  }
  map[MAP_PIXELS] = 1;
  return SUCCESS;
}

API(cuTensorMapReplaceAddress, unsigned char *map, void *address) { return memcpy(map, &address, 8), SUCCESS; }
