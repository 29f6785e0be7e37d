# The compiled half of tracegen.formats.ordering. The caller guarantees every size and offset.
"""Write instructions as rows, pack their addresses into fewer words, sort both, and unpack them.

Up to two addresses take a word each. More of them take two words, the first address and the step, if all steps are
equal. Otherwise they take one word for the first and half a word for each other one, its difference from the first, if
all differences fit in 32 bits. Addresses that are neither take a word each.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from tracegen.formats.ordering._rows cimport (
    BARRIER, CACHE_OP_SHIFT, NARROW, NO_ACCESS, REGULAR,
    Row, count_bits, count_bits64, lanes_of, pack, packed_words, words_of
)

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil

cdef enum:
    LOOP_EXIT = 1               # in `flags`, as in tracegen.formats.ordering.rows
    DIGIT_BITS = 16
    DIGITS = 1 << DIGIT_BITS
    MAX_GAP = 0x7FFFFFFF
    AHEAD = 8                   # rows between asking for memory and using it

COUNTS = DIGITS
"""Numbers that `sort` needs room for to count."""

cdef packed struct Entry:       # ENTRY_TYPE of tracegen.formats.ordering.packed
    int64_t block
    int64_t row
    int64_t rows
    int64_t word
    int64_t words
    int64_t accesses
    int64_t lanes
    uint64_t slots


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


def sort(const Row[::1] rows, int64_t[::1] start, uint32_t[::1] order, int64_t[::1] counts):
    """Write the order of fewer than 2^32 rows by key, stable, to the first half of `order`, which has two per row.

    ``start[i]`` becomes the number of words of all rows before row i. This is a radix sort by 16 bits at a time, as
    many times as the range of the keys needs; `counts` has room for `COUNTS`. O(rows), and O(2^16) per time.
    """
    cdef int64_t n = rows.shape[0]
    cdef int64_t lowest, highest, i
    cdef int64_t words = 0
    cdef uint64_t span
    cdef int shift = 0
    if n == 0:
        return
    with nogil:
        lowest = highest = rows[0].key
        for i in range(n):
            lowest = min(lowest, rows[i].key)
            highest = max(highest, rows[i].key)
            start[i] = words
            order[i] = <uint32_t>i
            words += words_of(&rows[i])
        span = <uint64_t>highest - <uint64_t>lowest
        while shift < 64 and span >> shift:
            sort_by_digit(&rows[0], n, lowest, shift, &counts[0], &order[0], &order[n])
            memcpy(&order[0], &order[n], n * sizeof(uint32_t))
            shift += DIGIT_BITS


cdef inline void sort_by_digit(
    const Row* rows, int64_t n, int64_t lowest, int shift, int64_t* counts, const uint32_t* order, uint32_t* out
) noexcept nogil:
    """Sort the numbers of rows in `order`, stable, by the 16 bits from bit `shift` on of their keys less `lowest`."""
    cdef int64_t i, count, digit
    cdef int64_t before = 0
    memset(counts, 0, DIGITS * sizeof(int64_t))
    for i in range(n):
        counts[digit_of(&rows[i], lowest, shift)] += 1
    for i in range(DIGITS):
        count = counts[i]
        counts[i] = before
        before += count
    for i in range(n):
        digit = digit_of(&rows[order[i]], lowest, shift)
        out[counts[digit]] = order[i]
        counts[digit] += 1


cdef inline int64_t digit_of(const Row* row, int64_t lowest, int shift) noexcept nogil:
    return (<uint64_t>row.key - <uint64_t>lowest) >> shift & (DIGITS - 1)


def select(
    const Row[::1] rows,
    const int64_t[::1] words,
    const int64_t[::1] start,
    const uint32_t[::1] order,
    int64_t first,
    Row[::1] out_rows,
    int64_t[::1] out_words,
):
    """Copy rows ``order[first]``, ``order[first + 1]``, ... with their words while there is room for any row.

    The words of row i begin at ``words[start[i]]``. Returns the new value of `first`, and the number of words copied.
    """
    cdef int64_t n = rows.shape[0]
    cdef int64_t used = 0
    cdef int64_t out = 0
    cdef int64_t row, count
    cdef const int64_t* base = &words[0] if words.shape[0] > 0 else NULL
    with nogil:
        while first < n and out < out_rows.shape[0]:
            # Neighbours in the order are far apart in memory: without this, most of the time is spent waiting.
            if first + 2 * AHEAD < n and base != NULL:
                prefetch(&rows[order[first + 2 * AHEAD]])
                prefetch(&start[order[first + 2 * AHEAD]])
                prefetch(base + start[order[first + AHEAD]])
            row = order[first]
            count = words_of(&rows[row])
            if count > out_words.shape[0] - used:
                break
            out_rows[out] = rows[row]
            if count > 0:
                memcpy(&out_words[used], &words[start[row]], count * sizeof(int64_t))
                used += count
            out += 1
            first += 1
    return first, used


def index_blocks(const Row[::1] rows, int64_t slots, Entry[::1] entries, int64_t count, int64_t row, int64_t word):
    """Add rows, sorted by key, to `entries`, which hold `count` already; `row` and `word` are those of the first one.

    Rows of the block of the last entry are added to it. There must be room for an entry per row. Returns the number of
    entries, of words, and of rows with a cache operator.
    """
    cdef int64_t i, words
    cdef int64_t first_word = word
    cdef int64_t cached = 0
    cdef int64_t first_key = 0
    cdef Entry* entry = NULL
    if rows.shape[0] == 0:
        return count, 0, 0
    with nogil:
        if count > 0:
            entry = &entries[count - 1]
            first_key = entry.block * slots
        for i in range(rows.shape[0]):
            # Keys rise, so that a block ends with the first key that is not below the next block's.
            if entry == NULL or rows[i].key - first_key >= slots:
                entry = &entries[count]
                count += 1
                memset(entry, 0, sizeof(Entry))
                entry.block = rows[i].key // slots
                entry.row = row + i
                entry.word = word
                first_key = entry.block * slots
            words = words_of(&rows[i])
            word += words
            entry.rows += 1
            entry.words += words
            if rows[i].op != NO_ACCESS:
                entry.accesses += 1
                entry.lanes += lanes_of(&rows[i])
                entry.slots |= <uint64_t>1 << (rows[i].key - first_key)
                cached += rows[i].flags >> CACHE_OP_SHIFT != 0
    return count, word - first_word, cached


def unpack_block(
    const Row[::1] rows,
    const int64_t[::1] words,
    int64_t first_key,
    uint64_t slots,
    bint ranked,
    int64_t[::1] warp_start,
    int32_t[::1] pc,
    uint8_t[::1] op,
    uint8_t[::1] space,
    uint8_t[::1] size,
    int32_t[::1] gap,
    uint64_t[::1] needs,
    uint8_t[::1] loop_exit,
    uint32_t[::1] mask,
    int64_t[::1] address_start,
    int64_t[::1] addresses,
    uint8_t[::1] cache_op,
):
    """Write the rows of one block, sorted by key, as columns, which have the right size; `cache_op` may be None.

    `first_key` is the key of slot 0. The slots in `slots` are the warps in ascending order if `ranked`, else their
    numbers. Rows without an access are added to the gaps of those that follow them. The last `address_start` is set.
    """
    cdef int64_t slot
    cdef int64_t at = 0
    cdef int64_t lane = 0
    cdef int64_t used = 0
    cdef int64_t left = 0
    cdef int64_t i, count, warp
    cdef const Row* row
    with nogil:
        memset(&warp_start[0], 0, warp_start.shape[0] * sizeof(int64_t))
        for i in range(rows.shape[0]):
            row = &rows[i]
            if i > 0 and row.key != rows[i - 1].key:
                left = 0
            if row.op == NO_ACCESS:
                left += <int64_t>row.gap + 1
                continue
            slot = row.key - first_key
            warp = count_bits64(slots & ((<uint64_t>1 << slot) - 1)) if ranked else slot
            warp_start[warp + 1] += 1
            pc[at] = row.pc
            op[at] = row.op
            space[at] = row.space
            size[at] = row.size
            gap[at] = <int32_t>min(row.gap + left, <int64_t>MAX_GAP)
            left = 0
            needs[at] = row.needs
            loop_exit[at] = row.flags & LOOP_EXIT
            mask[at] = row.mask
            if cache_op is not None:
                cache_op[at] = row.flags >> CACHE_OP_SHIFT
            address_start[at] = lane
            count = lanes_of(row)
            if count > 0:
                unpack_row(&words[used], count, row.flags, &addresses[lane])
                used += packed_words(count, row.flags)
                lane += count
            at += 1
        address_start[at] = lane
        for i in range(1, warp_start.shape[0]):
            warp_start[i] += warp_start[i - 1]


cdef inline void unpack_row(const int64_t* words, int64_t count, uint8_t packed, int64_t* addresses) noexcept nogil:
    """Write the `count` addresses, one at least, that `pack` packed to `words`; `packed` has what it returned."""
    cdef int64_t k, first, step
    cdef const int32_t* differences
    if packed & REGULAR:
        first = words[0]
        step = words[1]
        for k in range(count):
            addresses[k] = first + k * step
    elif packed & NARROW:
        addresses[0] = first = words[0]
        differences = <const int32_t*>&words[1]
        for k in range(1, count):
            addresses[k] = first + differences[k - 1]
    else:
        memcpy(addresses, words, count * sizeof(int64_t))


def unpack(const int64_t[::1] words, const int64_t[::1] lanes, const uint8_t[::1] packed, int64_t[::1] addresses):
    """Write the addresses that `pack` packed to `words`; ``packed[i]`` is what it returned for instruction i."""
    cdef int64_t i, count
    cdef int64_t at = 0
    cdef int64_t used = 0
    if lanes.shape[0] == 0 or words.shape[0] == 0:
        return
    with nogil:
        for i in range(lanes.shape[0]):
            count = lanes[i]
            if count == 0:
                continue
            unpack_row(&words[used], count, packed[i], &addresses[at])
            used += packed_words(count, packed[i])
            at += count
