# A tensor map is opaque to programs. tracegen.ptx.isa.tensor_map defines its bytes here.
"""List the memory that a copy of a part of a tensor accesses, row by row."""

from libc.stdint cimport int16_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from tracegen.ptx.isa._code cimport *

cdef enum:
    MOST_BYTES = 1 << 20
    MOST_PIXELS = 1024
    GATHERED_ROWS = 4
    FLUSHED = 8              # f32.ftz, whose subnormal values become zeros
    TF32 = 11                # from here on, elements are rounded or packed
    LINE = 128               # bytes after which the order of the pieces of a swizzled row changes
    PIECE_BITS = 4
    MOST_SWIZZLE = 3         # rows of 128 bytes; 1 and 2 have 32 and 64


cdef inline int64_t word_at(const uint8_t* map, int64_t offset) noexcept nogil:
    cdef uint32_t word
    memcpy(&word, map + offset, sizeof(word))
    return word


cdef inline int64_t short_at(const uint8_t* map, int64_t offset) noexcept nogil:
    cdef int16_t word
    memcpy(&word, map + offset, sizeof(word))
    return word


cdef inline int64_t element_bits(int64_t type) noexcept nogil:
    """Return the size of an element type in memory, or 0 for an unknown type; packed types have 4 or 6 bits."""
    if type == 0:
        return 8
    if type == 1 or type == 6 or type == 10:
        return 16
    if type == 4 or type == 5 or type == 9:
        return 64
    if type < 13:
        return 32
    return 4 if type < 15 else (6 if type == 15 else 0)


cdef inline int64_t shared_bits(int64_t type) noexcept nogil:
    """Return the size of an element in shared memory, where two of the packed types have room for 16 bytes."""
    return 8 if type == 14 or type == 15 else element_bits(type)


