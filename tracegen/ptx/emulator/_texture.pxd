from libc.stdint cimport int64_t, uint8_t, uint64_t

from tracegen.ptx.isa._code cimport Code

cdef enum:
    MOST_TEXELS = 8

# A texture; tracegen.ptx.emulator.textures.TEXTURE_FIELDS names the columns of the table that these rows come from.
cdef struct Texture:
    uint64_t handle
    uint64_t base
    int64_t width          # texels
    int64_t height
    int64_t depth          # slices of a volume, or layers
    int64_t components
    int64_t bytes          # of one component: 1, 2, 4 or 8
    int64_t kind           # Kind of the components
    int64_t block          # 64-byte columns are stacked in blocks of so many times 8 rows; 0: rows lie one by one
    int64_t columns        # 64-byte columns of a row of blocks; without blocks, bytes between rows
    int64_t slice          # bytes of a slice
    int64_t normalised     # coordinates from 0 to 1
    int64_t linear         # filter
    int64_t address        # AddressMode

# The texels that one lane reads: places outside the texture are missing and count as zeros.
cdef struct Footprint:
    int64_t n
    uint64_t[MOST_TEXELS] place
    bint[MOST_TEXELS] inside
    double[MOST_TEXELS] weight

cdef void find_texels(
    const Texture* t, const Code* code, uint64_t x, uint64_t y, uint64_t z, Footprint* found
) noexcept nogil
cdef void find_surface(
    const Texture* t, const Code* code, uint64_t x, uint64_t y, uint64_t z, Footprint* found
) noexcept nogil
cdef void sample(
    const Texture* t, const Code* code, const Footprint* found, uint8_t** host, uint64_t* values
) noexcept nogil
