# Read hexadecimal addresses that all have the same number of digits, four at a time, in text that is not trusted.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from tracegen.formats._lex cimport up_to_sixteen_hex

cdef extern from *:
    """
    #include <stdint.h>

    typedef struct {
        int64_t values[32];
        uint64_t any;
        uint32_t zeros;
    } rdmodel_words;

    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    #include <immintrin.h>
    #include <string.h>
    #define RDMODEL_WORDS_BY_AVX2 (__builtin_cpu_supports("avx2") != 0)

    /* Text that `0x` begins with a blank before it, as the low three bytes of a number; X becomes x. */
    static inline unsigned rdmodel_no_prefix(const uint8_t *blank) {
        unsigned v;
        memcpy(&v, blank, 4);
        return ((v | 0x200000) ^ 0x783020) & 0xFFFFFF;
    }

    __attribute__((target("avx2")))
    static inline __m256i rdmodel_two_numbers(const uint8_t *one, const uint8_t *other) {
        return _mm256_inserti128_si256(
            _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)one)), _mm_loadu_si128((const __m128i *)other), 1);
    }

    /* Read groups of four words `0x`, digits, blank as `read_groups` describes. A character is a digit if its halves
       belong together: 3 and 0 to 9, or 4 or 6 and 1 to 6. Every half has a bit for each of both kinds. */
    __attribute__((target("avx2")))
    static int64_t rdmodel_groups_by_avx2(const uint8_t *p, int64_t digits, int64_t groups, rdmodel_words *words) {
        const __m256i low_kinds = _mm256_setr_epi8(
            1, 3, 3, 3, 3, 3, 3, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 3, 3, 3, 3, 3, 3, 1, 1, 1, 0, 0, 0, 0, 0, 0);
        const __m256i high_kinds = _mm256_setr_epi8(
            0, 0, 0, 1, 2, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        const __m256i nines = _mm256_setr_epi8(
            0, 0, 0, 0, 9, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        const __m256i reversal = _mm256_setr_epi8(
            7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);
        const __m256i half = _mm256_set1_epi8(15), sixteens = _mm256_set1_epi16(0x0110);
        const __m256i columns = _mm256_setr_epi8(
            0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        const __m256i counts = _mm256_cmpgt_epi8(_mm256_set1_epi8((char)digits), columns);
        const __m128i shift = _mm_cvtsi64_si128(64 - 4 * digits);
        const int64_t width = digits + 3;
        __m256i any = _mm256_setzero_si256();
        uint32_t zeros = 0;
        int64_t group;
        for (group = 0; group < groups; group++, p += 4 * width) {
            const __m256i a = rdmodel_two_numbers(p + 2, p + 2 + width);
            const __m256i b = rdmodel_two_numbers(p + 2 + 2 * width, p + 2 + 3 * width);
            const __m256i high_a = _mm256_and_si256(_mm256_srli_epi16(a, 4), half);
            const __m256i high_b = _mm256_and_si256(_mm256_srli_epi16(b, 4), half);
            const __m256i kind_a = _mm256_and_si256(
                _mm256_shuffle_epi8(low_kinds, a), _mm256_shuffle_epi8(high_kinds, high_a));
            const __m256i kind_b = _mm256_and_si256(
                _mm256_shuffle_epi8(low_kinds, b), _mm256_shuffle_epi8(high_kinds, high_b));
            const __m256i wrong = _mm256_cmpeq_epi8(_mm256_min_epu8(kind_a, kind_b), _mm256_setzero_si256());
            const __m256i digits_a = _mm256_add_epi8(_mm256_and_si256(a, half), _mm256_shuffle_epi8(nines, high_a));
            const __m256i digits_b = _mm256_add_epi8(_mm256_and_si256(b, half), _mm256_shuffle_epi8(nines, high_b));
            const __m256i bytes = _mm256_packus_epi16(
                _mm256_maddubs_epi16(digits_a, sixteens), _mm256_maddubs_epi16(digits_b, sixteens));
            const __m256i numbers = _mm256_permute4x64_epi64(
                _mm256_srl_epi64(_mm256_shuffle_epi8(bytes, reversal), shift), _MM_SHUFFLE(3, 1, 2, 0));
            if (!_mm256_testz_si256(wrong, counts)
                || (rdmodel_no_prefix(p + width - 1) | rdmodel_no_prefix(p + 2 * width - 1)
                    | rdmodel_no_prefix(p + 3 * width - 1))
                || p[0] != '0' || (p[1] | 0x20) != 'x' || p[4 * width - 1] != ' ')
                break;
            _mm256_storeu_si256((__m256i *)(words->values + 4 * group), numbers);
            any = _mm256_or_si256(any, numbers);
            zeros |= (uint32_t)_mm256_movemask_pd(
                _mm256_castsi256_pd(_mm256_cmpeq_epi64(numbers, _mm256_setzero_si256()))) << 4 * group;
        }
        words->any = (uint64_t)_mm256_extract_epi64(any, 0) | (uint64_t)_mm256_extract_epi64(any, 1)
            | (uint64_t)_mm256_extract_epi64(any, 2) | (uint64_t)_mm256_extract_epi64(any, 3);
        words->zeros = zeros;
        return group;
    }
    #else
    #define RDMODEL_WORDS_BY_AVX2 0
    #define rdmodel_groups_by_avx2(p, digits, groups, words) 0
    #endif
    """
    ctypedef struct Words "rdmodel_words":
        int64_t values[32]      # what the words say, that of the first one first
        uint64_t any            # the bits that any of them has
        uint32_t zeros          # a bit for each value, the lowest for the first one: it is 0

    bint WORDS_BY_AVX2 "RDMODEL_WORDS_BY_AVX2"
    int64_t groups_by_avx2 "rdmodel_groups_by_avx2"(
        const uint8_t* p, int64_t digits, int64_t groups, Words* words
    ) noexcept nogil

