# `ControlSteps`: branches, calls, jumps and exits, on top of `Threads`.
from libc.stdint cimport int64_t

from tracegen.ptx.emulator._threads cimport Threads
from tracegen.ptx.isa._code cimport Code


cdef class ControlSteps(Threads):
    cdef const int64_t* targets    # of branch tables

    cdef void branch(self, const Code* code) noexcept nogil
    cdef void call(self, const Code* code) noexcept nogil
    cdef int64_t jump(self, const Code* code) noexcept nogil
    cdef void leave(self) noexcept nogil
    cdef int64_t trap(self, const Code* code) noexcept nogil
