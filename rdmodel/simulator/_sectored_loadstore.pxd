# `SectoredLoadStore`: L1s that fetch lines by sector, and whose stores write through (docs/machine.md, Sectors).
from libc.stdint cimport int64_t, uint32_t

from rdmodel.simulator._admission cimport Admission
from rdmodel.simulator._machine cimport Entry, Sm
from rdmodel.structures._ring cimport Item


cdef class SectoredLoadStore(Admission):
    cdef int _look_up_sectors(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil
    cdef int _find_room(self, Sm* sm, int64_t load, int64_t id, bint absent, int64_t* victim) noexcept nogil
    cdef int _place_line(self, Sm* sm, int64_t id, int64_t victim, int64_t block, int64_t warp) noexcept nogil
    cdef int _request_sectors(self, Sm* sm, int64_t load, int64_t id, uint32_t missing, int64_t t) noexcept nogil
    cdef int _merge_sectors(self, Sm* sm, int64_t load, int64_t id, uint32_t pending) noexcept nogil
    cdef void _count_sectors(
        self, Sm* sm, int64_t id, bint absent, uint32_t found, uint32_t pending, uint32_t missing
    ) noexcept nogil
    cdef int _store_sectors(self, Sm* sm, Entry* e, int64_t id) noexcept nogil
    cdef int _write_in_place(self, Sm* sm, int64_t warp, int64_t id, bint placed, uint32_t full) noexcept nogil
    cdef int _fill_sectors(self, int64_t i, int64_t t, Item item) noexcept nogil
