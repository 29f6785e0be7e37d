# The ready warps are a list in the order in which they became ready. The next warp is drawn from it, or is the first.
"""Implement the definition `hardware` for warps that are chosen at random or in turn: `ListedCore`, one object per SM."""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memset

from rdmodel.model._core cimport C_BLOCK, C_CHUNK, C_DONE, C_GO, C_LOG
from rdmodel.model._fast cimport DRAWS, FastCore, misses
from rdmodel.model._pace cimport admit_due, end_step, go_on, start_warp
from rdmodel.model._port cimport draw_latencies, issue
from rdmodel.model._ready cimport (
    PLACES, Ready, deposits_quickly, ready_append, ready_make_room, ready_park, ready_take, ready_unpark, select_bit,
    select_by_hand,
)
from rdmodel.model._uniform cimport Uniform, uniform_next
from rdmodel.structures._lru cimport NONE


@cython.final
cdef class ListedCore(FastCore):
    """Definition `hardware` with the default options (docs/model.md section 11); `draws_warps`: at random."""

    cdef bint draws_warps

    def __init__(self, *, bint draws_warps, **common):
        super().__init__(**common)
        self.draws_warps = draws_warps

    cdef bint _start_warp(self, int64_t warp) noexcept nogil:
        return start_warp(self, warp, False)

    cdef int _run(self) noexcept nogil:
        # Two copies of the loop, each without the branches of the other.
        if self.sectored:
            return run_steps(self, True)
        return run_steps(self, False)


# ---- steps

cdef inline bint stall_misses(ListedCore core, Ready* ready, const bint sectored) noexcept nogil:
    # Let warps take the port while all MSHRs are in use, and park those whose next transaction misses; return whether
    # one keeps the port. Before the next event, nothing but the choices changes.
    cdef Ready r
    cdef Uniform choices = core.choices
    cdef int64_t steps = min(core.agenda.first - core.now, ready.size), i
    cdef int64_t parked = ready.parked, warp = NONE
    ready_make_room(ready, steps)
    # A local copy, which stays in the processor's registers.
    r = ready[0]
    for i in range(steps):
        warp = ready_take(&r, <int64_t> (uniform_next(&choices) * <double> r.size))
        if not misses(core, warp, sectored):
            break
        ready_park(&r, warp)
        warp = NONE
    core.choices = choices
    i = r.parked - parked
    core.stalls_mshr += i
    core.now += i
    core.port = warp
    ready[0] = r
    return warp != NONE


cdef inline int run_steps(ListedCore core, const bint sectored) noexcept nogil:
    cdef Ready* ready = &core.ready_list
    cdef int code = C_GO
    cdef int64_t index
    if core.advancing:
        # The last call stopped in the middle of a step, because a buffer was too short.
        if not go_on(core, False):
            return C_CHUNK
        core.advancing = False
        end_step(core, False)
    while True:
        if core._wants_block():
            return C_BLOCK
        if core.logged >= core.log_full:
            return C_LOG
        if core.port < 0:
            if ready.size == 0:
                if core.agenda.waiting + ready.parked == 0:
                    return C_DONE
                core.now = core.agenda.first
                admit_due(core, False)
                continue
        if core.drawn_at + core.tags > DRAWS:
            draw_latencies(core)
        if core.port < 0:
            if core.draws_warps and core.mshrs_used == core.mshrs:
                if not stall_misses(core, ready, sectored):
                    if core.agenda.first <= core.now:
                        admit_due(core, False)
                    continue
            else:
                index = 0
                if core.draws_warps:
                    index = <int64_t> (uniform_next(&core.choices) * <double> ready.size)
                core.port = ready_take(ready, index)
        code = issue(core, sectored, False)
        if code != C_GO:
            return code
        end_step(core, False)


# ---- Python

def find_bit(uint64_t word, int rank):
    """Return the place of the set bit with `rank` set bits before it, found in both ways that `ListedCore` knows."""
    assert word != 0 and 0 <= rank
    return select_bit(word, rank, deposits_quickly()), select_by_hand(word, rank)


def replay_row(steps):
    """Return the lists of ready and of parked warps after some steps, each a name and a number.

    They are ``("append", warp)``, ``("park", warp)``, ``("take", index)`` and ``("unpark", 0)``, and may be any that the
    core takes: at most 64 warps are in the row, and a warp that is taken is ready.
    """
    cdef uint8_t[PLACES] place
    cdef Ready row
    cdef int64_t number, ready
    memset(&row, 0, sizeof(Ready))
    row.place = place
    row.deposits = deposits_quickly()
    for name, number in steps:
        if name == "append":
            ready_append(&row, number)
        elif name == "park":
            ready_make_room(&row, 1)
            ready_park(&row, number)
        elif name == "take":
            assert 0 <= number < row.size
            ready_take(&row, number)
        else:
            assert name == "unpark"
            ready_unpark(&row)
    ready = row.size
    ready_unpark(&row)
    warps = []
    while row.size > 0:
        warps.append(ready_take(&row, 0))
    return warps[:ready], warps[ready:]
