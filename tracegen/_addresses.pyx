# One pass over the lanes per dimension, where NumPy makes four: a batch of blocks has thousands of lanes.
"""Add up the addresses of lanes from their indices, and check the indices."""

from libc.stdint cimport int64_t, uint64_t


def add_dimension(const int64_t[::1] index, int64_t distance, int64_t extent, int64_t[::1] address):
    """Add ``index * distance`` to the address of each lane; return whether all indices are from 0 to `extent` - 1.

    Lanes that are not active may have any index; their addresses are undefined.
    """
    cdef int64_t lane
    cdef uint64_t product
    cdef bint inside = True
    assert index.shape[0] == address.shape[0]
    with nogil:
        for lane in range(index.shape[0]):
            product = <uint64_t>index[lane] * <uint64_t>distance  # may wrap, which is defined for these
            address[lane] = <int64_t>(<uint64_t>address[lane] + product)
            inside &= <uint64_t>index[lane] < <uint64_t>extent
    return inside
