# `PartitionedNetwork`: an L2 whose slices form partitions, with copies of lines from the others (docs/machine.md).
from libc.stdint cimport int64_t

from rdmodel.simulator._machine cimport Slice
from rdmodel.simulator._sectored_network cimport SectoredNetwork
from rdmodel.structures._ring cimport Item


cdef class PartitionedNetwork(SectoredNetwork):
    cdef int _read_copy(self, Slice* s, int64_t id, Item item, int64_t t) noexcept nogil
    cdef int _send_on(self, Slice* s, Item item, int64_t flits, int64_t t) noexcept nogil