cdef int64_t open_box(
    Rows* box, const uint8_t* map, int64_t kind, int64_t rank, const int64_t* corner, const int64_t* offset
) noexcept nogil:
    """Start at the first row; return the bytes in shared memory, or -1 if the copy cannot be made here.

    `corner` has the coordinates: of a box, of a pixel, or the column and four numbers of rows. `offset` belongs to
    pixels.
    """
    cdef int64_t d, type = map[<int64_t>MAP_TYPE], unit = element_bits(type), bits = shared_bits(type), low, high
    memset(box, 0, sizeof(Rows))
    if unit == 0 or map[<int64_t>MAP_INTERLEAVE] or word_at(map, MAP_RANK) + 1 != rank:
        return -1
    if (kind == BOX_IM2COL) != (map[<int64_t>MAP_PIXELS] == 1):
        return -1
    memcpy(&box.start, map + MAP_ADDRESS, 8)
    box.kind, box.rank, box.rows = kind, rank, 1
    for d in range(rank):
        if d > 0:
            memcpy(&box.stride[d], map + MAP_STRIDES + 8 * (d - 1), 8)
        box.step[d] = max(<int64_t>1, word_at(map, MAP_STEPS + 4 * d)) if d > 0 else 1
        box.corner[d] = corner[d]
        box.dims[d] = word_at(map, MAP_DIMS + 4 * d)
        box.extent[d] = word_at(map, MAP_BOX + 4 * d)
    if not (open_pixels(box, map, offset) if kind == BOX_IM2COL else open_tile(box, corner)):
        return -1
    box.row = box.extent[0] * unit // 8
    if box.extent[0] * bits // 8 * box.rows > MOST_BYTES:
        return -1
    low, high = max(<int64_t>0, corner[0]), min(box.dims[0], corner[0] + box.extent[0])
    box.size = max(<int64_t>0, high - low) * unit // 8
    box.start += <uint64_t>(low * unit // 8)
    box.skip = (low - corner[0]) * unit // 8
    box.plain = type < TF32 and type != FLUSHED
    box.swizzle, box.fill = map[<int64_t>MAP_SWIZZLE], map[<int64_t>MAP_FILL] != 0
    return box.extent[0] * bits // 8 * box.rows


cdef void open_row(Rows* box, uint64_t start, int64_t bytes, int64_t left, int64_t right) noexcept nogil:
    """Start at the only row of a copy without a tensor map, which ignores bytes on its left and right."""
    memset(box, 0, sizeof(Rows))
    box.rows, box.rank, box.row, box.plain, box.fill = 1, 1, bytes, True, left + right > 0
    box.start, box.skip, box.size = start + <uint64_t>left, left, max(<int64_t>0, bytes - left - right)


cdef bint keeps_values(const Rows* box, uint64_t place) noexcept nogil:
    """Return whether the values of a copy to or from shared memory at `place` are known.

    Swizzled rows must fill the span of the swizzle, as other ones have no documented place.
    """
    cdef bint ordered = box.swizzle == 0
    if 0 < box.swizzle <= MOST_SWIZZLE:
        ordered = box.row == 1 << (PIECE_BITS + box.swizzle) and place % LINE == 0
    return box.plain and ordered


cdef uint64_t swizzle(const Rows* box, uint64_t place) noexcept nogil:
    """Return the place in shared memory of what is at `place` without a swizzle.

    The number of a line of 128 bytes changes that of the pieces in it (CUDA C++ Programming Guide, "TMA Swizzle").
    """
    return place ^ (place // LINE & ((<uint64_t>1 << box.swizzle) - 1)) << PIECE_BITS if box.swizzle else place


cdef bint open_tile(Rows* box, const int64_t* corner) noexcept nogil:
    cdef int64_t d
    if box.kind == BOX_ROWS:
        for d in range(GATHERED_ROWS):
            box.low[d] = corner[1 + d]
        if box.rank != 2 or box.extent[1] != 1:
            return False
        box.rows = GATHERED_ROWS
        return 0 < box.extent[0] <= 256
    for d in range(box.rank):
        if box.extent[d] < 1 or box.extent[d] > 256 or box.rows > MOST_BYTES:
            return False
        box.extent[d] = (box.extent[d] + box.step[d] - 1) // box.step[d]
        if d > 0:
            box.rows *= box.extent[d]
    return True


cdef bint open_pixels(Rows* box, const uint8_t* map, const int64_t* offset) noexcept nogil:
    """Start at a pixel: the dimensions are channels, one to three of pixels, and images."""
    cdef int64_t d
    box.rows = box.extent[1]
    if box.rank < 3 or not 1 <= box.rows <= MOST_PIXELS or not 1 <= box.extent[0] <= 256:
        return False
    for d in range(1, box.rank - 1):
        box.low[d] = short_at(map, MAP_LOWER + 2 * (d - 1))
        box.high[d] = box.dims[d] - 1 + short_at(map, MAP_UPPER + 2 * (d - 1))
        box.offset[d] = offset[d - 1]
    return True


cdef bint next_row(Rows* box, uint64_t* start, int64_t* size) noexcept nogil:
    """Return the address and bytes of the next row (none for a row outside the tensor); False after the last one."""
    cdef int64_t d, at
    if box.rows == 0:
        return False
    box.rows -= 1
    start[0], size[0] = box.start, box.size
    for d in range(1, box.rank):
        at = box.corner[d] + box.index[d] * box.step[d] + box.offset[d]
        if box.kind == BOX_ROWS:
            at = box.low[box.index[0]]
        start[0] += <uint64_t>at * box.stride[d]
        if at < 0 or at >= box.dims[d]:
            size[0] = 0
    if box.kind == BOX_ROWS:
        box.index[0] += 1
    elif box.kind == BOX_IM2COL:
        next_pixel(box)
    else:
        d = 1
        while d < box.rank:
            box.index[d] += 1
            if box.index[d] < box.extent[d]:
                break
            box.index[d] = 0
            d += 1
    return True


cdef void next_pixel(Rows* box) noexcept nogil:
    """Go on along the width of the box of pixels, then along its other dimensions, then to the next image."""
    cdef int64_t d = 1
    while d < box.rank - 1:
        box.corner[d] += box.step[d]
        if box.corner[d] <= box.high[d]:
            return
        box.corner[d] = box.low[d]
        d += 1
    box.corner[box.rank - 1] += 1
