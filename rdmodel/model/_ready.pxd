# The ready warps of an SM, at most 64, in the order in which they became ready, and behind them the parked ones, in the
# order in which they will become ready together. So they become ready without being moved.
# A warp takes the next of a row of places, and leaves a hole; a set of bits has the places that are taken. So the n-th
# ready warp is at the n-th bit that is set, and no list moves when it is taken out. A full row is closed up.
from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from *:
    """
    /* The place of the bit that has `rank` set bits before it; `x` must have more than `rank` of them. */
    static inline int rdmodel_select_by_hand(unsigned long long x, int rank) {
        unsigned long long sums, below;
        int place;
        sums = x - ((x >> 1) & 0x5555555555555555ULL);
        sums = (sums & 0x3333333333333333ULL) + ((sums >> 2) & 0x3333333333333333ULL);
        sums = ((sums + (sums >> 4)) & 0x0F0F0F0F0F0F0F0FULL) * 0x0101010101010101ULL;
        /* Byte i of `sums` counts the bits up to that byte; the bytes with at most `rank` lie before the wanted one. */
        below = ((0x8080808080808080ULL | (unsigned long long) rank * 0x0101010101010101ULL) - sums)
            & 0x8080808080808080ULL;
        place = (int) (((below >> 7) * 0x0101010101010101ULL) >> 56) * 8;
        rank -= (int) ((sums << 8) >> place & 0xFF);
        x >>= place;
        while (rank-- > 0)
            x &= x - 1;
        return place + __builtin_ctzll(x);
    }

    /* Two generations of processors have the instruction, but take a hundred cycles for it. */
    static inline int rdmodel_deposits(void) {
    #if defined(__x86_64__)
        __builtin_cpu_init();
        return __builtin_cpu_supports("bmi2") && !__builtin_cpu_is("znver1") && !__builtin_cpu_is("znver2");
    #else
        return 0;
    #endif
    }

    static inline int rdmodel_select(unsigned long long x, int rank, int deposits) {
    #if defined(__x86_64__)
        if (__builtin_expect(deposits, 1)) {
            unsigned long long bit;
            __asm__("pdepq %2, %1, %0" : "=r"(bit) : "r"(1ULL << rank), "r"(x));
            return __builtin_ctzll(bit);
        }
    #endif
        return rdmodel_select_by_hand(x, rank);
    }
    """
    int select_by_hand "rdmodel_select_by_hand"(uint64_t x, int rank) noexcept nogil
    int select_bit "rdmodel_select"(uint64_t x, int rank, bint deposits) noexcept nogil
    bint deposits_quickly "rdmodel_deposits"() noexcept nogil
    int lowest_bit "__builtin_ctzll"(unsigned long long x) noexcept nogil

cdef enum:
    MOST_WARPS = 64
    PLACES = 128             # two words of bits


cdef struct Ready:
    uint64_t low, high       # places that are taken
    int64_t size             # ready warps
    int64_t parked           # warps behind them in the row, which are not ready before the next fill
    int64_t before           # warps in `low`
    int64_t end              # the next place
    uint8_t* place           # [PLACES] the warps
    bint deposits


cdef inline void ready_close_up(Ready* r) noexcept nogil:
    # Move all warps to the front of the row, in order.
    cdef int64_t to = 0
    cdef uint64_t bits
    bits = r.low
    while bits:
        r.place[to] = r.place[lowest_bit(bits)]
        bits &= bits - 1
        to += 1
    bits = r.high
    while bits:
        r.place[to] = r.place[64 + lowest_bit(bits)]
        bits &= bits - 1
        to += 1
    r.end = r.before = to
    r.low = (<uint64_t> 1 << to) - 1 if to < 64 else ~<uint64_t> 0
    r.high = 0


cdef inline void ready_make_room(Ready* r, int64_t n) noexcept nogil:
    # Make room for `n` warps, at most MOST_WARPS, at the end of the row.
    if r.end + n > PLACES:
        ready_close_up(r)


cdef inline void ready_put(Ready* r, int64_t warp) noexcept nogil:
    # Put a warp at the end of the row, where there must be room. Either word is as likely: masks choose it, no branch.
    cdef int64_t later = r.end >> 6
    cdef uint64_t mask = <uint64_t> -later, bit = <uint64_t> 1 << (r.end & 63)
    r.place[r.end] = <uint8_t> warp
    r.low |= bit & ~mask
    r.high |= bit & mask
    r.before += 1 - later
    r.end += 1


cdef inline void ready_park(Ready* r, int64_t warp) noexcept nogil:
    # There must be room, as for `ready_put`.
    r.parked += 1
    ready_put(r, warp)


cdef inline void ready_unpark(Ready* r) noexcept nogil:
    # Append the parked warps, in order: they are there already.
    r.size += r.parked
    r.parked = 0


cdef inline int64_t ready_take(Ready* r, int64_t index) noexcept nogil:
    # Take out the warp at an index of the order. Masks choose its word, as in `ready_put`.
    cdef int64_t later = index >= r.before
    cdef uint64_t mask = <uint64_t> -later, bit
    cdef int at = select_bit(
        (r.low & ~mask) | (r.high & mask), <int> (index - (r.before & <int64_t> mask)), r.deposits
    )
    bit = <uint64_t> 1 << at
    r.low ^= bit & ~mask
    r.high ^= bit & mask
    r.size -= 1
    r.before -= 1 - later
    return r.place[at + (later << 6)]


cdef inline void ready_append(Ready* r, int64_t warp) noexcept nogil:
    # Append a warp: before those that are parked, which is rare.
    cdef uint8_t[MOST_WARPS] parked
    cdef int64_t i, n = r.parked
    ready_make_room(r, n + 1)
    for i in range(n):
        parked[i] = <uint8_t> ready_take(r, r.size)
        r.size += 1
    ready_put(r, warp)
    r.size += 1
    for i in range(n):
        ready_put(r, parked[i])
