# Read numbers and words in text that is not trusted; `end` is one past its last byte. A reading function gets the
# position by reference and, on success, moves it behind what it has read.

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memchr, memcmp

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* Eight bytes of text, the first one lowest, on any machine. */
    static inline uint64_t rdmodel_load8(const uint8_t *p) {
        uint64_t v;
        memcpy(&v, p, 8);
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        v = __builtin_bswap64(v);
    #endif
        return v;
    }

    static inline int rdmodel_last_zeros(uint64_t v) {
        return __builtin_ctzll(v);
    }

    /* Read the hexadecimal digits at `p`, at most 16, as `up_to_sixteen_hex` does. Every x86-64 processor has SSE2. */
    #if defined(__SSE2__) && defined(__x86_64__)
    #include <emmintrin.h>
    #define RDMODEL_BY_SSE2 1

    static inline int rdmodel_sse2_hex(const uint8_t *p, uint64_t *value) {
        const __m128i v = _mm_loadu_si128((const __m128i *)p);
        const __m128i from_0 = _mm_sub_epi8(v, _mm_set1_epi8('0'));
        const __m128i from_a = _mm_sub_epi8(_mm_or_si128(v, _mm_set1_epi8(0x20)), _mm_set1_epi8('a'));
        const __m128i digit = _mm_cmpeq_epi8(_mm_min_epu8(from_0, _mm_set1_epi8(9)), from_0);
        const __m128i letter = _mm_cmpeq_epi8(_mm_min_epu8(from_a, _mm_set1_epi8(5)), from_a);
        const int digits = __builtin_ctz(~(unsigned)_mm_movemask_epi8(_mm_or_si128(digit, letter)));
        __m128i n = _mm_add_epi8(_mm_and_si128(v, _mm_set1_epi8(15)), _mm_and_si128(letter, _mm_set1_epi8(9)));
        n = _mm_and_si128(_mm_or_si128(_mm_slli_epi16(n, 4), _mm_srli_epi16(n, 8)), _mm_set1_epi16(255));
        if (digits == 0)
            return 0;
        /* What follows the digits is shifted out. */
        *value = __builtin_bswap64((uint64_t)_mm_cvtsi128_si64(_mm_packus_epi16(n, n))) >> (64 - 4 * digits);
        return digits;
    }

    /* Return how many of the 16 characters at `p` belong to the word that they begin, as `pass_opcode` takes it. */
    static inline int rdmodel_sse2_word(const uint8_t *p) {
        const __m128i v = _mm_loadu_si128((const __m128i *)p);
        const __m128i from_0 = _mm_sub_epi8(v, _mm_set1_epi8('0'));
        const __m128i from_a = _mm_sub_epi8(_mm_or_si128(v, _mm_set1_epi8(0x20)), _mm_set1_epi8('a'));
        const __m128i digit = _mm_cmpeq_epi8(_mm_min_epu8(from_0, _mm_set1_epi8(9)), from_0);
        const __m128i letter = _mm_cmpeq_epi8(_mm_min_epu8(from_a, _mm_set1_epi8(25)), from_a);
        const __m128i sign = _mm_or_si128(
            _mm_cmpeq_epi8(v, _mm_set1_epi8('.')), _mm_cmpeq_epi8(v, _mm_set1_epi8('_')));
        const __m128i word = _mm_or_si128(_mm_or_si128(digit, letter), sign);
        return __builtin_ctz(~(unsigned)_mm_movemask_epi8(word));
    }
    #else
    #define RDMODEL_BY_SSE2 0
    #define rdmodel_sse2_hex(p, value) 0
    #define rdmodel_sse2_word(p) 0
    #endif
    """
    uint64_t load8 "rdmodel_load8"(const uint8_t* p) noexcept nogil
    int last_zeros "rdmodel_last_zeros"(uint64_t v) noexcept nogil
    bint BY_SSE2 "RDMODEL_BY_SSE2"
    int sse2_hex "rdmodel_sse2_hex"(const uint8_t* p, uint64_t* value) noexcept nogil
    int sse2_word "rdmodel_sse2_word"(const uint8_t* p) noexcept nogil


cdef enum:
    MAX_WIDTH = 19    # bytes that an address takes if it has 16 digits: 0x, the digits, a blank


cdef inline uint64_t all_bytes(uint8_t b) noexcept nogil:
    return b * <uint64_t>0x0101010101010101


cdef inline int up_to_eight_hex(const uint8_t* p, uint64_t* value) noexcept nogil:
    """Read the hexadecimal digits at `p`, at most eight, all of them at once in one 64-bit word; return their number."""
    cdef uint64_t v = load8(p)
    cdef int digits = 8
    cdef uint64_t from_0 = v ^ all_bytes(0x30)
    cdef uint64_t from_a = (v | all_bytes(0x20)) ^ all_bytes(0x60)
    # For a byte below 0x80: it is at most 9 (6) if adding 0x76 (0x79) leaves its high bit clear, and at least 1 if
    # adding 0x7f sets it.
    cdef uint64_t digit = ~(from_0 + all_bytes(0x76))
    cdef uint64_t letter = (from_a + all_bytes(0x7F)) & ~(from_a + all_bytes(0x79))
    # A byte of 0x80 or more may carry into those behind it, which do not count: it is no digit itself.
    cdef uint64_t others = (v | ~(digit | letter)) & all_bytes(0x80)
    if others:
        digits = last_zeros(others) >> 3
        if digits == 0:
            return 0
        v <<= 64 - 8 * digits  # as behind leading zeros
    v = (v & all_bytes(0x0F)) + 9 * (v >> 6 & all_bytes(0x01))
    v = (v << 4 | v >> 8) & <uint64_t>0x00FF00FF00FF00FF
    v = (v << 8 | v >> 16) & <uint64_t>0x0000FFFF0000FFFF
    value[0] = (v << 16 | v >> 32) & <uint64_t>0xFFFFFFFF
    return digits


cdef inline int up_to_sixteen_hex(const uint8_t* p, uint64_t* value) noexcept nogil:
    """Read the hexadecimal digits at `p`, at most 16, in text with 16 bytes from there on; return their number."""
    cdef uint64_t low = 0
    cdef int digits, more
    if BY_SSE2:
        return sse2_hex(p, value)
    digits = up_to_eight_hex(p, value)
    if digits < 8:
        return digits
    more = up_to_eight_hex(p + 8, &low)
    if more:
        value[0] = value[0] << 4 * more | low
    return 8 + more


cdef inline bint read_hex_of_width(
    const uint8_t* text, int64_t at, int64_t end, int64_t width, uint64_t* value
) noexcept nogil:
    """Read ``0x``, hexadecimal digits and a blank if they take exactly `width` bytes, 4 to `MAX_WIDTH`.

    A caller that adds a `width` which it knows in advance to its position need not wait for the count of the digits.
    Returns False if other text is at `at`, or if there is too little text behind it; `value` is undefined then.
    """
    return (
        end - at >= MAX_WIDTH
        and text[at] == c'0'
        and (text[at + 1] | 0x20) == c'x'
        and text[at + width - 1] == c' '
        and up_to_sixteen_hex(text + at + 2, value) == width - 3
    )


cdef inline int hex_digit(uint8_t c) noexcept nogil:
    if c'0' <= c <= c'9':
        return c - c'0'
    c |= 0x20
    return c - c'a' + 10 if c'a' <= c <= c'f' else -1


cdef inline bint read_hex(const uint8_t* text, int64_t* at, int64_t end, uint64_t* value) noexcept nogil:
    """Read ``0x`` and one to 16 hexadecimal digits, not counting leading zeros."""
    cdef int64_t i = at[0]
    cdef uint64_t v = 0
    cdef int digit, digits
    if end - i < 3 or text[i] != c'0' or (text[i + 1] | 0x20) != c'x':
        return False
    i += 2
    if end - i > 16:
        digits = up_to_sixteen_hex(text + i, &v)
        if digits == 0:
            return False
        if digits < 16 or hex_digit(text[i + 16]) < 0:
            value[0] = v
            at[0] = i + digits
            return True
        v = 0
    if hex_digit(text[i]) < 0:
        return False
    while i < end:
        digit = hex_digit(text[i])
        if digit < 0:
            break
        if v >> 60:
            return False
        v = v << 4 | <uint64_t>digit
        i += 1
    value[0] = v
    at[0] = i
    return True


cdef inline bint read_decimal(const uint8_t* text, int64_t* at, int64_t end, int64_t* value) noexcept nogil:
    """Read a decimal number below 2^63."""
    cdef int64_t i = at[0]
    cdef int64_t v = 0
    if i >= end or not c'0' <= text[i] <= c'9':
        return False
    while i < end and c'0' <= text[i] <= c'9':
        if v > <int64_t>922337203685477579:
            return False
        v = v * 10 + (text[i] - c'0')
        i += 1
    value[0] = v
    at[0] = i
    return True


cdef inline bint read_word(
    const uint8_t* text, int64_t* at, int64_t end, const char* word, int64_t length
) noexcept nogil:
    """Skip `length` bytes, which must be equal to `word`."""
    if end - at[0] < length or memcmp(text + at[0], word, <size_t>length) != 0:
        return False
    at[0] += length
    return True


cdef inline int64_t line_end(const uint8_t* text, int64_t at, int64_t end) noexcept nogil:
    cdef const void* found = memchr(text + at, c'\n', <size_t>(end - at))
    return end if found == NULL else <const uint8_t*>found - text


cdef inline void pass_opcode(const uint8_t* text, int64_t* at, int64_t end) noexcept nogil:
    """Skip letters, digits, dots and underscores."""
    cdef uint8_t c
    cdef int passed
    while BY_SSE2 and end - at[0] >= 16:
        passed = sse2_word(text + at[0])
        at[0] += passed
        if passed < 16:
            return
    while at[0] < end:
        c = text[at[0]]
        if not (c'A' <= c <= c'Z' or c'a' <= c <= c'z' or c'0' <= c <= c'9' or c == c'.' or c == c'_'):
            break
        at[0] += 1


cdef inline int64_t find_opcode(
    const uint8_t* text, int64_t length, const uint8_t[:, ::1] names, const int64_t[::1] lengths, int64_t n
) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if lengths[i] == length and memcmp(text, &names[i, 0], <size_t>length) == 0:
            return i
    return -1
