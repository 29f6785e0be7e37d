# `ArithmeticSteps`: results that follow from registers alone, on top of `ControlSteps`. The arithmetic itself is in
# `_integers` and `_floats`, the exchanges between lanes in `_warp`.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from tracegen.ptx.emulator._control_steps cimport ControlSteps
from tracegen.ptx.isa._code cimport Code, Lanes


cdef class ArithmeticSteps(ControlSteps):
    cdef void compute(self, const Code* code, const Lanes* lanes) noexcept nogil
    @cython.final
    cdef void exchange(self, const Code* code, const Lanes* lanes) noexcept nogil
    @cython.final
    cdef void fill_mask(self, const Lanes* lanes, int64_t k, uint64_t* d) noexcept nogil
