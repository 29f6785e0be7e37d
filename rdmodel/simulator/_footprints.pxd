# DAWS: the loops, divergence and locality of loads, learnt from one warp of an SM, and the positions of its warps
# (docs/policies.md, daws).
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

from rdmodel.structures._lru cimport NONE

cdef enum:
    MOST_LOADS = 64           # of rdmodel.policies.daws


cdef struct SampledLoad:
    int64_t pc
    int64_t loop              # the number of a load in it, the same for all of them; NONE: it is in no loop
    bint divergent
    int64_t transactions
    int64_t found             # later accesses to lines that it brought


cdef struct LineTag:
    int64_t line
    int64_t bringer           # the number of the load that brought it
    int64_t instruction       # that accessed it last
    int64_t used              # `accesses` at that time


cdef struct Position:
    # The load that a warp executes next or executed last, and the one with which it came into the loop.
    bint known                # there is one
    int64_t pc, first_pc
    int64_t lanes             # active ones, the most since it was last at the latter


cdef struct FootprintRule:
    double reuse
    double capacity           # lines that footprints may have together
    int64_t converged, loads, lines


cdef struct Footprints:
    SampledLoad* load         # `loads` of them
    int64_t loads
    int64_t* path             # numbers of the `passed` loads that the sampled warp has executed, the last one last
    int64_t passed
    LineTag* tag              # of the sampled warp
    int64_t tags, accesses
    int64_t sampled           # warp slot; NONE: the SM has no warps
    Position* position        # [warps]
    int64_t* order            # [warps] scratch: slots by age
    bint stale                # the warps that may load must be chosen again


cdef inline int footprints_init(Footprints* f, int64_t warps, int64_t lines) noexcept nogil:
    # -1: out of memory.
    f.loads = f.passed = f.tags = f.accesses = 0
    f.sampled = NONE
    f.stale = True
    f.load = <SampledLoad*> malloc(MOST_LOADS * sizeof(SampledLoad))
    f.path = <int64_t*> malloc(MOST_LOADS * sizeof(int64_t))
    f.tag = <LineTag*> malloc(<size_t> lines * sizeof(LineTag))
    f.position = <Position*> malloc(<size_t> warps * sizeof(Position))
    f.order = <int64_t*> malloc(<size_t> warps * sizeof(int64_t))
    return 0 if f.load and f.path and f.tag and f.position and f.order else -1


cdef inline void footprints_free(Footprints* f) noexcept nogil:
    free(f.load)
    free(f.path)
    free(f.tag)
    free(f.position)
    free(f.order)


cdef inline void footprints_sample(Footprints* f, int64_t warp) noexcept nogil:
    # Sample a warp, or none.
    f.sampled = warp
    f.passed = f.tags = 0


# ---- what the sampled warp shows

cdef inline bint load_has_locality(const SampledLoad* l, double reuse) noexcept nogil:
    return l.found > 0 and <double> l.found >= reuse * <double> l.transactions


cdef inline int64_t footprints_find(const Footprints* f, int64_t pc) noexcept nogil:
    # Return the number of a load; NONE: it is not known.
    cdef int64_t i
    for i in range(f.loads):
        if f.load[i].pc == pc:
            return i
    return NONE


cdef inline int64_t footprints_learn(Footprints* f, int64_t pc, int64_t most) noexcept nogil:
    # Return the number of a load, a new one for a new load; NONE: there are too many.
    cdef int64_t i = footprints_find(f, pc)
    if i != NONE or f.loads == most:
        return i
    f.load[f.loads] = SampledLoad(pc, NONE, False, 0, 0)
    f.loads += 1
    return f.loads - 1


cdef inline void footprints_join(Footprints* f, int64_t load, int64_t other) noexcept nogil:
    # Put a load, with its loop, into the loop of another.
    cdef int64_t i, old = f.load[other].loop, loop = f.load[load].loop
    if old == loop:
        return
    f.load[other].loop = loop
    f.stale = True
    if old != NONE:
        for i in range(f.loads):
            if f.load[i].loop == old:
                f.load[i].loop = loop


