# Registers are 64-bit slots, and every loop runs over the packed values of the active lanes. A write truncates the
# value to its width. A read truncates or extends it to the type of the instruction, so bits above the width are
# irrelevant. Functions that return a flag return False for an instruction that is not theirs.
"""Execute integer, bit and comparison instructions of PTX over packed lanes."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from tracegen.ptx.isa._code cimport *

cdef extern from *:
    """
    #include <stdint.h>
    static inline uint64_t high_unsigned(uint64_t a, uint64_t b) {
        return (uint64_t) (((unsigned __int128) a * b) >> 64);
    }
    static inline uint64_t high_signed(int64_t a, int64_t b) { return (uint64_t) (((__int128) a * b) >> 64); }
    """
    uint64_t high_unsigned(uint64_t a, uint64_t b) noexcept nogil
    uint64_t high_signed(int64_t a, int64_t b) noexcept nogil
    int leading_zeros "__builtin_clzll"(unsigned long long x) noexcept nogil
    int count_ones "__builtin_popcountll"(unsigned long long x) noexcept nogil

cdef uint64_t ONES = <uint64_t>0 - 1


cdef inline uint64_t low_bits(int64_t n) noexcept nogil:
    """Return a mask of the lowest `n` bits; all 64 if `n` is larger."""
    return ONES if n >= 64 else ((<uint64_t>1 << n) - 1)


cdef inline int64_t extended(uint64_t value, int64_t unused) noexcept nogil:
    """Return the lowest ``64 - unused`` bits of `value`, sign-extended."""
    return <int64_t>(value << unused) >> unused


cdef inline int64_t highest_bit(uint64_t value) noexcept nogil:
    return 63 - leading_zeros(value) if value else -1


# ---- Results that do not depend on the sign, truncated to the width

cdef bint compute_modular(
    const Code* code, int64_t n, uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t mask
) noexcept nogil:
    cdef int64_t i, op = code.op
    if op == MOV:
        for i in range(n):
            d[i] = a[i] & mask
    elif op == ADD:
        for i in range(n):
            d[i] = (a[i] + b[i]) & mask
    elif op == SUB:
        for i in range(n):
            d[i] = (a[i] - b[i]) & mask
    elif op == MUL_LO:
        for i in range(n):
            d[i] = (a[i] * b[i]) & mask
    elif op == MAD_LO:
        for i in range(n):
            d[i] = (a[i] * b[i] + c[i]) & mask
    elif op == NEG:
        for i in range(n):
            d[i] = (0 - a[i]) & mask
    elif op == AND:
        for i in range(n):
            d[i] = a[i] & b[i] & mask
    elif op == OR:
        for i in range(n):
            d[i] = (a[i] | b[i]) & mask
    elif op == XOR:
        for i in range(n):
            d[i] = (a[i] ^ b[i]) & mask
    elif op == NOT:
        for i in range(n):
            d[i] = ~a[i] & mask
    elif op == CNOT:
        for i in range(n):
            d[i] = (a[i] & mask) == 0
    elif op == ADD_CARRY:
        for i in range(n):
            d[i] = (a[i] + b[i] + (c[i] & 1)) & mask
    elif op == SUB_BORROW:
        for i in range(n):
            d[i] = (a[i] - b[i] - (c[i] & 1)) & mask
    elif op == SELECT:
        for i in range(n):
            d[i] = (a[i] if c[i] & 1 else b[i]) & mask
    else:
        return False
    return True


cdef bint compute_carries(
    const Code* code, int64_t n, uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t mask
) noexcept nogil:
    cdef int64_t i
    cdef uint64_t x, y, carry
    if code.op == CARRY:
        for i in range(n):
            x = a[i] & mask
            y = b[i] & mask
            carry = c[i] & 1
            d[i] = x > mask - y or (carry and x == mask - y)
    elif code.op == BORROW:
        for i in range(n):
            x = a[i] & mask
            y = b[i] & mask
            d[i] = x < y or (c[i] & 1 and x == y)
    else:
        return False
    return True


# ---- Unsigned and signed, in 64 bits

cdef bint compute_unsigned(
    const Code* code, int64_t n, uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t mask
) noexcept nogil:
    cdef int64_t i, op = code.op, width = code.width
    cdef uint64_t x, y
    if op == DIV:       # division by zero is unspecified in PTX: all ones, as on hardware
        for i in range(n):
            x = a[i] & mask
            y = b[i] & mask
            d[i] = x // y if y else mask
    elif op == REM:
        for i in range(n):
            x = a[i] & mask
            y = b[i] & mask
            d[i] = x % y if y else x
    elif op == MIN:
        for i in range(n):
            x = a[i] & mask
            y = b[i] & mask
            d[i] = x if x < y else y
    elif op == MAX:
        for i in range(n):
            x = a[i] & mask
            y = b[i] & mask
            d[i] = x if x > y else y
    elif op == SHR:
        for i in range(n):
            y = <uint32_t>b[i]
            d[i] = (a[i] & mask) >> y if y < <uint64_t>width else 0
    elif op == MUL_WIDE:
        for i in range(n):
            d[i] = (a[i] & mask) * (b[i] & mask)
    elif op == MAD_WIDE:
        for i in range(n):
            d[i] = (a[i] & mask) * (b[i] & mask) + c[i]
    elif op == MUL_HI:
        if width == 64:
            for i in range(n):
                d[i] = high_unsigned(a[i], b[i])
        else:
            for i in range(n):
                d[i] = ((a[i] & mask) * (b[i] & mask)) >> width
    elif op == SAD:
        for i in range(n):
            x = a[i] & mask
            y = b[i] & mask
            d[i] = (c[i] + (x - y if x > y else y - x)) & mask
    elif op == ABS:
        for i in range(n):
            d[i] = a[i] & mask
    else:
        return False
    return True


cdef bint compute_signed(
    const Code* code, int64_t n, uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t mask
) noexcept nogil:
    cdef int64_t i, op = code.op, width = code.width, s = 64 - code.width, x, y
    if op == DIV:       # division by -1 is a negation, which may wrap
        for i in range(n):
            x = extended(a[i], s)
            y = extended(b[i], s)
            if y == 0:
                d[i] = mask
            else:
                d[i] = (0 - <uint64_t>x if y == -1 else <uint64_t>(x // y)) & mask
    elif op == REM:
        for i in range(n):
            x = extended(a[i], s)
            y = extended(b[i], s)
            if y == 0:
                d[i] = <uint64_t>x & mask
            else:
                d[i] = 0 if y == -1 else <uint64_t>(x % y) & mask
    elif op == MIN:
        for i in range(n):
            x = extended(a[i], s)
            y = extended(b[i], s)
            d[i] = <uint64_t>(x if x < y else y) & mask
    elif op == MAX:
        for i in range(n):
            x = extended(a[i], s)
            y = extended(b[i], s)
            d[i] = <uint64_t>(x if x > y else y) & mask
    elif op == SHR:
        for i in range(n):
            y = <int64_t><uint32_t>b[i]
            d[i] = <uint64_t>(extended(a[i], s) >> (y if y < width else width - 1)) & mask
    elif op == MUL_WIDE:
        for i in range(n):
            d[i] = <uint64_t>extended(a[i], s) * <uint64_t>extended(b[i], s)
    elif op == MAD_WIDE:
        for i in range(n):
            d[i] = <uint64_t>extended(a[i], s) * <uint64_t>extended(b[i], s) + c[i]
    elif op == MUL_HI:
        if width == 64:
            for i in range(n):
                d[i] = high_signed(<int64_t>a[i], <int64_t>b[i])
        else:
            for i in range(n):
                d[i] = <uint64_t>((extended(a[i], s) * extended(b[i], s)) >> width) & mask
    elif op == SAD:
        for i in range(n):
            x = extended(a[i], s)
            y = extended(b[i], s)
            d[i] = (c[i] + (<uint64_t>x - <uint64_t>y if x > y else <uint64_t>y - <uint64_t>x)) & mask
    elif op == ABS:
        for i in range(n):
            x = extended(a[i], s)
            d[i] = (0 - <uint64_t>x if x < 0 else <uint64_t>x) & mask
    else:
        return False
    return True


# ---- Comparisons

cdef void compare_unsigned(
    int64_t how, int64_t n, uint64_t* d, const uint64_t* a, const uint64_t* b, uint64_t mask
) noexcept nogil:
    cdef int64_t i
    if how == EQ:
        for i in range(n):
            d[i] = (a[i] & mask) == (b[i] & mask)
    elif how == NE:
        for i in range(n):
            d[i] = (a[i] & mask) != (b[i] & mask)
    elif how == LT:
        for i in range(n):
            d[i] = (a[i] & mask) < (b[i] & mask)
    elif how == LE:
        for i in range(n):
            d[i] = (a[i] & mask) <= (b[i] & mask)
    elif how == GT:
        for i in range(n):
            d[i] = (a[i] & mask) > (b[i] & mask)
    else:
        for i in range(n):
            d[i] = (a[i] & mask) >= (b[i] & mask)


cdef void compare_signed(
    int64_t how, int64_t n, uint64_t* d, const uint64_t* a, const uint64_t* b, int64_t s
) noexcept nogil:
    cdef int64_t i
    if how == LT:
        for i in range(n):
            d[i] = extended(a[i], s) < extended(b[i], s)
    elif how == LE:
        for i in range(n):
            d[i] = extended(a[i], s) <= extended(b[i], s)
    elif how == GT:
        for i in range(n):
            d[i] = extended(a[i], s) > extended(b[i], s)
    else:
        for i in range(n):
            d[i] = extended(a[i], s) >= extended(b[i], s)


# ---- Bits

cdef inline uint64_t extract(uint64_t value, int64_t position, int64_t length, int64_t width, bint signed) noexcept nogil:
    """Return `length` bits from `position` on; bits beyond `width` repeat the sign if `signed`, else are 0."""
    cdef int64_t inside = min(length, max(width - position, 0))
    cdef int64_t top = min(position + length - 1, width - 1)
    cdef uint64_t field = (value >> position) & low_bits(inside) if inside > 0 else 0
    if signed and length > 0 and (value >> top) & 1:
        field |= low_bits(width) & ~low_bits(inside)
    return field


cdef inline uint64_t insert(uint64_t field, uint64_t value, int64_t position, int64_t length, int64_t width) noexcept nogil:
    cdef uint64_t place
    if position >= width:
        return value
    place = (low_bits(length) << position) & low_bits(width)
    return (value & ~place) | ((field << position) & place)


cdef inline uint64_t reversed_bits(uint64_t value, int64_t width) noexcept nogil:
    cdef uint64_t result = 0
    cdef int64_t i
    for i in range(width):
        result = result << 1 | ((value >> i) & 1)
    return result


cdef inline uint64_t combined(uint64_t a, uint64_t b, uint64_t c, int64_t table) noexcept nogil:
    """Compute lop3: bit i of `table` is the result for the i-th combination of bits of a, b and c."""
    cdef uint64_t result = 0
    cdef int64_t i
    for i in range(8):
        if (table >> i) & 1:
            result |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return result


cdef inline int64_t picked_byte(int64_t mode, uint64_t control, int64_t i) noexcept nogil:
    """Return the source byte (0 to 7) of result byte `i` of prmt, plus 8 if its sign is to be repeated instead."""
    cdef int64_t c = <int64_t>(control & 3)
    if mode == PRMT_INDEX:
        return <int64_t>((control >> (4 * i)) & 15)
    if mode == PRMT_F4E:
        return c + i
    if mode == PRMT_B4E:
        return (c - i) & 7
    if mode == PRMT_RC8:
        return c
    if mode == PRMT_ECL:
        return max(c, i)
    if mode == PRMT_ECR:
        return min(c, i)
    return ((c & 1) << 1) + (i & 1)


cdef inline uint64_t permuted(uint64_t a, uint64_t b, uint64_t control, int64_t mode) noexcept nogil:
    cdef uint64_t bytes = <uint64_t><uint32_t>a | (b << 32)
    cdef uint64_t result = 0, byte
    cdef int64_t i, pick
    for i in range(4):
        pick = picked_byte(mode, control, i)
        byte = (bytes >> (8 * (pick & 7))) & 0xFF
        if pick & 8:
            byte = 0xFF if byte & 0x80 else 0
        result |= byte << (8 * i)
    return result


cdef inline uint64_t funnel(uint64_t low, uint64_t high, uint64_t amount, bint left, bint wrap) noexcept nogil:
    cdef uint64_t both = <uint64_t><uint32_t>low | (high << 32)
    cdef uint64_t n = <uint32_t>amount
    n = n & 31 if wrap else min(n, <uint64_t>32)
    return <uint32_t>((both << n) >> 32 if left else both >> n)


cdef void compute_bits(
    const Code* code, int64_t n, uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t mask
) noexcept nogil:
    cdef int64_t i, op = code.op, width = code.width, found
    cdef bint signed = code.kind == SIGNED, spread = (code.flags & SPREAD) != 0
    cdef uint64_t x
    if op == SHL:
        for i in range(n):
            x = <uint32_t>b[i]
            d[i] = (a[i] << x) & mask if x < <uint64_t>width else 0
    elif op == SHF_L or op == SHF_R:
        for i in range(n):
            d[i] = funnel(a[i], b[i], c[i], op == SHF_L, spread)
    elif op == BFE:
        for i in range(n):
            d[i] = extract(a[i] & mask, b[i] & 0xFF, c[i] & 0xFF, width, signed)
    elif op == CLZ:
        for i in range(n):
            d[i] = width - 1 - highest_bit(a[i] & mask)
    elif op == POPC:
        for i in range(n):
            d[i] = count_ones(a[i] & mask)
    elif op == BREV:
        for i in range(n):
            d[i] = reversed_bits(a[i], width)
    elif op == BFIND:
        for i in range(n):
            x = a[i] & mask
            if signed and (x >> (width - 1)) & 1:
                x = ~x & mask
            found = highest_bit(x)
            d[i] = <uint32_t>(width - 1 - found if spread and found >= 0 else found)
    elif op == PRMT:
        for i in range(n):
            d[i] = permuted(a[i], b[i], c[i], code.mode)
    elif op == LOP3:
        for i in range(n):
            d[i] = combined(a[i], b[i], c[i], code.mode) & mask


cdef void insert_bits(
    const Code* code, int64_t n, uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c, const uint64_t* e
) noexcept nogil:
    """Compute bfi: insert the lowest `e` bits of `a` into `b` at position `c`."""
    cdef int64_t i
    for i in range(n):
        d[i] = insert(a[i], b[i], c[i] & 0xFF, e[i] & 0xFF, code.width) & low_bits(code.width)


# ---- Conversions between integers

cdef inline uint64_t clamped(uint64_t value, bint from_signed, int64_t width, bint to_signed) noexcept nogil:
    """Return a 64-bit value saturated to `width` bits."""
    cdef uint64_t most = low_bits(width - 1 if to_signed else width)
    if from_signed and <int64_t>value < 0:
        if not to_signed:
            return 0
        return ~most if <int64_t>value < <int64_t>~most else value
    return most if value > most else value


cdef void convert(const Code* code, int64_t n, uint64_t* d, const uint64_t* a, uint64_t mask) noexcept nogil:
    cdef int64_t i, s = 64 - code.from_width
    cdef bint from_signed = code.from_kind == SIGNED, to_signed = code.kind == SIGNED
    cdef bint saturate = (code.flags & SATURATE) != 0
    cdef uint64_t x, cut = low_bits(code.from_width)
    for i in range(n):
        x = <uint64_t>extended(a[i], s) if from_signed else a[i] & cut
        if saturate:
            x = clamped(x, from_signed, code.width, to_signed)
        # A narrow signed result is sign-extended to the whole slot.
        d[i] = <uint64_t>extended(x, 64 - code.width) if to_signed else x & mask


cdef void compute_integers(
    const Code* code, int64_t n, uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c
) noexcept nogil:
    """Execute an integer instruction for `n` lanes: `d` from the operands `a`, `b` and `c`."""
    cdef uint64_t mask = low_bits(code.width)
    if compute_modular(code, n, d, a, b, c, mask) or compute_carries(code, n, d, a, b, c, mask):
        return
    if code.op == CONVERT:
        convert(code, n, d, a, mask)
    elif code.op == COMPARE:
        if code.kind == SIGNED and code.mode >= LT:
            compare_signed(code.mode, n, d, a, b, 64 - code.width)
        else:
            compare_unsigned(code.mode, n, d, a, b, mask)
    elif code.kind == SIGNED and compute_signed(code, n, d, a, b, c, mask):
        return
    elif code.kind != SIGNED and compute_unsigned(code, n, d, a, b, c, mask):
        return
    else:
        compute_bits(code, n, d, a, b, c, mask)