cdef enum:
    GROUP = 4               # words in a group
    MOST_GROUPS = 8
    READ_BEYOND = 16        # bytes behind the last word of the groups that may be read


cdef inline int64_t read_groups(const uint8_t* p, const uint8_t* end, int64_t digits, Words* words) noexcept nogil:
    """Read groups of `GROUP` words of ``0x``, `digits` hexadecimal digits, 1 to 16, and a blank; return their number.

    Stops before the first group that differs, or ends less than `READ_BEYOND` bytes before `end`, and after
    `MOST_GROUPS` of them. Values of 2^63 and more become negative.
    """
    cdef int64_t groups = groups_within(end - p, digits)
    if WORDS_BY_AVX2:
        return groups_by_avx2(p, digits, groups, words)
    return groups_by_hand(p, digits, groups, words)


cdef inline int64_t groups_within(int64_t length, int64_t digits) noexcept nogil:
    """Return how many groups, at most, may be read from a text of `length` bytes."""
    return min(<int64_t>MOST_GROUPS, (length - READ_BEYOND) // (GROUP * (digits + 3))) if length > READ_BEYOND else 0


cdef inline int64_t groups_by_hand(const uint8_t* p, int64_t digits, int64_t groups, Words* words) noexcept nogil:
    """Read up to `groups` groups as `read_groups` does, on any machine."""
    cdef int64_t width = digits + 3
    cdef int64_t group, i
    cdef uint64_t value = 0
    words.any = 0
    words.zeros = 0
    for group in range(groups):
        for i in range(GROUP * group, GROUP * group + GROUP):
            if not (
                p[0] == c'0'
                and p[1] | 0x20 == c'x'
                and p[width - 1] == c' '
                and up_to_sixteen_hex(p + 2, &value) == digits
            ):
                return group
            words.values[i] = <int64_t>value
            words.any |= value
            words.zeros |= <uint32_t>(value == 0) << i
            p += width
    return groups
