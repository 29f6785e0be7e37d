# The loads of a warp that are in flight, by target register, and those that its next memory instruction waits for.
#
# Masks have one bit per memory instruction, as the `needs` of a trace: bit i is the (i+1)-th previous one of the warp.

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from tracegen.formats._fields cimport REGISTERS

cdef enum:
    NEEDS_BITS = 64          # memory instructions that a `needs` mask reaches back

cdef struct LoadsInFlight:
    int64_t[REGISTERS] owner # the load that a register is the target of, by ordinal; -1: none
    int64_t ordinal          # memory instructions of the warp so far
    uint64_t open            # mask of the loads in flight
    uint64_t copies          # mask of the loads into shared memory
    uint64_t pending         # mask of the loads that the next memory instruction waits for
    bint unknown             # the last load named no target register


cdef inline void clear_loads(LoadsInFlight* loads) noexcept nogil:
    memset(loads.owner, 0xFF, sizeof(loads.owner))
    loads.ordinal = 0
    loads.open = loads.copies = loads.pending = 0
    loads.unknown = False


cdef inline void wait_for_register(LoadsInFlight* loads, int64_t register) noexcept nogil:
    """Make the next memory instruction wait for the load, if any, that is in flight to a register."""
    cdef int64_t distance = loads.ordinal - 1 - loads.owner[register]
    if loads.owner[register] >= 0 and distance < NEEDS_BITS:
        loads.pending |= loads.open & <uint64_t>1 << distance


cdef inline void wait_for_copies(LoadsInFlight* loads) noexcept nogil:
    """Make the next memory instruction wait for all loads into shared memory."""
    loads.pending |= loads.open & loads.copies


cdef inline uint64_t settle_needs(LoadsInFlight* loads) noexcept nogil:
    """Return the needs of the next memory instruction or barrier, which waits for them."""
    cdef uint64_t needs = ~<uint64_t>0 if loads.unknown else loads.pending
    loads.open &= ~needs
    loads.pending = 0
    loads.unknown = False
    return needs


cdef inline uint64_t issue_access(LoadsInFlight* loads, bint returns, bint is_copy, bint unknown) noexcept nogil:
    """Count a memory instruction and return its needs.

    `returns` says that it writes a register, `unknown` that it is a load without a target register.
    """
    cdef uint64_t needs = settle_needs(loads)
    loads.open = loads.open << 1 | (returns or is_copy)
    loads.copies = loads.copies << 1 | is_copy
    loads.unknown = unknown
    loads.ordinal += 1
    return needs
