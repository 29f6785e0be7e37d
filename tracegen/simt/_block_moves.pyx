# One pass over the addresses of a batch, which NumPy would read and write several times.
"""Compare the addresses of the blocks of a batch with those of one block."""

from libc.stdint cimport int64_t, uint8_t


def find_moves(
    const int64_t[:, :, ::1] base,
    const int64_t[:, :, ::1] wanted,
    const int64_t[::1] blocks,
    int64_t[:, ::1] moves,
    uint8_t[::1] fits,
):
    """Find by how many bytes the addresses of each instruction of some blocks of a batch differ from those `wanted`.

    `base` has the rows of all warps of the batch, `wanted` those of one block: lanes by warp and instruction. Block
    ``blocks[i]`` differs by ``moves[i, j]`` bytes in instruction j; ``fits[i]`` becomes 0 if that is not the same for
    all its lanes and warps. Blocks with a 0 there are skipped.
    """
    cdef int64_t warps = wanted.shape[0], rows = wanted.shape[1], lanes = wanted.shape[2]
    cdef int64_t i, first
    assert lanes == base.shape[2] > 0 and rows == base.shape[1] and warps > 0
    assert blocks.shape[0] == moves.shape[0] == fits.shape[0] and rows == moves.shape[1]
    for i in range(blocks.shape[0]):
        assert 0 <= blocks[i] < base.shape[0] // warps
    with nogil:
        for i in range(blocks.shape[0]):
            first = blocks[i] * warps
            if fits[i] and rows > 0:
                fits[i] = is_moved(&base[first, 0, 0], &wanted[0, 0, 0], warps, rows, lanes, &moves[i, 0])


cdef bint is_moved(
    const int64_t* base, const int64_t* wanted, int64_t warps, int64_t rows, int64_t lanes, int64_t* moves
) noexcept nogil:
    # Return whether each instruction is moved as a whole, and find by how many bytes.
    cdef int64_t warp, row, lane, different
    for row in range(rows):
        moves[row] = base[row * lanes] - wanted[row * lanes]
    for warp in range(warps):
        for row in range(rows):
            different = 0
            for lane in range(lanes):
                different |= (base[lane] - wanted[lane]) ^ moves[row]
            if different:
                return False
            base += lanes
            wanted += lanes
    return True
