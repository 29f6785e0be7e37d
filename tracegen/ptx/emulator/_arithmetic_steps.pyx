# See _arithmetic_steps.pxd for the subject.
"""Execute arithmetic, and exchanges between the lanes of a warp: `ArithmeticSteps`, on top of `ControlSteps`."""

from libc.stdint cimport int64_t, uint64_t

from tracegen.ptx.emulator._control_steps cimport ControlSteps
from tracegen.ptx.emulator._floats cimport compute_floats
from tracegen.ptx.emulator._integers cimport compute_integers, insert_bits
from tracegen.ptx.emulator._warp cimport match_lanes, reduce_lanes, shuffle_lanes, vote_lanes
from tracegen.ptx.isa._code cimport BFI, FADD, MATCH, REDUX, SHFL, VOTE, Code, Lanes


cdef class ArithmeticSteps(ControlSteps):
    """Steps that compute registers from registers."""

    cdef void compute(self, const Code* code, const Lanes* lanes) noexcept nogil:
        cdef uint64_t* d
        cdef uint64_t* a
        cdef uint64_t* b
        cdef uint64_t* c
        if code.op >= SHFL:
            self.exchange(code, lanes)
            return
        a = self.operand(code.src[0], lanes, 0)
        b = self.operand(code.src[1], lanes, 1)
        c = self.operand(code.src[2], lanes, 2)
        d = self.result(code.dst[0], lanes)
        if code.op == BFI:
            insert_bits(code, lanes.n, d, a, b, c, self.operand(code.src[3], lanes, 3))
        elif code.op < FADD:
            compute_integers(code, lanes.n, d, a, b, c)
        else:
            compute_floats(code, lanes.n, d, a, b, c)
        self.commit(code.dst[0], lanes)

    cdef void exchange(self, const Code* code, const Lanes* lanes) noexcept nogil:
        """Execute an exchange between the lanes of a warp on whole registers; unused destinations go to scratch."""
        cdef uint64_t* d = self.row(code.dst[0]) if code.dst[0] >= 0 else self.scratch[4]
        cdef uint64_t* p = self.row(code.dst[1]) if code.dst[1] >= 0 else self.scratch[5]
        cdef int64_t i
        if code.op == SHFL:
            shuffle_lanes(code, lanes, self.threads, self.scratch[3], d, p,
                          self.row(code.src[0]), self.row(code.src[1]), self.row(code.src[2]))
        elif code.op == VOTE:
            vote_lanes(code, lanes, d, self.row(code.src[0]))
        elif code.op == MATCH:
            match_lanes(code, lanes, self.scratch[3], d, p, self.row(code.src[0]))
        elif code.op == REDUX:
            reduce_lanes(code, lanes, d, self.row(code.src[0]))
        else:
            for i in range(lanes.n):
                d[lanes.lane[i]] = 0
            for i in range(lanes.warps):
                self.fill_mask(lanes, i, d)

    cdef void fill_mask(self, const Lanes* lanes, int64_t k, uint64_t* d) noexcept nogil:
        cdef int64_t i
        for i in range(lanes.start[k], lanes.start[k + 1]):
            d[lanes.lane[i]] = lanes.mask[k]
