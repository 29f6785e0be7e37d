# Read the fields of a line of text that is not trusted. The text must end with a zero byte, as bytes objects do, so
# that every scan stops there. A reading function gets the position by reference and, on success, moves
# it behind what it has read.

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef enum:
    REGISTERS = 256
    MAX_OPERANDS = 16       # targets, and likewise sources, of an instruction

cdef inline bint is_blank(uint8_t c) noexcept nogil:
    return c == c' ' or c == c'\t' or c == c'\r'


cdef inline bint at_break(const uint8_t* p) noexcept nogil:
    return is_blank(p[0]) or p[0] == c'\n' or p[0] == 0


cdef inline const uint8_t* skip(const uint8_t* p) noexcept nogil:
    while is_blank(p[0]):
        p += 1
    return p


cdef inline bint read_decimal(const uint8_t** at, uint64_t* value) noexcept nogil:
    """Read a token of decimal digits; a number of 2^63 or more becomes 2^63."""
    cdef const uint8_t* p = skip(at[0])
    cdef const uint8_t* first = p
    cdef uint64_t v = 0
    while c'0' <= p[0] <= c'9':
        v = v * 10 + (p[0] - c'0') if v <= ((<uint64_t>1 << 63) - 1) // 10 else (<uint64_t>1 << 63)
        p += 1
    if p == first or not at_break(p):
        return False
    value[0] = v if v < (<uint64_t>1 << 63) else (<uint64_t>1 << 63)
    at[0] = p
    return True


cdef inline bint read_signed(const uint8_t** at, bint* minus, uint64_t* size) noexcept nogil:
    cdef const uint8_t* p = skip(at[0])
    minus[0] = p[0] == c'-'
    if minus[0]:
        p += 1
        if is_blank(p[0]):
            return False
    if not read_decimal(&p, size):
        return False
    at[0] = p
    return True


cdef inline bint read_hex(const uint8_t** at, uint64_t* value, bint prefixed) noexcept nogil:
    """Read a token of hexadecimal digits after 0x, which is optional unless `prefixed`; 2^63 and more become 2^63."""
    cdef const uint8_t* p = skip(at[0])
    cdef const uint8_t* first
    cdef uint64_t v = 0
    cdef uint8_t c
    if p[0] == c'0' and (p[1] == c'x' or p[1] == c'X'):
        p += 2
    elif prefixed:
        return False
    first = p
    while True:
        c = p[0]
        if c'0' <= c <= c'9':
            c = c - c'0'
        elif c'a' <= c <= c'f':
            c = c - c'a' + 10
        elif c'A' <= c <= c'F':
            c = c - c'A' + 10
        else:
            break
        v = v << 4 | c if v < <uint64_t>1 << 59 else (<uint64_t>1 << 63)
        p += 1
    if p == first or not at_break(p):
        return False
    value[0] = v
    at[0] = p
    return True


cdef inline bint read_registers(
    const uint8_t** at, uint64_t* named, int64_t* count, int64_t* register_of
) noexcept nogil:
    """Read a number and as many registers; store the `count` general ones, not uniform and predicate registers."""
    cdef const uint8_t* p = at[0]
    cdef uint64_t n = 0, number = 0, i
    cdef int64_t kept = 0
    cdef bint general
    if not read_decimal(&p, &n) or n > MAX_OPERANDS:
        return False
    for i in range(n):
        p = skip(p)
        general = p[0] == c'R'
        if not general and p[0] != c'U' and p[0] != c'P':
            return False
        p += 1 if p[0] != c'U' else 2
        if not (c'0' <= p[0] <= c'9') or not read_decimal(&p, &number) or number >= REGISTERS:
            return False
        if general:
            register_of[kept] = <int64_t>number
            kept += 1
    named[0] = n
    count[0] = kept
    at[0] = p
    return True


cdef inline bint read_word(const uint8_t** at, const char* word, int64_t length) noexcept nogil:
    cdef const uint8_t* p = skip(at[0])
    cdef int64_t i
    for i in range(length):
        if p[i] != <uint8_t>word[i]:
            return False
    if not at_break(p + length):
        return False
    at[0] = p + length
    return True


cdef inline int64_t read_trailing_fields(const uint8_t** at, const uint8_t* end) noexcept nogil:
    """Read the fields after the addresses of a .traceg line: up to two numbers, or two with a word and further text.

    Returns how many they are, 3 for the latter, or -1 if something else follows in the line.
    """
    cdef const uint8_t* p = skip(at[0])
    cdef uint64_t value = 0
    cdef bint minus = False
    cdef int64_t found = 0
    while found < 2 and read_signed(&p, &minus, &value):
        found += 1
    p = skip(p)
    if found == 2 and (c'A' <= p[0] <= c'Z'):
        found = 3
        while p[0] != c'\n' and p < end:
            p += 1
    if p[0] != c'\n' and p < end:
        return -1
    at[0] = p
    return found
