# The compiled half of tracegen.formats.gathering. The caller answers for every size and offset.
"""Addresses of instructions packed into fewer words, put into another order, and unpacked.

The addresses of an instruction take as many words as there are, or two, the first and the step, if there are more
than two and all steps are the same.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

cdef enum:
    PACKED_WORDS = 2


cdef inline bint is_regular(const int64_t* values, int64_t count) noexcept nogil:
    cdef int64_t i
    cdef int64_t step
    cdef int64_t wrong = 0
    if count <= PACKED_WORDS:
        return False
    step = values[1] - values[0]
    if values[2] - values[1] != step:
        return False
    for i in range(3, count):
        wrong |= values[i] - values[i - 1] - step
    return wrong == 0


def pack(const int64_t[::1] addresses, const int64_t[::1] lanes, int64_t[::1] words, uint8_t[::1] packed):
    """Write the addresses of instructions with so many `lanes` to `words`, and which took two; return how many.

    Addresses must not be negative. `words` needs room for as many as there are addresses.
    """
    cdef int64_t i, count
    cdef int64_t at = 0
    cdef int64_t used = 0
    if lanes.shape[0] == 0:
        return 0
    with nogil:
        for i in range(lanes.shape[0]):
            count = lanes[i]
            packed[i] = 0
            if count == 0:
                continue
            if is_regular(&addresses[at], count):
                packed[i] = 1
                words[used] = addresses[at]
                words[used + 1] = addresses[at + 1] - addresses[at]
                used += PACKED_WORDS
            else:
                memcpy(&words[used], &addresses[at], count * sizeof(int64_t))
                used += count
            at += count
    return used


def permute(const int64_t[::1] words, const int64_t[::1] start, const int64_t[::1] order, int64_t[::1] out):
    """Write row ``order[0]``, ``order[1]``, ... of `words` to `out`; row i is ``words[start[i]:start[i + 1]]``."""
    cdef int64_t i, row, count, at = 0
    if order.shape[0] == 0 or words.shape[0] == 0:
        return
    with nogil:
        for i in range(order.shape[0]):
            row = order[i]
            count = start[row + 1] - start[row]
            if count > 0:
                memcpy(&out[at], &words[start[row]], count * sizeof(int64_t))
                at += count


def unpack(const int64_t[::1] words, const int64_t[::1] lanes, const uint8_t[::1] packed, int64_t[::1] addresses):
    """Undo `pack`."""
    cdef int64_t i, k, count, first, step
    cdef int64_t at = 0
    cdef int64_t used = 0
    if lanes.shape[0] == 0 or words.shape[0] == 0:
        return
    with nogil:
        for i in range(lanes.shape[0]):
            count = lanes[i]
            if count == 0:
                continue
            if packed[i]:
                first = words[used]
                step = words[used + 1]
                used += PACKED_WORDS
                for k in range(count):
                    addresses[at + k] = first + k * step
            else:
                memcpy(&addresses[at], &words[used], count * sizeof(int64_t))
                used += count
            at += count
