# See _events.pxd for the subject. The rows of all warps are in one buffer. It is empty without flagged steps.
"""Note what the warps of a block do at barriers and for asynchronous copies: `Events`."""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

import numpy as np

from tracegen.ptx.isa._code cimport Lanes

FIELDS = ("warp", "step", "place", "amount", "bytes")
"""Columns of `Events.table`."""

cdef enum:
    FIRST_ROOM = 1 << 10
    MOST_ROOM = 1 << 17    # rows of a block; what follows is not noted


cdef class Events:
    """The events of one block, in the order of execution: the first ones, if there are many."""

    def __cinit__(self):
        self.rows, self.n, self.room, self.entries = NULL, 0, 0, 0

    def __dealloc__(self):
        free(self.rows)

    def restart(self):
        """Forget all events, for a new block."""
        self.n = self.entries = 0

    def table(self):
        """Return an array (events, FIELDS) of int64."""
        cdef int64_t[:, ::1] view
        found = np.empty((self.n, len(FIELDS)), np.int64)
        if self.n:
            view = found
            memcpy(&view[0, 0], self.rows, <size_t>self.n * sizeof(Event))
        return found

    cdef void enter(self, const Lanes* lanes, int64_t step) noexcept nogil:
        """Note that warps enter the piece that begins with a step."""
        cdef int64_t k
        self.entries += lanes.warps
        for k in range(lanes.warps):
            self.append(lanes.warp[k], step, ENTRY, 0, 0)

    cdef void note(self, const Lanes* lanes, int64_t step) noexcept nogil:
        """Note that warps execute a step that has neither a place nor an amount."""
        cdef int64_t k
        for k in range(lanes.warps):
            self.append(lanes.warp[k], step, 0, 0, 0)

    cdef void add(
        self, int64_t warp, int64_t step, int64_t place, int64_t amount, int64_t bytes
    ) noexcept nogil:
        """Note what a lane does; lanes of a warp that do the same with one step at one place are one event."""
        cdef Event* last
        if self.n:
            last = self.rows + (self.n - 1)
            if last.warp == warp and last.step == step and last.place == place:
                last.amount += amount
                last.bytes += bytes
                return
        self.append(warp, step, place, amount, bytes)

    cdef void append(
        self, int64_t warp, int64_t step, int64_t place, int64_t amount, int64_t bytes
    ) noexcept nogil:
        cdef Event* row
        cdef void* moved
        cdef int64_t larger
        if self.n == self.room:
            larger = min(<int64_t>MOST_ROOM, max(<int64_t>FIRST_ROOM, 2 * self.room))
            moved = realloc(self.rows, <size_t>larger * sizeof(Event)) if larger > self.room else NULL
            if moved == NULL:
                return
            self.rows, self.room = <Event*>moved, larger
        row = self.rows + self.n
        row.warp, row.step, row.place, row.amount, row.bytes = warp, step, place, amount, bytes
        self.n += 1
