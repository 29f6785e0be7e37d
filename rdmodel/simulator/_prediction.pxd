# `Prediction`: warps that may load while what they are predicted to use again in their loops fits in the L1 (daws).
cimport cython
from libc.stdint cimport int64_t

from rdmodel.simulator._machine cimport Sm
from rdmodel.simulator._residency cimport Residency


cdef class Prediction(Residency):
    cdef double footprint_share       # of the L1, that footprints may have together

    @cython.final
    cdef void _begin_prediction(self, Sm* sm, int64_t warp) noexcept nogil
    @cython.final
    cdef void _end_prediction(self, Sm* sm, int64_t warp) noexcept nogil
    @cython.final
    cdef void _follow(self, Sm* sm, int64_t warp) noexcept nogil
    @cython.final
    cdef void _rank_by_footprint(self, Sm* sm) noexcept nogil