cdef inline void footprints_pass(Footprints* f, int64_t load) noexcept nogil:
    # Step to a load; if the warp has executed it before, all loads since then are in one loop with it.
    cdef int64_t i, at = 0
    while at < f.passed and f.path[at] != load:
        at += 1
    if at == f.passed:
        f.passed += 1
    else:
        if f.load[load].loop == NONE:
            f.load[load].loop = load
            f.stale = True
        for i in range(at + 1, f.passed):
            footprints_join(f, load, f.path[i])
            f.path[i - 1] = f.path[i]
    f.path[f.passed - 1] = load


cdef inline int64_t footprints_tag(Footprints* f, int64_t line, int64_t most, bint* found) noexcept nogil:
    # Return the place of the tag of a line: its own, an empty one, or the one that was used least recently.
    cdef int64_t i, oldest = 0
    for i in range(f.tags):
        if f.tag[i].line == line:
            found[0] = True
            return i
        if f.tag[i].used < f.tag[oldest].used:
            oldest = i
    found[0] = False
    if f.tags < most:
        f.tags += 1
        return f.tags - 1
    return oldest


cdef inline void footprints_see(
    Footprints* f, const FootprintRule* rule, int64_t pc, int64_t line, int64_t instruction, int64_t place
) noexcept nogil:
    # Learn from a transaction of the sampled warp, which is number `place` of its instruction.
    cdef int64_t load = footprints_learn(f, pc, rule.loads)
    cdef SampledLoad* l
    cdef SampledLoad* bringer
    cdef LineTag* tag
    cdef bint found = False, had
    if load == NONE:
        return
    l = &f.load[load]
    if place == 0:
        footprints_pass(f, load)
    if place == rule.converged and not l.divergent:
        l.divergent = True
        f.stale = True
    had = load_has_locality(l, rule.reuse)
    l.transactions += 1
    f.stale = f.stale or load_has_locality(l, rule.reuse) != had
    tag = &f.tag[footprints_tag(f, line, rule.lines, &found)]
    if not found:
        tag.line = line
        tag.bringer = load
    elif tag.instruction != instruction:
        bringer = &f.load[tag.bringer]
        had = load_has_locality(bringer, rule.reuse)
        bringer.found += 1
        f.stale = f.stale or load_has_locality(bringer, rule.reuse) != had
    tag.instruction = instruction
    tag.used = f.accesses
    f.accesses += 1


# ---- positions of warps

cdef inline int64_t footprints_loop(const Footprints* f, int64_t pc) noexcept nogil:
    # Return the loop of a load; NONE: it is in no loop, or not known.
    cdef int64_t load = footprints_find(f, pc)
    return NONE if load == NONE else f.load[load].loop


cdef inline void footprints_move(Footprints* f, int64_t warp, int64_t pc, int64_t lanes) noexcept nogil:
    # Move a warp to its next load.
    cdef Position* at = &f.position[warp]
    cdef Position old = at[0]
    cdef int64_t loop = footprints_loop(f, pc)
    if not old.known or loop == NONE or footprints_loop(f, old.pc) != loop:
        at[0] = Position(True, pc, pc, lanes)
    else:
        at.pc = pc
        at.lanes = lanes if pc == old.first_pc else max(old.lanes, lanes)
    if not old.known or at.pc != old.pc or at.lanes != old.lanes:
        f.stale = True


cdef inline void footprints_leave(Footprints* f, int64_t warp) noexcept nogil:
    # Remove the position of a warp.
    f.position[warp].known = False
    f.stale = True


cdef inline void footprints_count(const Footprints* f, double reuse, int64_t* each_lane, int64_t* once) noexcept nogil:
    # Count the loads with locality of each loop: those with a line for each lane, and those with one.
    cdef int64_t i
    for i in range(f.loads):
        each_lane[i] = once[i] = 0
    for i in range(f.loads):
        if f.load[i].loop != NONE and load_has_locality(&f.load[i], reuse):
            if f.load[i].divergent:
                each_lane[f.load[i].loop] += 1
            else:
                once[f.load[i].loop] += 1
