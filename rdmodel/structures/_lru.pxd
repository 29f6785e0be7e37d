# Recency lists as links between dense line ids: constant-time LRU of any associativity.
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
    # `link` is the Link of line 0, that of line n lies n x `stride` bytes on: links live inside larger records.
    cdef Link* own = <Link*> (<char*> link + line * stride)
    own.newer = NONE
    own.older = r.newest
    if r.newest != NONE:
        (<Link*> (<char*> link + r.newest * stride)).newer = line
    else:
        r.oldest = line
    r.newest = line
    r.size += 1


cdef inline void recency_remove(Recency* r, Link* link, int64_t line, int64_t stride) noexcept nogil:
    cdef Link* own = <Link*> (<char*> link + line * stride)
    if own.newer != NONE:
        (<Link*> (<char*> link + own.newer * stride)).older = own.older
    else:
        r.newest = own.older
    if own.older != NONE:
        (<Link*> (<char*> link + own.older * stride)).newer = own.newer
    else:
        r.oldest = own.newer
    r.size -= 1


cdef inline void recency_touch(Recency* r, Link* link, int64_t line, int64_t stride) noexcept nogil:
    # Move a line that is in the list to its top.
    if r.newest != line:
        recency_remove(r, link, line, stride)
        recency_push(r, link, line, stride)
