# Recency lists as links between dense line ids: LRU replacement of any associativity in constant time.
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


cdef inline void recency_init(Recency* r) noexcept nogil:
    r.newest = NONE
    r.oldest = NONE
    r.size = 0


cdef inline void recency_push(Recency* r, Link* link, int64_t line, int64_t stride) noexcept nogil:
    # Add a line at the top. `link` is the Link of line 0; that of line n lies n x `stride` bytes behind it, because
    # links are part of larger records.
    cdef Link* place = <Link*> (<char*> link + line * stride)
    place.newer = NONE
    place.older = r.newest
    if r.newest != NONE:
        (<Link*> (<char*> link + r.newest * stride)).newer = line
    else:
        r.oldest = line
    r.newest = line
    r.size += 1


cdef inline void recency_remove(Recency* r, Link* link, int64_t line, int64_t stride) noexcept nogil:
    cdef Link* place = <Link*> (<char*> link + line * stride)
    if place.newer != NONE:
        (<Link*> (<char*> link + place.newer * stride)).older = place.older
    else:
        r.newest = place.older
    if place.older != NONE:
        (<Link*> (<char*> link + place.older * stride)).newer = place.newer
    else:
        r.oldest = place.newer
    r.size -= 1


cdef inline void recency_touch(Recency* r, Link* link, int64_t line, int64_t stride) noexcept nogil:
    # Move a line that is in the list to its top.
    if r.newest != line:
        recency_remove(r, link, line, stride)
        recency_push(r, link, line, stride)
