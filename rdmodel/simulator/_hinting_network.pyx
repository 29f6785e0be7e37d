# See _hinting_network.pxd for the subject.
"""Simulate victim bits of an L2: `HintingNetwork`, on top of `PartitionedNetwork`."""

from libc.stdint cimport int64_t, uint64_t

from rdmodel.simulator._cache cimport RESERVED, VALID, cache_readers
from rdmodel.simulator._machine cimport HINT, KIND_MASK, NO_MEMORY, READ, SENDER_AT, Slice
from rdmodel.simulator._partitioned_network cimport PartitionedNetwork
from rdmodel.structures._ring cimport Item


cdef class HintingNetwork(PartitionedNetwork):
    """Slices with victim bits: one for each group of SMs, in every line."""

    def _read_hints(self, sharers):
        """Let `sharers` SMs share a victim bit; 0: there are none. Call it before the slices are allocated."""
        self.hinting = sharers > 0
        self.sharers = sharers
        # One bit for each group, 64 in a word.
        self.reader_words = (self.sms - 1) // (64 * sharers) + 1 if self.hinting else 0

    cdef int _handle_hinting(self, Slice* s, int64_t id, Item item, int64_t t) noexcept nogil:
        """Handle a message; the answer to a read of an SM whose bit is set carries a hint."""
        cdef int64_t sender = item.what >> SENDER_AT, group = 0, word
        cdef uint64_t bit = 0
        cdef uint64_t* readers = cache_readers(&s.cache, id)
        cdef int outcome
        if not s.cache.line[id].flags & (VALID | RESERVED):
            for word in range(self.reader_words):
                readers[word] = 0
        if item.what & KIND_MASK == READ and sender < self.sms:
            group = sender // self.sharers
            bit = <uint64_t> 1 << (group % 64)
            if readers[group // 64] & bit:
                item.id |= HINT
        outcome = self._handle_sectors(s, id, item, t) if self.sectored else self._handle_lines(s, id, &item, t)
        if outcome < NO_MEMORY and s.cache.line[id].flags & (VALID | RESERVED):
            readers[group // 64] |= bit
        return outcome
