/* The runtime interface, libcudart: arrays, textures and surfaces.
 *
 * An array is memory of the device. Arrays of one dimension lie there row by row, others in blocks, with the layout of
 * tracegen/ptx/emulator/textures.py. Copies move the bytes themselves, and tell the recorder the whole array. */

#include "graphs.h"
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 64, PIECE_ROWS = 8, PIECE = 512, MOST_STACKED = 16, UNIT = 16 };
enum { ARRAY_MARK = 0x41525259 };
enum { LAYERED = 1, CUBEMAP = 4, GATHER = 8, DEFERRED = 0x80, SPARSE = 0x40 };
enum { CLAMP = 1, BORDER = 3 };
enum { RESOURCE_ARRAY, RESOURCE_MIPMAPPED, RESOURCE_LINEAR, RESOURCE_PITCHED };

typedef struct {
  int bits[4], format; /* signed, unsigned, float */
} Channels;

typedef struct {
  int mark, components;
  unsigned flags, block; /* block: pieces of 8 rows on top of each other; 0: rows lie one by one */
  Channels channels;
  char *place;
  Triple extent; /* as the program gave it */
  size_t width, height, depth, row, slice; /* texels and bytes */
} Array;

typedef struct {
  int type;
  union {
    Array *array;
    struct {
      char *place;
      Channels channels;
      size_t bytes;
    } linear;
    struct {
      char *place;
      Channels channels;
      size_t width, height, pitch;
    } pitched;
    int reserved[32];
  } of;
  unsigned flags;
} Resource;

typedef struct {
  int address[3], filter, read, srgb;
  float border[4];
  int normalised;
  unsigned anisotropy;
  int mipmap_filter;
  float bias, least, most;
} Sampling;

static const char *const kinds[] = {"signed", "unsigned", "float"};
static const char *const modes[] = {"wrap", "clamp", "mirror", "border"};

/* Return the components of a texel, or 0 if no texture here has such texels. */
static int components_of(const Channels *channels) {
  int components = 0, bits = channels->bits[0];
  while (components < 4 && channels->bits[components]) components++;
  for (int c = 0; c < components; c++)
    if (channels->bits[c] != bits) return 0;
  int known = bits == 8 || bits == 16 || bits == 32, whole = channels->format < 2;
  return known && (whole ? channels->format >= 0 : channels->format == 2 && bits > 8) && components != 3 ? components : 0;
}

/* ---- arrays */

static size_t place_in(const Array *array, size_t column, size_t y, size_t z) {
  if (!array->block) return z * array->slice + y * array->row + column;
  size_t columns = (array->row + PIECE_BYTES - 1) / PIECE_BYTES, rows = y / PIECE_ROWS;
  size_t piece = (rows / array->block * columns + column / PIECE_BYTES) * array->block + rows % array->block;
  size_t inner = column % 64 / 32 * 256 + y % 8 / 2 * 64 + column % 32 / 16 * 32 + y % 2 * 16 + column % 16;
  return z * array->slice + piece * PIECE + inner;
}

static int make_array(Array **made, const Channels *channels, Triple extent, unsigned flags) {
  int components = components_of(channels);
  if (!components) not_provided("cudaMallocArray (of this format)");
  if (flags & (CUBEMAP | DEFERRED | SPARSE)) not_provided("cudaMalloc3DArray (with these flags)");
  Array *array = calloc(1, sizeof *array);
  *array = (Array){.mark = ARRAY_MARK, .components = components, .flags = flags, .channels = *channels, .extent = extent};
  array->width = extent.x, array->height = extent.y ? extent.y : 1, array->depth = extent.z ? extent.z : 1;
  array->row = array->slice = extent.x * components * (channels->bits[0] / 8);
  if (extent.y) {
    for (array->block = 1; array->block < MOST_STACKED && array->block * PIECE_ROWS < extent.y;) array->block *= 2;
    size_t stacks = (extent.y + PIECE_ROWS * array->block - 1) / (PIECE_ROWS * array->block);
    array->slice = (array->row + PIECE_BYTES - 1) / PIECE_BYTES * stacks * array->block * PIECE;
  }
  int result = array->row ? allocate((void **)&array->place, array->slice * array->depth, DEVICE_MEMORY) : INVALID_VALUE;
  if (result)
    free(array);
  else
    *made = array;
  return done(result);
}

