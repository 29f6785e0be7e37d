# The compiled half of tracegen.formats.ordering.gathering. The caller guarantees every size and offset.
"""Pack the addresses of instructions into fewer words, reorder them, and unpack them.

Up to two addresses take a word each. More of them take two words, the first address and the step, if all steps are
equal. Otherwise they take one word for the first and half a word for each other one, its difference from the first, if
all differences fit in 32 bits. Addresses that are neither take a word each.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    # REGULAR_FLAG, NARROW_FLAG and REGULAR_WORDS of tracegen.formats.ordering.rows.
    REGULAR = 2
    NARROW = 4
    REGULAR_WORDS = 2


cdef inline bint is_regular(const int64_t* values, int64_t count) noexcept nogil:
    cdef int64_t i
    cdef int64_t step
    cdef int64_t wrong = 0
    step = values[1] - values[0]
    if values[2] - values[1] != step:
        return False
    for i in range(3, count):
        wrong |= values[i] - values[i - 1] - step
    return wrong == 0


cdef inline bint narrow(const int64_t* values, int64_t count, int64_t* words) noexcept nogil:
    """Write values to `words` as the first one and 32-bit differences; return whether these suffice."""
    cdef int32_t* differences = <int32_t*>(words + 1)
    cdef int64_t first = values[0]
    cdef int64_t i, difference
    cdef uint64_t beyond = 0
    words[0] = first
    differences[count - 1 - count % 2] = 0  # an even number of lanes leaves half a word over
    for i in range(1, count):
        difference = values[i] - first
        differences[i - 1] = <int32_t>difference
        beyond |= (<uint64_t>difference + (<uint64_t>1 << 31)) >> 32
    return beyond == 0


def pack(const int64_t[::1] addresses, const int64_t[::1] lanes, int64_t[::1] words, uint8_t[::1] packed):
    """Pack the addresses of instructions, ``lanes[i]`` of instruction i, to `words`; return the number of words used.

    ``packed[i]`` becomes `REGULAR`, `NARROW` or 0 for plain addresses. Addresses must not be negative. `words` needs
    room for as many words as there are addresses.
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
            if count > REGULAR_WORDS and is_regular(&addresses[at], count):
                packed[i] = REGULAR
                words[used] = addresses[at]
                words[used + 1] = addresses[at + 1] - addresses[at]
                used += REGULAR_WORDS
            elif count > REGULAR_WORDS and narrow(&addresses[at], count, &words[used]):
                packed[i] = NARROW
                used += 1 + count // 2
            else:
                memcpy(&words[used], &addresses[at], count * sizeof(int64_t))
                used += count
            at += count
    return used


def permute(const int64_t[::1] words, const int64_t[::1] start, const int64_t[::1] order, int64_t[::1] out):
    """Copy rows ``order[0]``, ``order[1]``, ... of `words` to `out`; row i is ``words[start[i]:start[i + 1]]``."""
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
    """Write the addresses that `pack` packed to `words`."""
    cdef int64_t i, k, count, first, step
    cdef const int32_t* differences
    cdef int64_t at = 0
    cdef int64_t used = 0
    if lanes.shape[0] == 0 or words.shape[0] == 0:
        return
    with nogil:
        for i in range(lanes.shape[0]):
            count = lanes[i]
            if count == 0:
                continue
            if packed[i] == REGULAR:
                first = words[used]
                step = words[used + 1]
                used += REGULAR_WORDS
                for k in range(count):
                    addresses[at + k] = first + k * step
            elif packed[i] == NARROW:
                addresses[at] = first = words[used]
                differences = <const int32_t*>&words[used + 1]
                for k in range(1, count):
                    addresses[at + k] = first + differences[k - 1]
                used += 1 + count // 2
            else:
                memcpy(&addresses[at], &words[used], count * sizeof(int64_t))
                used += count
            at += count
