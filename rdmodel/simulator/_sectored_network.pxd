# `SectoredNetwork`: slices of the L2 that read and write lines by sector (docs/machine.md, Sectors).
from libc.stdint cimport int64_t, uint32_t

from rdmodel.simulator._machine cimport Slice
from rdmodel.simulator._mshrs cimport Mshrs
from rdmodel.simulator._network cimport Network
from rdmodel.structures._ring cimport Item

cdef class SectoredNetwork(Network):
    cdef int _handle_sectors(self, Slice* s, int64_t id, Item item, int64_t t) noexcept nogil
    cdef int _handle_away(self, Slice* s, int64_t id, Item item, int64_t t) noexcept nogil
    cdef void _take_from_copies(self, Slice* s, int64_t line, uint32_t sectors) noexcept nogil
    cdef int _read_at_home(self, Slice* s, int64_t id, Item item, int64_t t) noexcept nogil
    cdef int _read_slice_sectors(self, Slice* s, int64_t id, Item item, int64_t t) noexcept nogil
    cdef int _pass_slice_sectors(self, Slice* s, int64_t id, int64_t sm, uint32_t asked, int64_t wanted) noexcept nogil
    cdef int _take_passing(self, Slice* s, int64_t t, Item item) noexcept nogil
    cdef int _find_written_way(self, Slice* s, int64_t id, int64_t* victim) noexcept nogil
    cdef int _write_slice_sectors(self, Slice* s, int64_t id, Item item) noexcept nogil
    cdef int _clean(self, Slice* s, int64_t id) noexcept nogil
    cdef int _write_back(self, Slice* s, int64_t id, uint32_t sectors) noexcept nogil
    cdef int _place(self, Slice* s, int64_t id, int64_t victim) noexcept nogil
    cdef int _fetch_sectors(self, Slice* s, int64_t id, uint32_t missing) noexcept nogil
    cdef int _fill_slice_sectors(self, Slice* s, int64_t t, Item item) noexcept nogil
    cdef int _answer_complete(self, Slice* s, Mshrs* mshrs, int64_t id, int64_t t) noexcept nogil
