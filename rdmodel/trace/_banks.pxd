# Wavefronts of one access of a warp to shared memory: docs/counters.md has the rules.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

cdef enum:
    BANKS = 32
    WORD_BITS = 2            # banks have words of four bytes
    MOST_WORDS = 160         # of a group: 32 lanes of at most 4 bytes, or 8 lanes of 16, none of them aligned


cdef inline int64_t group_of_lanes(int64_t size) noexcept nogil:
    # Return the number of lanes that are served together: the warp, half of it, or a quarter.
    return 32 if size <= 4 else 16 if size <= 8 else 8


cdef inline int64_t serve_clashing(const uint64_t* place, int64_t n, int64_t size, bint each) noexcept nogil:
    # Return the most words of a bank: distinct ones or, with `each`, those of all lanes.
    cdef uint8_t first[BANKS]      # 1 + index of a bank's last word; 0: none
    cdef uint8_t next[MOST_WORDS]
    cdef uint64_t word[MOST_WORDS]
    cdef int64_t[BANKS] load
    cdef int64_t i, found = 0, most = 0, bank, k
    cdef uint64_t at, last
    memset(first, 0, sizeof(first))
    memset(load, 0, sizeof(load))
    for i in range(n):
        at = place[i] >> WORD_BITS
        last = (place[i] + <uint64_t> size - 1) >> WORD_BITS
        while at <= last:
            bank = <int64_t> (at % BANKS)
            k = 0 if each else first[bank]
            while k and word[k - 1] != at:
                k = next[k - 1]
            if k == 0:
                if not each:
                    word[found], next[found] = at, first[bank]
                    found += 1
                    first[bank] = <uint8_t> found
                load[bank] += 1
                most = max(most, load[bank])
            at += 1
    return most


cdef inline int64_t serve_group(const uint64_t* place, int64_t n, int64_t size, bint each) noexcept nogil:
    # Return the wavefronts of lanes that are served together; most accesses have no conflict, and need no lists.
    cdef uint64_t word[BANKS]
    cdef uint64_t at, last
    cdef uint32_t used = 0, bit
    cdef bint clash = False
    cdef int64_t i
    for i in range(n):
        at = place[i] >> WORD_BITS
        last = (place[i] + <uint64_t> size - 1) >> WORD_BITS
        while at <= last:
            bit = <uint32_t> 1 << (at % BANKS)
            if used & bit == 0:
                used |= bit
                word[at % BANKS] = at
            elif each or word[at % BANKS] != at:
                clash = True
            at += 1
    return serve_clashing(place, n, size, each) if clash else 1


cdef inline bint pairs_agree(const uint64_t* place, const int32_t* lane, int64_t n, int32_t apart) noexcept nogil:
    # Return whether all lanes whose numbers differ in the bit `apart` (1 or 2) alone access the same place.
    cdef int64_t i, j
    for i in range(n):
        j = i + 1
        while j < n and lane[j] <= lane[i] | apart:
            if lane[j] == lane[i] ^ apart and place[j] != place[i]:
                return False
            j += 1
    return True


cdef inline int64_t lanes_together(
    const uint64_t* place, const int32_t* lane, int64_t n, int64_t size, bint each
) noexcept nogil:
    # Return the lanes that are served together: those of `group_of_lanes`, or twice as many where lanes agree in pairs,
    # so that a register holds two results.
    cdef int64_t width = group_of_lanes(size)
    if width < 32 and not each and (pairs_agree(place, lane, n, 1) or pairs_agree(place, lane, n, 2)):
        return 2 * width
    return width


cdef inline int64_t serve_warp(
    const uint64_t* place, const int32_t* lane, int64_t n, int64_t size, bint each, int64_t* groups
) noexcept nogil:
    # Return the wavefronts of `n` > 0 lanes of one warp, in ascending order, and add their groups to `groups`.
    cdef int64_t width = lanes_together(place, lane, n, size, each), first = 0, end = 0, total = 0, number
    while end < n:
        number = lane[end] % 32 // width
        end += 1
        if end == n or lane[end] % 32 // width != number:
            total += serve_group(place + first, end - first, size, each)
            groups[0] += 1
            first = end
    return total


cdef struct Pattern:
    # An access and its wavefronts. These depend on the distances of the lanes alone: all addresses may be moved by the
    # same words.
    uint64_t distance[32]    # from the first active lane
    uint32_t mask
    uint32_t inside          # offset of the first address in its word
    int64_t wavefronts, groups


cdef inline bint matches(const Pattern* pattern, const uint64_t* place, int64_t n, uint32_t mask) noexcept nogil:
    # Return whether an access has the wavefronts of a pattern.
    cdef uint64_t differs = 0, first = place[0]
    cdef int64_t i
    if pattern.mask != mask or pattern.inside != (first & 3):
        return False
    for i in range(n):
        differs |= (place[i] - first) ^ pattern.distance[i]
    return differs == 0


cdef inline void serve_pattern(
    Pattern* pattern, const uint64_t* place, const int32_t* lane, int64_t n, uint32_t mask, int64_t size, bint each
) noexcept nogil:
    # Replace the access of a pattern; `size` and `each` are the same for all accesses of the pattern.
    cdef int64_t i
    if matches(pattern, place, n, mask):
        return
    for i in range(n):
        pattern.distance[i] = place[i] - place[0]
    pattern.mask, pattern.inside, pattern.groups = mask, <uint32_t> (place[0] & 3), 0
    pattern.wavefronts = serve_warp(place, lane, n, size, each, &pattern.groups)