API(cudaMallocArray, Array **made, const Channels *channels, size_t width, size_t height, unsigned flags) {
  return made && channels ? make_array(made, channels, (Triple){width, height, 0}, flags) : done(INVALID_VALUE);
}
API(cudaMalloc3DArray, Array **made, const Channels *channels, Triple extent, unsigned flags) {
  return made && channels ? make_array(made, channels, extent, flags) : done(INVALID_VALUE);
}
API(cudaFreeArray, Array *array) {
  if (!array) return SUCCESS;
  int result = array->mark == ARRAY_MARK ? release(array->place) : INVALID_HANDLE;
  if (!result) array->mark = 0;
  return done(result);
}
API(cudaGetChannelDesc, Channels *channels, const Array *array) { return *channels = array->channels, SUCCESS; }
API(cudaArrayGetInfo, Channels *channels, Triple *extent, unsigned *flags, const Array *array) {
  if (channels) *channels = array->channels;
  if (extent) *extent = array->extent;
  if (flags) *flags = array->flags;
  return SUCCESS;
}
EXPORT Channels cudaCreateChannelDesc(int x, int y, int z, int w, int format) { return (Channels){{x, y, z, w}, format}; }

/* ---- copies */

/* Copy between a box of an array, whose x counts bytes, and rows of other memory, without telling the recorder. */
static int move_rows(Array *array, Triple at, char *rows, size_t pitch, size_t plane, Triple size, int into) {
  if (array->mark != ARRAY_MARK) return INVALID_HANDLE;
  if (at.x + size.x > array->row || at.y + size.y > array->height || at.z + size.z > array->depth) return INVALID_VALUE;
  if (!size.x || !size.y || !size.z) return SUCCESS;
  if (defer(&(Operation){.kind = COPY_NODE, .to = rows, .from = rows, .bytes = size.x}))
    not_provided("a copy of a CUDA array in a graph");
  Block block;
  int result = flush(), on_device = find_block(rows, &block);
  char *line = malloc(size.x);
  for (size_t z = 0; z < size.z && !result; z++)
    for (size_t y = 0; y < size.y && !result; y++) {
      char *other = rows + z * plane + y * pitch;
      if (into && on_device) result = copy_memory(line, other, size.x);
      if (into && !on_device) memcpy(line, other, size.x);
      for (size_t x = 0, n; x < size.x && !result; x += n) {
        size_t column = at.x + x, left = size.x - x;
        n = UNIT - column % UNIT < left ? UNIT - column % UNIT : left;
        char *texels = array->place + place_in(array, column, at.y + y, at.z + z);
        if (into)
          memcpy(texels, line + x, n);
        else
          memcpy(line + x, texels, n);
      }
      if (!into && on_device && !result) result = copy_memory(other, line, size.x);
      if (!into && !on_device) memcpy(other, line, size.x);
    }
  free(line);
  return result;
}

/* Tell the recorder that an array was written or read: once per copy, since it stores the whole array. */
static int tell(const Array *array, int into) {
  return call(NULL, NULL, 0, "%s %llu %zu", into ? "write" : "read", (unsigned long long)array->place,
              array->slice * array->depth);
}

static int move_box(Array *array, Triple at, char *rows, size_t pitch, size_t plane, Triple size, int into) {
  int result = move_rows(array, at, rows, pitch, plane, size, into);
  return result || !size.x || !size.y || !size.z ? result : tell(array, into);
}

/* Copy bytes that follow each other in an array, from a row to the next one. */
static int move_bytes(Array *array, size_t x, size_t y, char *rows, size_t bytes, int into) {
  int result = SUCCESS;
  for (size_t done = 0, n; done < bytes && !result; done += n, x = 0, y++) {
    n = array->row - x < bytes - done ? array->row - x : bytes - done;
    result = move_rows(array, (Triple){x, y, 0}, rows + done, 0, 0, (Triple){n, 1, 1}, into);
    if (x >= array->row) return INVALID_VALUE;
  }
  return result || !bytes ? result : tell(array, into);
}

API(cudaMemcpyToArray, Array *to, size_t x, size_t y, const void *from, size_t bytes, int kind) {
  return (void)kind, done(move_bytes(to, x, y, (char *)from, bytes, 1));
}
API(cudaMemcpyToArrayAsync, Array *to, size_t x, size_t y, const void *from, size_t bytes, int kind, void *stream) {
  return ON(stream, cudaMemcpyToArray(to, x, y, from, bytes, kind));
}
API(cudaMemcpyFromArray, void *to, const Array *from, size_t x, size_t y, size_t bytes, int kind) {
  return (void)kind, done(move_bytes((Array *)from, x, y, to, bytes, 0));
}
API(cudaMemcpyFromArrayAsync, void *to, const Array *from, size_t x, size_t y, size_t bytes, int kind, void *stream) {
  return ON(stream, cudaMemcpyFromArray(to, from, x, y, bytes, kind));
}
API(cudaMemcpy2DToArray, Array *to, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height,
    int kind) {
  (void)kind;
  return done(move_box(to, (Triple){x, y, 0}, (char *)from, pitch, 0, (Triple){width, height, 1}, 1));
}
API(cudaMemcpy2DToArrayAsync, Array *to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
    size_t height, int kind, void *stream) {
  return ON(stream, cudaMemcpy2DToArray(to, x, y, from, pitch, width, height, kind));
}
API(cudaMemcpy2DFromArray, void *to, size_t pitch, const Array *from, size_t x, size_t y, size_t width, size_t height,
    int kind) {
  (void)kind;
  return done(move_box((Array *)from, (Triple){x, y, 0}, to, pitch, 0, (Triple){width, height, 1}, 0));
}
API(cudaMemcpy2DFromArrayAsync, void *to, size_t pitch, const Array *from, size_t x, size_t y, size_t width,
    size_t height, int kind, void *stream) {
  return ON(stream, cudaMemcpy2DFromArray(to, pitch, from, x, y, width, height, kind));
}

