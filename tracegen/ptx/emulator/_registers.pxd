# `Registers`: the registers of the threads of a block, and the packed rows of operands that steps work on. Base of the
# other classes of the emulator. A row is the register itself where the lanes are contiguous, a gathered copy where they
# are not. The methods are inline, since steps call them for each operand and some for each lane.
from libc.stdint cimport int64_t, uint64_t

from tracegen.ptx.emulator._lanes cimport MAX_BLOCK_THREADS
from tracegen.ptx.isa._code cimport Lanes


cdef class Registers:
    cdef uint64_t* registers       # (slots, threads): the rows below `variables` change, the others hold constants
    cdef int64_t threads, variables
    cdef uint64_t[6][MAX_BLOCK_THREADS] scratch

    cdef void clear_registers(self) noexcept nogil

    cdef inline uint64_t* row(self, int64_t slot) noexcept nogil:
        # Return the register of all threads, by their lanes.
        return self.registers + slot * self.threads

    cdef inline uint64_t value_of(self, int64_t slot, int64_t lane) noexcept nogil:
        # Return the register of one lane; 0 if the step has no such operand.
        return self.row(slot)[lane] if slot >= 0 else 0

    cdef inline uint64_t* operand(self, int64_t slot, const Lanes* lanes, int64_t which) noexcept nogil:
        # Return a register of `lanes`, packed; a copy in scratch row `which` unless they are contiguous.
        cdef int64_t i
        cdef uint64_t* row
        if slot < 0:
            return self.scratch[which]
        row = self.registers + slot * self.threads
        if lanes.contiguous:
            return row + lanes.lane[0]
        for i in range(lanes.n):
            self.scratch[which][i] = row[lanes.lane[i]]
        return self.scratch[which]

    cdef inline uint64_t* result(self, int64_t slot, const Lanes* lanes) noexcept nogil:
        # Return the buffer of a packed result, which `commit` copies to its register where needed.
        return self.registers + slot * self.threads + lanes.lane[0] if lanes.contiguous else self.scratch[5]

    cdef inline void commit(self, int64_t slot, const Lanes* lanes) noexcept nogil:
        # Copy a packed result to its register, unless it is there.
        cdef int64_t i
        cdef uint64_t* row = self.registers + slot * self.threads
        if not lanes.contiguous:
            for i in range(lanes.n):
                row[lanes.lane[i]] = self.scratch[5][i]
