# `BarrierSteps`: barriers of a block, the barrier of a cluster, and mbarriers in shared memory, on top of
# `TextureSteps`. The bits of an mbarrier are in `_mbarrier`.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from tracegen.ptx.emulator._lanes cimport MAX_BLOCK_THREADS, WARP
from tracegen.ptx.emulator._texture_steps cimport TextureSteps
from tracegen.ptx.isa._code cimport NOTED, RANK_BITS, Code

cdef enum:
    MAX_BARRIERS = 16


cdef class BarrierSteps(TextureSteps):
    cdef object cluster
    cdef int64_t* signals          # by rank: phases of mbarriers that ended since their waiting threads were last woken
    cdef int64_t rank              # of the block in its cluster
    cdef bint alone                # no other block takes part in the barrier of the cluster
    cdef int64_t phase             # of the barrier of the cluster, and the last one at which each thread arrived
    cdef int64_t[MAX_BLOCK_THREADS] arrived_phase
    # Per thread: the barrier that it waits at, and the threads that this barrier expects; 0: all.
    cdef uint8_t[MAX_BLOCK_THREADS] barrier
    cdef int32_t[MAX_BLOCK_THREADS] expected
    cdef int64_t[MAX_BARRIERS] arrived

    cdef void clear_barriers(self) noexcept nogil
    cdef int64_t reach_barrier(self, const Code* code) noexcept nogil
    @cython.final
    cdef void reach_cluster_barrier(self, bint arrives) noexcept nogil
    @cython.final
    cdef void note_barrier(self, const Code* code, int64_t lane, int64_t number) noexcept nogil
    cdef int64_t use_mbarrier(self, const Code* code) noexcept nogil
    cdef int64_t release(self) noexcept nogil
    @cython.final
    cdef bint open_barrier(self, int64_t number) noexcept nogil
    @cython.final
    cdef bint open_own_cluster_barrier(self) noexcept nogil
    @cython.final
    cdef void end_phase(self) noexcept nogil

    cdef inline void note_arrival(
        self, const Code* code, int64_t lane, uint64_t place, int64_t count, int64_t bytes
    ) noexcept nogil:
        # Note an arrival at the mbarrier at `place`, with the bytes that it expects or, if negative, completes.
        if code.flags & NOTED:
            self.events.add(lane // WARP, self.step, <int64_t>place, count, bytes)

    cdef inline void signal(self, uint64_t place, bint ended) noexcept nogil:
        # Note that a phase of the mbarrier at `place` has ended, for the block that has it.
        self.signals[self.rank if self.alone else <int64_t>(place >> RANK_BITS)] += ended
