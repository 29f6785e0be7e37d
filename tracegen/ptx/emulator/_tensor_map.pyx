# A tensor map is opaque to programs. tracegen.ptx.isa.tensor_map defines its bytes here.
"""List the memory that a copy of a box of a tensor accesses."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from tracegen.ptx.isa._code cimport *

cdef enum:
    MOST_BYTES = 1 << 20


cdef inline int64_t word_at(const uint8_t* map, int64_t offset) noexcept nogil:
    cdef uint32_t word
    memcpy(&word, map + offset, sizeof(word))
    return word


cdef inline int64_t element_bytes(int64_t type) noexcept nogil:
    """Return the size of an element type of tensor maps, or 0 for packed and unknown types."""
    if type == 0:
        return 1
    if type == 1 or type == 6 or type == 10:
        return 2
    if type == 4 or type == 5 or type == 9:
        return 8
    return 4 if type < 13 else 0


cdef int64_t open_box(Box* box, const uint8_t* map, int64_t rank, const int64_t* corner) noexcept nogil:
    """Start at the first row; return the bytes of the box in shared memory, or -1 if it cannot be copied here."""
    cdef int64_t d, unit = element_bytes(map[<int64_t>MAP_TYPE]), bytes = unit, low, high
    memset(box, 0, sizeof(Box))
    if unit == 0 or map[<int64_t>MAP_INTERLEAVE] or word_at(map, MAP_RANK) + 1 != rank:
        return -1
    memcpy(&box.start, map + MAP_ADDRESS, 8)
    box.rank, box.rows = rank, 1
    box.stride[0] = <uint64_t>unit
    for d in range(rank):
        if d > 0:
            memcpy(&box.stride[d], map + MAP_STRIDES + 8 * (d - 1), 8)
        if word_at(map, MAP_STEPS + 4 * d) > 1:
            return -1
        box.corner[d] = corner[d]
        box.extent[d] = word_at(map, MAP_BOX + 4 * d)
        box.dims[d] = word_at(map, MAP_DIMS + 4 * d)
        if box.extent[d] < 1 or box.extent[d] > 256 or bytes > MOST_BYTES:
            return -1
        bytes *= box.extent[d]
        if d > 0:
            box.rows *= box.extent[d]
    low, high = max(<int64_t>0, corner[0]), min(box.dims[0], corner[0] + box.extent[0])
    box.size = max(<int64_t>0, high - low) * unit
    box.start += <uint64_t>(low * unit)
    return bytes if bytes <= MOST_BYTES else -1


cdef bint next_row(Box* box, uint64_t* start, int64_t* size) noexcept nogil:
    """Return the address and bytes of the next row (none for a row outside the tensor); False after the last one."""
    cdef int64_t d, at
    if box.rows == 0:
        return False
    box.rows -= 1
    start[0], size[0] = box.start, box.size
    for d in range(1, box.rank):
        at = box.corner[d] + box.index[d]
        start[0] += <uint64_t>at * box.stride[d]
        if at < 0 or at >= box.dims[d]:
            size[0] = 0
    d = 1
    while d < box.rank:
        box.index[d] += 1
        if box.index[d] < box.extent[d]:
            break
        box.index[d] = 0
        d += 1
    return True
