# The compiled half of tracegen.formats.ordering.gathering. The caller guarantees every size and offset.
"""Write instructions as rows, pack their addresses into fewer words, reorder these, and unpack them.

Up to two addresses take a word each. More of them take two words, the first address and the step, if all steps are
equal. Otherwise they take one word for the first and half a word for each other one, its difference from the first, if
all differences fit in 32 bits. Addresses that are neither take a word each.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    int count_bits "__builtin_popcount"(unsigned int x) noexcept nogil

cdef enum:
    BARRIER = 3             # in `op`: has no addresses
    # REGULAR_FLAG, NARROW_FLAG, CACHE_OP_SHIFT and REGULAR_WORDS of tracegen.formats.ordering.rows.
    REGULAR = 2
    NARROW = 4
    CACHE_OP_SHIFT = 3
    REGULAR_WORDS = 2

cdef packed struct Row:     # ROW_TYPE of tracegen.formats.ordering.rows
    int64_t key
    uint64_t needs
    int32_t pc
    int32_t gap
    uint32_t mask
    uint8_t op
    uint8_t space
    uint8_t size
    uint8_t flags


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


cdef inline uint8_t pack(const int64_t* values, int64_t count, int64_t* words, int64_t* used) noexcept nogil:
    """Pack the addresses of an instruction, one at least, to `words`, which has room for as many; count those used."""
    if count > REGULAR_WORDS and is_regular(values, count):
        words[0] = values[0]
        words[1] = values[1] - values[0]
        used[0] += REGULAR_WORDS
        return REGULAR
    if count > REGULAR_WORDS and narrow(values, count, words):
        used[0] += 1 + count // 2
        return NARROW
    memcpy(words, values, count * sizeof(int64_t))
    used[0] += count
    return 0


def append_rows(
    const int64_t[::1] block,
    const int64_t[::1] warp,
    int64_t slots,
    const int32_t[::1] pc,
    const uint8_t[::1] op,
    const uint8_t[::1] space,
    const uint8_t[::1] size,
    const int32_t[::1] gap,
    const uint64_t[::1] needs,
    const uint8_t[::1] loop_exit,
    const uint32_t[::1] mask,
    const uint8_t[::1] cache_op,
    const int64_t[::1] addresses,
    int64_t first,
    int64_t lane,
    Row[::1] rows,
    int64_t row,
    int64_t[::1] words,
    int64_t used,
):
    """Write instructions from number `first` on to `rows` and their packed addresses to `words`, while there is room.

    The addresses of the first one begin at ``addresses[lane]``; none must be negative. `rows` and `words` hold `row`
    and `used` already. Without `cache_op` (None), no instruction has a cache operator. Returns the new values of
    `first`, `lane`, `row` and `used`.
    """
    cdef bint has_cache_op = cache_op is not None
    cdef int64_t count
    cdef Row* out
    with nogil:
        while first < block.shape[0] and row < rows.shape[0]:
            count = 0 if op[first] == BARRIER else count_bits(mask[first])
            if count > words.shape[0] - used:
                break
            out = &rows[row]
            out.key = block[first] * slots + warp[first]
            out.needs = needs[first]
            out.pc = pc[first]
            out.gap = gap[first]
            out.mask = mask[first]
            out.op = op[first]
            out.space = space[first]
            out.size = size[first]
            out.flags = loop_exit[first]
            if has_cache_op:
                out.flags |= cache_op[first] << CACHE_OP_SHIFT
            if count:
                out.flags |= pack(&addresses[lane], count, &words[used], &used)
            lane += count
            first += 1
            row += 1
    return first, lane, row, used


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
    """Write the addresses that `pack` packed to `words`; ``packed[i]`` is what it returned for instruction i."""
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