int copy_array(const Copy3D *copy) {
  if (copy->from_array && copy->to_array) not_provided("cudaMemcpy3D (between CUDA arrays)");
  int into = copy->to_array != NULL;
  Array *array = into ? copy->to_array : copy->from_array;
  const Pitched *other = into ? &copy->from : &copy->to;
  Triple at = into ? copy->to_position : copy->from_position, size = copy->extent;
  size_t texel = array->row / array->width;
  at.x *= texel, size.x *= texel; /* positions in other memory count bytes */
  char *rows = start_of_rows(other, into ? &copy->from_position : &copy->to_position, 0);
  return move_box(array, at, rows, other->pitch, other->pitch * other->height, size, into);
}

/* ---- textures and surfaces */

/* Textures wrap and mirror normalised coordinates only; others are clamped. */
static unsigned address_mode(const Sampling *sampling, int d) {
  return sampling->normalised || sampling->address[d] == BORDER ? (unsigned)sampling->address[d] : CLAMP;
}

static int make_texture(unsigned long long *made, const Resource *resource, const Sampling *given) {
  Sampling sampling = given ? *given : (Sampling){.address = {CLAMP, CLAMP, CLAMP}};
  Array linear = {.mark = ARRAY_MARK};
  const Array *array = &linear;
  if (resource->type == RESOURCE_ARRAY)
    array = resource->of.array;
  else if (resource->type == RESOURCE_MIPMAPPED || !given)
    not_provided(given ? "cudaCreateTextureObject (of mipmaps)" : "cudaCreateSurfaceObject (without an array)");
  else {
    linear.channels = resource->of.linear.channels; /* those of a pitched resource lie at the same place */
    linear.place = resource->of.linear.place, linear.components = components_of(&linear.channels);
    if (!linear.components) not_provided("cudaCreateTextureObject (of this format)");
    size_t texel = linear.components * (linear.channels.bits[0] / 8);
    int pitched = resource->type == RESOURCE_PITCHED;
    linear.width = pitched ? resource->of.pitched.width : resource->of.linear.bytes / texel;
    linear.height = pitched ? resource->of.pitched.height : 1, linear.depth = 1;
    linear.row = pitched ? resource->of.pitched.pitch : linear.width * texel;
  }
  if (!array || array->mark != ARRAY_MARK) return INVALID_HANDLE;
  unsigned mode = address_mode(&sampling, 0);
  int used = array->height == 1 ? 1 : array->depth == 1 || array->flags & LAYERED ? 2 : 3;
  for (int d = 1; d < used; d++)
    if (address_mode(&sampling, d) != mode) not_provided("cudaCreateTextureObject (with several address modes)");
  if (mode > BORDER || array->width < 1) return INVALID_VALUE;
  if (sampling.srgb) not_provided("cudaCreateTextureObject (with sRGB)");
  for (int c = 0; c < 4; c++)
    if (mode == BORDER && sampling.border[c] != 0) not_provided("cudaCreateTextureObject (of a colored border)");
  *made = (unsigned long long)new_handle();
  return call(NULL, NULL, 0, "texture %llu %llu %zu %zu %zu %d %d %s %u %zu %d %d %s", *made,
              (unsigned long long)array->place, array->width, array->height, array->depth, array->components,
              array->channels.bits[0] / 8, kinds[array->channels.format], array->block, array->row,
              sampling.normalised != 0, sampling.filter != 0, modes[mode]);
}

API(cudaCreateTextureObject, unsigned long long *made, const Resource *resource, const Sampling *sampling,
    const void *view) {
  if (!made || !resource || !sampling) return done(INVALID_VALUE);
  if (view) not_provided("cudaCreateTextureObject (with a view of the resource)");
  return done(make_texture(made, resource, sampling));
}
SAME(cudaCreateTextureObject, cudaCreateTextureObject_v2)
API(cudaDestroyTextureObject, unsigned long long texture) { return (void)texture, SUCCESS; }
API(cudaCreateSurfaceObject, unsigned long long *made, const Resource *resource) {
  return done(made && resource ? make_texture(made, resource, NULL) : INVALID_VALUE);
}
API(cudaDestroySurfaceObject, unsigned long long surface) { return (void)surface, SUCCESS; }
