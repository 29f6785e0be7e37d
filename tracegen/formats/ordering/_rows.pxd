# Rows of instructions and their packed addresses, as tracegen.formats.ordering.rows describes them. The caller
# guarantees every size and offset.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    int count_bits "__builtin_popcount"(unsigned int x) noexcept nogil
    int count_bits64 "__builtin_popcountll"(unsigned long long x) noexcept nogil

cdef enum:
    BARRIER = 3             # in `op`: has no addresses
    NO_ACCESS = 255         # in `op`: the instruction counts for the gap of the next one
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


cdef inline int64_t lanes_of(const Row* row) noexcept nogil:
    """Return the number of addresses of a row."""
    return 0 if row.op == BARRIER else count_bits(row.mask)


cdef inline int64_t packed_words(int64_t lanes, uint8_t packed) noexcept nogil:
    """Return the number of words that packed addresses take; `packed` has what `pack` returned."""
    if packed & REGULAR:
        return REGULAR_WORDS
    return 1 + lanes // 2 if packed & NARROW else lanes


cdef inline int64_t words_of(const Row* row) noexcept nogil:
    """Return the number of words that the packed addresses of a row take."""
    return packed_words(lanes_of(row), row.flags)


cdef inline void begin_row(Row* row, int64_t key, uint64_t needs, int64_t opcode, const uint8_t* kind) noexcept nogil:
    """Write all of a parsed row but its lanes; `kind` is that of its opcode in `OpcodeTable.kinds`."""
    row.key = key
    row.needs = needs
    row.pc = <int32_t>opcode
    row.gap = 0
    row.op = kind[0]
    row.space = kind[1]
    row.size = kind[2]
    row.flags = kind[4] << CACHE_OP_SHIFT


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
