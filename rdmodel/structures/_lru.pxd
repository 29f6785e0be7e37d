# Recency lists as links between dense line ids: LRU replacement of any associativity in constant time.
# In a segmented list, the `kept` newest lines have been used again, and new lines come behind them (docs/gpus.md).
from libc.stdint cimport int64_t

cdef enum:
    NONE = -1

cdef struct Link:
    int64_t newer
    int64_t older

cdef struct Recency:
    int64_t newest
    int64_t oldest
    int64_t size
    int64_t kept          # 0 unless the list is segmented


cdef inline void recency_init(Recency* r) noexcept nogil:
    r.newest = NONE
    r.oldest = NONE
    r.size = r.kept = 0


cdef inline Link* link_of(Link* link, int64_t line, int64_t stride) noexcept nogil:
    # `link` is the Link of line 0; that of line n lies n x `stride` bytes behind it, because links are part of larger
    # records.
    return <Link*> (<char*> link + line * stride)


cdef inline void recency_insert(
    Recency* r, Link* link, int64_t line, int64_t stride, int64_t newer, int64_t older
) noexcept nogil:
    # Add a line between two neighbours, of which each may be NONE.
    cdef Link* place = link_of(link, line, stride)
    place.newer = newer
    place.older = older
    if newer != NONE:
        link_of(link, newer, stride).older = line
    else:
        r.newest = line
    if older != NONE:
        link_of(link, older, stride).newer = line
    else:
        r.oldest = line
    r.size += 1


cdef inline void recency_push(Recency* r, Link* link, int64_t line, int64_t stride) noexcept nogil:
    # Add a line at the top.
    recency_insert(r, link, line, stride, NONE, r.newest)


cdef inline void recency_remove(Recency* r, Link* link, int64_t line, int64_t stride) noexcept nogil:
    cdef Link* place = link_of(link, line, stride)
    if place.newer != NONE:
        link_of(link, place.newer, stride).older = place.older
    else:
        r.newest = place.older
    if place.older != NONE:
        link_of(link, place.older, stride).newer = place.newer
    else:
        r.oldest = place.newer
    r.size -= 1


cdef inline void recency_touch(Recency* r, Link* link, int64_t line, int64_t stride) noexcept nogil:
    # Move a line that is in the list to its top.
    if r.newest != line:
        recency_remove(r, link, line, stride)
        recency_push(r, link, line, stride)


# ---- segmented lists, of which at most `most` lines are kept

cdef inline bint recency_keeps(const Recency* r, Link* link, int64_t line, int64_t stride) noexcept nogil:
    # Tell whether a line is one of those that are kept.
    cdef int64_t kept = r.kept, at = r.newest
    while kept > 0 and at != line:
        at = link_of(link, at, stride).older
        kept -= 1
    return kept > 0


cdef inline void recency_enter(Recency* r, Link* link, int64_t line, int64_t stride) noexcept nogil:
    # Add a line as the newest of those that are not kept.
    cdef int64_t newer = NONE, older = r.newest, kept
    for kept in range(r.kept):
        newer, older = older, link_of(link, older, stride).older
    recency_insert(r, link, line, stride, newer, older)


cdef inline void recency_leave(Recency* r, Link* link, int64_t line, int64_t stride) noexcept nogil:
    if r.kept and recency_keeps(r, link, line, stride):
        r.kept -= 1
    recency_remove(r, link, line, stride)


cdef inline void recency_reuse(Recency* r, Link* link, int64_t line, int64_t stride, int64_t most) noexcept nogil:
    # Keep a line that is in the list, as its newest; if that is one too many, the oldest of the kept lines becomes the
    # newest of the others.
    if most and r.kept < most and not recency_keeps(r, link, line, stride):
        r.kept += 1
    recency_touch(r, link, line, stride)
