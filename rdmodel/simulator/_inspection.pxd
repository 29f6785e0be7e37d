# `Inspection`: counters, the log, invariants of the machine (docs/machine.md, `check=True`), and reports for errors.
from libc.stdint cimport int64_t

from rdmodel.simulator._block_issue cimport BlockIssue
from rdmodel.simulator._machine cimport Slice, Sm


cdef class Inspection(BlockIssue):
    cdef list _sm_violations(self, Sm* sm)
    cdef list _slice_violations(self, Slice* s)
    cdef int64_t _incomplete_loads(self, Sm* sm)
