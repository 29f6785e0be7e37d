# See _registers.pxd for the subject.
"""Hold the registers of a block: `Registers`."""

from libc.stdint cimport uint64_t
from libc.string cimport memset


cdef class Registers:
    """Registers of all threads, each one row with the values of the threads."""

    cdef void clear_registers(self) noexcept nogil:
        """Clear the registers that are no constants, for a new block."""
        memset(self.registers, 0, <size_t>(self.variables * self.threads) * sizeof(uint64_t))
