# CCWS: the tags of lines that warps have lost to others, and the scores of the warps (docs/policies.md, ccws).
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from rdmodel.structures._index cimport modulo

cdef struct Score:
    int64_t value         # in cycle `since`; it falls by one a cycle
    int64_t since


cdef struct Victims:
    int64_t* tag          # [warps x sets x ways] lines, in each set the most recent first
    int64_t* held         # [warps x sets] number of tags in the set
    Score* score          # [warps]
    int64_t sets, ways
    int64_t base
    int64_t hits          # misses whose line was among the tags
    bint stale            # the warps must be ranked again
    int64_t until         # first cycle in which the ranking may change


cdef inline int victims_init(Victims* v, int64_t warps, int64_t entries, int64_t ways, int64_t base) noexcept nogil:
    # -1: out of memory.
    v.sets = entries // ways
    v.ways = ways
    v.base = base
    v.stale = True
    v.tag = <int64_t*> calloc(<size_t> (warps * entries), sizeof(int64_t))
    v.held = <int64_t*> calloc(<size_t> (warps * v.sets), sizeof(int64_t))
    v.score = <Score*> calloc(<size_t> warps, sizeof(Score))
    return 0 if v.tag != NULL and v.held != NULL and v.score != NULL else -1


cdef inline void victims_free(Victims* v) noexcept nogil:
    free(v.tag)
    free(v.held)
    free(v.score)


cdef inline void victims_begin(Victims* v, int64_t warp) noexcept nogil:
    # Clear the tags of the warp that had the slot before.
    cdef int64_t set
    for set in range(v.sets):
        v.held[warp * v.sets + set] = 0
    v.score[warp] = Score(v.base, 0)


cdef inline int64_t victims_score(const Victims* v, int64_t warp, int64_t now) noexcept nogil:
    return max(v.base, v.score[warp].value - (now - v.score[warp].since))


cdef inline bint victims_take(Victims* v, int64_t warp, int64_t line) noexcept nogil:
    # Remove a tag; False: it is absent.
    cdef int64_t at = warp * v.sets + modulo(line, v.sets)
    cdef int64_t* tag = v.tag + at * v.ways
    cdef int64_t i = 0, k
    while i < v.held[at] and tag[i] != line:
        i += 1
    if i == v.held[at]:
        return False
    v.held[at] -= 1
    for k in range(i, v.held[at]):
        tag[k] = tag[k + 1]
    return True


cdef inline void victims_put(Victims* v, int64_t warp, int64_t line) noexcept nogil:
    # Make a tag the most recent of its set; drop the least recent one if the set is full.
    cdef int64_t at = warp * v.sets + modulo(line, v.sets)
    cdef int64_t* tag = v.tag + at * v.ways
    cdef int64_t k
    victims_take(v, warp, line)
    v.held[at] = min(v.held[at] + 1, v.ways)
    for k in range(v.held[at] - 1, 0, -1):
        tag[k] = tag[k - 1]
    tag[0] = line


cdef inline void victims_raise(Victims* v, int64_t warp, int64_t score, int64_t now) noexcept nogil:
    if score > victims_score(v, warp, now):
        v.score[warp] = Score(score, now)
        v.stale = True
