# APCM: the access patterns that an SM learns from one warp, and the protected lines (docs/policies.md, apcm).
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc

from rdmodel.structures._index cimport modulo
from rdmodel.structures._lru cimport NONE

# Kinds of loads.
cdef enum:
    ORDINARY = 0
    STREAMING = 1
    INTRA_WARP = 2


cdef struct Monitor:
    # A tag of the monitored warp; `accesses` 0: it is empty.
    int64_t line
    int64_t first, last   # loads
    int64_t accesses, own


cdef struct Known:
    int64_t accesses      # 0: nothing is known
    int64_t last          # the load that used its lines last
    int kind


cdef struct Guard:
    # The protection of a warp: it covers the lines that carry `number`; NONE: no lines.
    int64_t number
    int64_t load, last    # the load that brings the lines, and the load with which the protection ends


cdef struct Patterns:
    int64_t* pc           # of the loads that have a number
    int64_t loads, most_loads
    Monitor* tag
    int64_t tags, most    # accesses are counted so far
    Known* known
    Guard* guard          # [warps]
    int64_t guards        # numbers given so far
    int64_t monitored     # warp slot; NONE: no warp has begun yet, or it has ended
    bint over             # the monitored warp has ended
    bint bypassing, protecting


cdef inline int patterns_init(Patterns* p, int64_t warps, int64_t loads, int64_t tags, int64_t most) noexcept nogil:
    # -1: out of memory.
    cdef int64_t i
    p.most_loads = loads
    p.tags = tags
    p.most = most
    p.monitored = NONE
    p.pc = <int64_t*> malloc(<size_t> loads * sizeof(int64_t))
    p.known = <Known*> calloc(<size_t> loads, sizeof(Known))
    p.tag = <Monitor*> calloc(<size_t> tags, sizeof(Monitor))
    p.guard = <Guard*> calloc(<size_t> warps, sizeof(Guard))
    if p.pc == NULL or p.known == NULL or p.tag == NULL or p.guard == NULL:
        return -1
    for i in range(warps):
        p.guard[i].number = NONE
    return 0


cdef inline void patterns_free(Patterns* p) noexcept nogil:
    free(p.pc)
    free(p.known)
    free(p.tag)
    free(p.guard)


cdef inline int64_t patterns_number(Patterns* p, int64_t pc) noexcept nogil:
    # Return the number of a load, a new one for a new load; NONE: there are too many.
    cdef int64_t i
    for i in range(p.loads):
        if p.pc[i] == pc:
            return i
    if p.loads == p.most_loads:
        return NONE
    p.pc[p.loads] = pc
    p.loads += 1
    return p.loads - 1


cdef inline void patterns_learn(Patterns* p, const Monitor* m) noexcept nogil:
    # Record the counts of a tag for the load that took it.
    cdef Known* k = &p.known[m.first]
    if m.accesses <= k.accesses:
        return
    k.accesses = m.accesses
    k.last = m.last
    if m.accesses == 1:
        k.kind = STREAMING
    else:
        k.kind = INTRA_WARP if m.own == m.accesses else ORDINARY


cdef inline void patterns_see(
    Patterns* p, int64_t line, int64_t load, bint own, bint early, int64_t uses
) noexcept nogil:
    # A transaction has been served: of the monitored warp (`own`), one of the first of its instruction (`early`); the
    # L1 has counted `uses` of its line.
    cdef Monitor* m = &p.tag[modulo(line, p.tags)]
    if m.accesses > 0 and m.line == line:
        if m.accesses == p.most:
            return
        m.accesses += 1
        m.own += own
        m.last = load
    elif own and early:
        if m.accesses > 0:
            patterns_learn(p, m)
        m[0] = Monitor(line, load, load, min(uses, p.most), 1)
    else:
        return
    if m.accesses == p.most:
        patterns_learn(p, m)


cdef inline void patterns_end(Patterns* p) noexcept nogil:
    # The monitored warp has ended.
    cdef int64_t i
    for i in range(p.tags):
        if p.tag[i].accesses > 0:
            patterns_learn(p, &p.tag[i])
    p.monitored = NONE
    p.over = True


cdef inline int64_t patterns_protect(Patterns* p, int64_t warp, int64_t load) noexcept nogil:
    # Return the protection number for a line that a load of a warp brings; NONE: it is not protected.
    cdef Guard* g = &p.guard[warp]
    if not p.protecting or load == NONE or p.known[load].kind != INTRA_WARP:
        return NONE
    if g.number == NONE:
        g[0] = Guard(p.guards, load, p.known[load].last)
        p.guards += 1
    return g.number if g.load == load else NONE


cdef inline void patterns_served(Patterns* p, int64_t warp, int64_t load, bint leaves) noexcept nogil:
    # All transactions of an instruction have been served; `leaves`: the warp leaves the load's loop.
    cdef Guard* g = &p.guard[warp]
    if g.number != NONE and load == g.last and (g.last != g.load or leaves):
        g.number = NONE
