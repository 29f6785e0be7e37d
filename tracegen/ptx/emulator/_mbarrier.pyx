# An mbarrier is opaque to programs. Here it has these bits: 0 to 19 the arrivals that are pending, 20 to 39 the arrivals
# of the next phase, 40 to 62 the bytes that are still to come (two's complement), 63 the parity of the phase.
"""Count the arrivals and bytes of mbarriers in shared memory."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    COUNT_BITS = 20
    BYTES_AT = 40
    BYTES_BITS = 23
    PARITY_AT = 63
    MOST = (1 << 20) - 1


cdef void start(uint8_t* host, int64_t count) noexcept nogil:
    """Initialise an mbarrier that expects `count` arrivals in each phase."""
    cdef uint64_t word = <uint64_t>(count & MOST)
    word |= word << COUNT_BITS
    memcpy(host, &word, 8)


cdef bint arrive(uint8_t* host, int64_t count, int64_t expected) noexcept nogil:
    """Expect bytes (a negative number completes them), then arrive `count` times; return whether the phase ends."""
    cdef uint64_t word, next
    cdef int64_t pending, bytes
    memcpy(&word, host, 8)
    next = word >> COUNT_BITS & MOST
    pending = (<int64_t>(word & MOST) - count) & MOST
    bytes = (<int64_t>(word >> BYTES_AT & ((<uint64_t>1 << BYTES_BITS) - 1)) + expected) & ((1 << BYTES_BITS) - 1)
    word &= <uint64_t>1 << PARITY_AT
    if pending == 0 and bytes == 0:
        word ^= <uint64_t>1 << PARITY_AT
        word |= next | next << COUNT_BITS
        memcpy(host, &word, 8)
        return True
    word |= <uint64_t>pending | next << COUNT_BITS | <uint64_t>bytes << BYTES_AT
    memcpy(host, &word, 8)
    return False


cdef void drop(uint8_t* host, int64_t count) noexcept nogil:
    """Expect `count` arrivals less from the next phase on."""
    cdef uint64_t word
    memcpy(&word, host, 8)
    word -= <uint64_t>count << COUNT_BITS
    memcpy(host, &word, 8)


cdef uint64_t state_of(const uint8_t* host) noexcept nogil:
    """Return the state of the present phase, which `parity_of` reads."""
    cdef uint64_t word
    memcpy(&word, host, 8)
    return word


cdef uint64_t parity_of(uint64_t state) noexcept nogil:
    return state >> PARITY_AT


cdef bint has_completed(const uint8_t* host, uint64_t parity) noexcept nogil:
    """Return whether the phase of this parity, the present or the last one, has ended."""
    return parity_of(state_of(host)) != parity
