# `MemorySteps`: loads, stores and atomics, on top of `ArithmeticSteps`. Addresses are located by `Places`, and values
# moved by `_access`. Textures, mbarriers and bulk copies access memory through this class, too.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t

from rdmodel.trace._banks cimport Pattern
from tracegen.ptx.emulator._arithmetic_steps cimport ArithmeticSteps
from tracegen.ptx.emulator._lanes cimport MAX_BLOCK_THREADS, derive_warps
from tracegen.ptx.emulator._places cimport Places
from tracegen.ptx.emulator._poison cimport Poison
from tracegen.ptx.isa._code cimport BITS, SHARED, Code, Lanes


cdef inline uint64_t shared_offset(uint64_t place) noexcept nogil:
    # Return the offset of a shared or generic address in shared memory.
    return place - (<uint64_t>SHARED << BITS) if place >> BITS == SHARED else place


cdef class MemorySteps(ArithmeticSteps):
    cdef Places places
    cdef Poison poison
    cdef bint strict               # no poison may reach an array
    cdef readonly int64_t slot     # the poisoned register that stopped the block; -1: a value for an array
    cdef int64_t max_bytes         # of the log
    cdef int64_t local_base        # local memory of the block is recorded from this address on
    cdef Pattern* patterns         # the last access of each step to shared memory
    cdef int32_t* pattern_of       # per step: its place in `patterns`
    cdef Lanes piece               # some lanes of a step, with the addresses of each
    cdef int32_t[MAX_BLOCK_THREADS] piece_lanes
    cdef uint64_t[MAX_BLOCK_THREADS] piece_places
    cdef uint64_t[MAX_BLOCK_THREADS] place_of # addresses of all lanes of a step
    cdef uint64_t[MAX_BLOCK_THREADS] recorded # addresses for the log, where they differ from those of the program

    cdef int make_patterns(self, int64_t steps) except -1
    cdef int64_t access(self, const Code* code, Lanes* lanes) noexcept nogil
    @cython.final
    cdef int64_t access_window(self, const Code* code, Lanes* lanes, int64_t space, uint64_t* place) noexcept nogil
    @cython.final
    cdef int64_t access_mixed(self, const Code* code, const Lanes* lanes) noexcept nogil
    @cython.final
    cdef int64_t access_space(
        self, const Code* code, const Lanes* lanes, int64_t space, const uint64_t* place
    ) noexcept nogil
    @cython.final
    cdef void count_banks(self, const Code* code, const Lanes* lanes, const uint64_t* place, int64_t size) noexcept nogil
    @cython.final
    cdef void transfer(self, const Code* code, const Lanes* lanes) noexcept nogil
    @cython.final
    cdef bint record(
        self, const Code* code, const Lanes* lanes, int64_t space, const uint64_t* place, int64_t size
    ) noexcept nogil

    cdef inline bint locate_one(self, int64_t lane, int64_t space, uint64_t place, int64_t size) noexcept nogil:
        # Locate the memory of one lane, with its host pointer in `places.hosted[0]`.
        self.piece_lanes[0] = <int32_t>lane
        self.piece.n = 1
        derive_warps(&self.piece)
        self.piece_places[0] = place
        if self.places.locate(&self.piece, space, self.piece_places, size, True):
            return True
        self.thread, self.address = self.places.thread, self.places.address
        return False
