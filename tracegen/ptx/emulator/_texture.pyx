# Every place is checked against the arrays before it is read; a texture itself only says where its texels should lie.
"""Find and read the texels of textures and surfaces."""

from libc.math cimport floor
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from tracegen.ptx.emulator._floats cimport half_bits, half_value
from tracegen.ptx.isa._code cimport *

cdef enum:
    FAR = 1 << 30          # farther than any texel


cdef inline uint64_t place_in_slice(const Texture* t, int64_t column, int64_t y) noexcept nogil:
    """Return the offset of byte `column` of row `y` in a slice."""
    cdef int64_t rows = y // 8, inner
    if t.block == 0:
        return <uint64_t>(y * t.columns + column)
    # 512 bytes for 64 bytes of 8 rows: pieces of 16 bytes by 2 rows, of which four lie on top of each other.
    inner = column % 64 // 32 * 256 + y % 8 // 2 * 64 + column % 32 // 16 * 32 + y % 2 * 16 + column % 16
    return <uint64_t>((rows // t.block * t.columns + column // 64) * t.block * 512 + rows % t.block * 512 + inner)


cdef inline bint fit(int64_t* at, int64_t size, int64_t mode, bint normalised) noexcept nogil:
    """Move a coordinate into the texture by the address mode; return False if it stays outside."""
    if 0 <= at[0] < size:
        return True
    if mode == ADDRESS_BORDER:
        return False
    if normalised and mode == ADDRESS_WRAP:
        at[0] = (at[0] % size + size) % size
    elif normalised and mode == ADDRESS_MIRROR:
        at[0] = (at[0] % (2 * size) + 2 * size) % (2 * size)
        at[0] = min(at[0], 2 * size - 1 - at[0])
    else:
        at[0] = max(<int64_t>0, min(at[0], size - 1))
    return True


cdef inline double coordinate(const Texture* t, uint64_t bits, int64_t size) noexcept nogil:
    cdef uint32_t word = <uint32_t>bits
    cdef float value
    memcpy(&value, &word, 4)
    if value != value:
        return 0
    return max(-<double>FAR, min(<double>FAR, <double>value * <double>(size if t.normalised else 1)))


cdef inline void add(Footprint* f, const Texture* t, int64_t x, int64_t y, int64_t z, double weight, bint inside) noexcept nogil:
    f.place[f.n] = t.base + <uint64_t>(z * t.slice)
    if inside:
        f.place[f.n] += place_in_slice(t, x * t.components * t.bytes, y)
    f.inside[f.n], f.weight[f.n] = inside, weight
    f.n += 1


cdef inline int64_t layer_of(const Texture* t, uint64_t bits) noexcept nogil:
    return max(<int64_t>0, min(<int64_t><int32_t><uint32_t>bits, t.depth - 1))


cdef void find_texels(
    const Texture* t, const Code* code, uint64_t x, uint64_t y, uint64_t z, Footprint* found
) noexcept nogil:
    """List the texels at the coordinates of one lane: one, or the neighbours that a filter or a gather reads.

    Whole numbers (fetches) are not moved into the texture, and outside of it there are zeros.
    """
    cdef double[3] at
    cdef int64_t[3] first
    cdef int64_t[3] size
    cdef int64_t[3] near
    cdef uint64_t[3] given
    cdef double weight
    cdef int64_t d, k, dims = code.count
    cdef bint inside, wide = code.mode == TEXTURE_GATHER or t.linear
    size[0], size[1], size[2] = t.width, t.height, t.depth
    given[0], given[1], given[2] = x, y, z
    found.n = 0
    near[0] = near[1] = near[2] = 0
    if code.offset:
        near[2] = layer_of(t, z)
    if code.from_kind != FLOAT:
        inside = True
        for d in range(dims):
            near[d] = <int64_t><int32_t><uint32_t>given[d]
            inside = inside and 0 <= near[d] < size[d]
        add(found, t, near[0], near[1], near[2], 1, inside)
        return
    for d in range(dims):
        at[d] = coordinate(t, given[d], size[d]) - (0.5 if wide else 0)
        first[d] = <int64_t>floor(at[d])
    for k in range(1 << dims if wide else 1):
        inside, weight = True, 1
        for d in range(dims):
            near[d] = first[d] + (k >> d & 1)
            weight *= at[d] - <double>first[d] if k >> d & 1 else 1 - (at[d] - <double>first[d])
            inside = fit(&near[d], size[d], t.address, t.normalised) and inside
        add(found, t, near[0], near[1], near[2], weight if wide else 1, inside)


cdef void find_surface(
    const Texture* t, const Code* code, uint64_t x, uint64_t y, uint64_t z, Footprint* found
) noexcept nogil:
    """List the bytes that one lane accesses; x counts bytes. A lane outside a surface that traps gets no place."""
    cdef int64_t size = code.from_width, pitch = t.width * t.components * t.bytes
    cdef int64_t column = <int64_t><int32_t><uint32_t>x, row = <int64_t><int32_t><uint32_t>y, slice = 0
    cdef bint inside
    row = row if code.target > 1 else 0
    slice = layer_of(t, z) if code.offset else (<int64_t><int32_t><uint32_t>z if code.target > 2 else 0)
    if code.mode == SURFACE_CLAMP:
        column = max(<int64_t>0, min(column // size * size, pitch - size))
        row, slice = max(<int64_t>0, min(row, t.height - 1)), max(<int64_t>0, min(slice, t.depth - 1))
    inside = 0 <= column <= pitch - size and 0 <= row < t.height and 0 <= slice < t.depth
    found.n = 1
    found.inside[0], found.weight[0] = inside, 1
    found.place[0] = t.base + (place_in_slice(t, column, row) + <uint64_t>(slice * t.slice) if inside else <uint64_t>0)


cdef inline double component_of(const Texture* t, const uint8_t* host, int64_t c, uint64_t* bits) noexcept nogil:
    """Return a component as a number, between 0 (or -1) and 1 for whole numbers, and its bits, with its sign."""
    cdef uint64_t word = 0
    cdef uint32_t half
    cdef float value
    memcpy(&word, host + c * t.bytes, <size_t>t.bytes)
    bits[0] = word
    if t.kind == FLOAT:
        half = <uint32_t>word
        if t.bytes == 2:
            value = <float>half_value(word)
        else:
            memcpy(&value, &half, 4)
        memcpy(&half, &value, 4)
        bits[0] = half
        return value
    if t.kind == SIGNED and t.bytes < 8:
        bits[0] = <uint64_t>((<int64_t>(word << (64 - 8 * t.bytes))) >> (64 - 8 * t.bytes))
        return max(-1.0, <double><int64_t>bits[0] / <double>((<uint64_t>1 << (8 * t.bytes - 1)) - 1))
    return <double>word / <double>((<uint64_t>0 - 1) >> (64 - 8 * t.bytes))


cdef void sample(
    const Texture* t, const Code* code, const Footprint* found, uint8_t** host, uint64_t* values
) noexcept nogil:
    """Compute the four components of a sample from its texels, at `host` for those inside; missing ones are 0 and 1."""
    cdef int64_t c, k, order
    cdef double total, number
    cdef uint64_t bits = 0
    cdef float value
    cdef uint32_t word
    cdef bint floats = code.kind == FLOAT
    for c in range(4):
        total, values[c] = 0, 0
        if code.mode == TEXTURE_GATHER:
            # The order of the four texels: left and right of the lower row, right and left of the upper one.
            order = 2 if c == 0 else (3 if c == 1 else (1 if c == 2 else 0))
            if found.inside[order] and code.target < t.components:
                total = component_of(t, host[order], code.target, &bits)
                values[c] = bits
        else:
            for k in range(found.n):
                if found.inside[k] and c < t.components:
                    number = component_of(t, host[k], c, &bits)
                    total += number * found.weight[k] if found.n > 1 else number
                    values[c] = bits
            if c == 3 and t.components < 4:
                total, values[c] = 1, 1
        if floats:
            value = <float>total
            memcpy(&word, &value, 4)
            values[c] = word if code.width == 32 else half_bits(value, NEAREST)
