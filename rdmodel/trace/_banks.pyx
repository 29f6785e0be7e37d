# Arguments are checked before they get here.
"""Count the wavefronts of accesses to shared memory."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rdmodel.trace._banks cimport serve_warp


def count_wavefronts(
    const int64_t[:, ::1] addresses, const uint32_t[::1] masks, const uint8_t[::1] sizes, const uint8_t[::1] each,
    int64_t[:, ::1] result,
):
    """Write (wavefronts, groups) of every instruction to `result`; row i of `addresses` has its 32 lanes.

    Lane l is active if bit l of ``masks[i]`` is set; ``sizes`` are 1 to 16 bytes; ``each`` marks atomics.
    """
    cdef uint64_t place[32]
    cdef int32_t lane[32]
    cdef int64_t i, l, n, groups
    with nogil:
        for i in range(addresses.shape[0]):
            n = groups = 0
            for l in range(32):
                if masks[i] >> l & 1:
                    place[n], lane[n] = <uint64_t> addresses[i, l], <int32_t> l
                    n += 1
            result[i, 0] = serve_warp(place, lane, n, sizes[i], each[i] != 0, &groups) if n else 0
            result[i, 1] = groups
