# PDP: the reuse distances of loads in some sets of an L1, and the distance for which lines are best protected
# (docs/policies.md, pdp).
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

cdef struct Distances:
    int64_t* line         # [sampled sets x most] those of the last loads of each set, in a ring; NULL: none are sampled
    int64_t* seen         # [sampled sets] loads of the set
    int64_t* reuses       # [most + 1] loads of the period by their distance from the load of the same line before
    int64_t sampled       # loads of the period
    int64_t most
    int64_t every         # set that is sampled


cdef inline int distances_init(Distances* d, int64_t sets, int64_t every, int64_t most) noexcept nogil:
    # -1: out of memory.
    cdef int64_t sampled = (sets - 1) // every + 1
    d.most = most
    d.every = every
    d.line = <int64_t*> calloc(<size_t> (sampled * most), sizeof(int64_t))
    d.seen = <int64_t*> calloc(<size_t> sampled, sizeof(int64_t))
    d.reuses = <int64_t*> calloc(<size_t> (most + 1), sizeof(int64_t))
    return 0 if d.line != NULL and d.seen != NULL and d.reuses != NULL else -1


cdef inline void distances_free(Distances* d) noexcept nogil:
    free(d.line)
    free(d.seen)
    free(d.reuses)


cdef inline void distances_see(Distances* d, int64_t set, int64_t line) noexcept nogil:
    # Count a load of a line, if its set is sampled.
    cdef int64_t at = set // d.every, distance
    cdef int64_t* ring = d.line + at * d.most
    if set % d.every != 0:
        return
    for distance in range(1, min(d.seen[at], d.most) + 1):
        if ring[(d.seen[at] - distance) % d.most] == line:
            d.reuses[distance] += 1
            break
    ring[d.seen[at] % d.most] = line
    d.seen[at] += 1
    d.sampled += 1


cdef inline int64_t distances_best(Distances* d, int64_t ways) noexcept nogil:
    # End the period: return the distance that promises most hits per load during which a line occupies a way.
    cdef int64_t distance, hits = 0, occupied = 0, best = 1
    cdef double rate, highest = 0.0
    for distance in range(1, d.most + 1):
        hits += d.reuses[distance]
        occupied += distance * d.reuses[distance]
        if hits > 0:
            rate = <double> hits / <double> (occupied + (d.sampled - hits) * (distance + ways))
            if rate > highest:
                highest = rate
                best = distance
    memset(d.reuses, 0, <size_t> (d.most + 1) * sizeof(int64_t))
    d.sampled = 0
    return best
