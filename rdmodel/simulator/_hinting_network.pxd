# `HintingNetwork`: slices that remember which SMs have read their lines, and tell them (docs/policies.md, g-cache).
from libc.stdint cimport int64_t

from rdmodel.simulator._machine cimport Slice
from rdmodel.simulator._partitioned_network cimport PartitionedNetwork
from rdmodel.structures._ring cimport Item


cdef class HintingNetwork(PartitionedNetwork):
    cdef int64_t sharers              # SMs that share a victim bit
