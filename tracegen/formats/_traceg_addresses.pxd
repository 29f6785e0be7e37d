# The addresses of a .traceg line: the three ways to write them, and the memory that generic ones belong to. Each
# reading function reads from `at`, which it moves on, and writes one address per lane of `mask` to `out`.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from tracegen.formats._fields cimport read_hex, read_signed

cdef extern from *:
    int count_bits "__builtin_popcount"(unsigned int x) noexcept nogil
    int lowest_bit "__builtin_ctz"(unsigned int x) noexcept nogil
    int highest_bit "__builtin_clz"(unsigned int x) noexcept nogil

cdef enum:
    WARP_LANES = 32
    WINDOW_BYTES = 1 << 24   # of shared and of local memory in the generic address space

# Results; the mistakes are those of the same names in tracegen.formats._accelsim.Event.
cdef enum:
    ADDRESSES_READ = 0
    ADDRESSES_FEW = 11
    ADDRESSES_BAD = 12
    ADDRESSES_WITH_HOLES = 13


cdef inline int read_list(
    const uint8_t** at, uint32_t mask, uint64_t last_address, bint prefixed, int64_t* out
) noexcept nogil:
    """Read mode 0, all addresses; `prefixed` says that each of them must begin with 0x."""
    cdef uint64_t address = 0
    cdef int64_t i
    for i in range(count_bits(mask)):
        if not read_hex(at, &address, prefixed):
            return ADDRESSES_FEW
        if address > last_address:
            return ADDRESSES_BAD
        out[i] = <int64_t>address
    return ADDRESSES_READ


cdef inline int read_strided(const uint8_t** at, uint32_t mask, uint64_t last_address, int64_t* out) noexcept nogil:
    """Read mode 1, the first address and the stride, for neighbouring lanes."""
    cdef int64_t lanes = count_bits(mask), i
    cdef uint64_t base = 0, stride = 0, span, address
    cdef bint minus = False
    if not read_hex(at, &base, False) or not read_signed(at, &minus, &stride):
        return ADDRESSES_FEW
    if mask == 0:
        return ADDRESSES_READ
    if lanes != WARP_LANES - highest_bit(mask) - lowest_bit(mask):
        return ADDRESSES_WITH_HOLES
    if base > last_address:
        return ADDRESSES_BAD
    if lanes > 1:
        if stride >= <uint64_t>1 << 58:
            return ADDRESSES_BAD
        span = stride * <uint64_t>(lanes - 1)
        if (span > base) if minus else (base + span > last_address):
            return ADDRESSES_BAD
    if minus:
        stride = <uint64_t>0 - stride
    address = base
    for i in range(lanes):
        out[i] = <int64_t>address
        address += stride
    return ADDRESSES_READ


cdef inline int read_differences(
    const uint8_t** at, uint32_t mask, uint64_t last_address, int64_t* out
) noexcept nogil:
    """Read mode 2, the first address and the differences between neighbours."""
    cdef uint64_t address = 0, difference = 0
    cdef int64_t i
    cdef bint minus = False
    if not read_hex(at, &address, False):
        return ADDRESSES_FEW
    if mask and address > last_address:
        return ADDRESSES_BAD
    for i in range(count_bits(mask)):
        if i > 0:
            if not read_signed(at, &minus, &difference):
                return ADDRESSES_FEW
            if (difference > address) if minus else (address + difference > last_address):
                return ADDRESSES_BAD
            address = address - difference if minus else address + difference
        out[i] = <int64_t>address
    return ADDRESSES_READ


cdef inline int memory_of(const int64_t* addresses, int64_t lanes, uint64_t local, uint64_t shared) noexcept nogil:
    """Return the memory of generic addresses: 0 global, 1 local, 2 shared, -1 more than one of them.

    `local` and `shared` are the first addresses of the windows of local and shared memory; 0: unknown.
    """
    cdef int64_t i
    cdef int found = -1, place
    cdef uint64_t address
    for i in range(lanes):
        address = <uint64_t>addresses[i]
        place = 0
        if local and address - local < WINDOW_BYTES:
            place = 1
        elif shared and address - shared < WINDOW_BYTES:
            place = 2
        if i > 0 and place != found:
            return -1
        found = place
    return found
