# See _reorder.pxd for the subject.
"""Simulate the buffer of MRPB: `Reordering`, on top of `SectoredLoadStore`."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from rdmodel.simulator._admission cimport STALL
from rdmodel.simulator._issue cimport LOAD, STORE
from rdmodel.simulator._machine cimport FAILED, NO_MEMORY, Buffer, Entry, Sm
from rdmodel.simulator._network cimport C_GO, C_MEMORY, LOG_ACCESS
from rdmodel.simulator._sectored_loadstore cimport SectoredLoadStore
from rdmodel.simulator._wakes cimport NEVER
from rdmodel.structures._lru cimport NONE
from rdmodel.structures._ring cimport Item, ring_first, ring_pop, ring_push

from rdmodel.simulator._admission import STALL_RULES

SIGNATURES = {"warp": SIGNATURE_WARP, "block": SIGNATURE_BLOCK, "warp-in-block": SIGNATURE_INDEX}
DRAIN_RULES = {"fixed": DRAIN_FIXED, "round-robin": DRAIN_ROUND_ROBIN, "longest": DRAIN_LONGEST}


cdef class Reordering(SectoredLoadStore):
    """Queues in which loads wait by their signature; stores wait until their queue is empty."""

    def _read_reordering(
        self, *, bint buffered=False, signature="warp", drain="fixed", bint greedy=False, bint flush=False,
        int64_t entries=-1, int64_t latency=0, bypass="none",
    ):
        """Set the reordering policy: the settings of `rdmodel.policies` and, as defaults, those of no policy."""
        self.buffered = buffered
        self.signature = SIGNATURES[signature]
        self.drain = DRAIN_RULES[drain]
        self.drain_greedy = greedy
        self.flush = flush
        self.entries_per_queue = entries
        self.buffer_latency = latency
        # Together with an admission policy, a load bypasses at the stalls of either.
        self.on_stall = max(self.on_stall, STALL_RULES[bypass])
        self.admitting = self.admitting or self.on_stall != STALL

    cdef int64_t _queues(self) noexcept nogil:
        """Return the number of queues of an SM."""
        if self.signature == SIGNATURE_BLOCK:
            return self.slots
        return self.block_warps if self.signature == SIGNATURE_INDEX else self.slots * self.block_warps

    cdef int _access_buffered(self, int64_t i, int64_t t) noexcept nogil:
        """Drain transactions of one load (S3a), and let some of one instruction enter (S3b)."""
        cdef Sm* sm = &self.sm[i]
        cdef Buffer* b = &sm.buffer
        cdef int64_t queue = self._select_queue(b, t)
        cdef int served = 0
        # The head that could not be served fails again as long as nothing has changed.
        if queue != b.stuck or sm.retry:
            if sm.stalled:
                sm.n.fails[sm.reason - FAILED] += t - sm.since
                sm.stalled = False
            b.stuck = NONE
            if queue != NONE:
                sm.retry = False
                served = self._drain(i, queue, t)
        if served < 0:
            return C_MEMORY
        return self._enter_buffer(i, t, served > 0)

    cdef inline int64_t _select_queue(self, Buffer* b, int64_t t) noexcept nogil:
        """Return the queue that gives the next transaction; NONE if none may."""
        cdef int64_t k, queue, best = NONE
        if b.flushed != NONE:
            return b.flushed if self._drainable(b, b.flushed, t) else NONE
        if self.drain_greedy and b.last != NONE and b.queue[b.last].size > 0:
            return b.last if self._drainable(b, b.last, t) else NONE
        for k in range(b.queues):
            queue = (b.last + 1 + k) % b.queues if self.drain == DRAIN_ROUND_ROBIN else k
            if not self._drainable(b, queue, t):
                continue
            if self.drain != DRAIN_LONGEST:
                return queue
            if best == NONE or b.queue[queue].size > b.queue[best].size:
                best = queue
        return best

    cdef inline bint _drainable(self, const Buffer* b, int64_t queue, int64_t t) noexcept nogil:
        return b.queue[queue].size > 0 and ring_first(&b.queue[queue]).time + self.buffer_latency <= t

    cdef inline int _drain(self, int64_t i, int64_t queue, int64_t t) noexcept nogil:
        """Let the first transactions of a queue access the L1; return the number served, or C_MEMORY."""
        cdef Buffer* b = &self.sm[i].buffer
        cdef int64_t load = ring_first(&b.queue[queue]).id, left = self.tags
        cdef int served = 0, outcome
        while left > 0 and self._drainable(b, queue, t) and ring_first(&b.queue[queue]).id == load:
            outcome = self._drain_one(i, queue, t)
            if outcome < 0:
                return C_MEMORY
            if outcome == 0:
                break
            served += 1
            left -= 1
        return served

    cdef inline int _drain_one(self, int64_t i, int64_t queue, int64_t t) noexcept nogil:
        """Let the head of a queue access the L1; return whether it was served."""
        cdef Sm* sm = &self.sm[i]
        cdef Buffer* b = &sm.buffer
        cdef Item item = ring_first(&b.queue[queue])[0]
        cdef uint64_t masks = <uint64_t> item.what
        cdef int outcome
        if self.unusual:
            outcome = self._load_unusual(sm, item.id, item.line, <uint32_t> (masks >> 32), t)
        else:
            outcome = self._load(sm, item.id, item.line, t)
        if outcome == NO_MEMORY:
            return C_MEMORY
        if outcome >= FAILED:
            b.stuck = queue
            sm.stalled = True
            sm.reason = outcome
            sm.since = t
            return 0
        b.stuck = NONE
        b.last = queue
        b.held -= 1
        ring_pop(&b.queue[queue])
        self._log(LOG_ACCESS, t, i, sm.cache.line[item.line].line, outcome, sm.missed)
        if self.recording:
            self._record(i, item.id, item.line, <uint32_t> masks, outcome)
        sm.load[item.id].left -= 1
        if sm.load[item.id].left == 0 and self._all_served(sm, item.id, t) < 0:
            return C_MEMORY
        return 1

    cdef inline int _enter_buffer(self, int64_t i, int64_t t, bint tried) noexcept nogil:
        """Let transactions of the first instruction in the unit enter; `tried`: one has accessed the L1 already."""
        cdef Sm* sm = &self.sm[i]
        cdef int64_t entries = sm.entries, left = self.tags
        cdef int moved
        sm.buffer.flushed = NONE
        sm.buffer.blocked = False
        while left > 0 and entries > 0 and sm.entries == entries:
            moved = self._enter_one(i, t, tried)
            if moved < 0:
                return C_MEMORY
            if moved == 0:
                break
            left -= 1
        return C_GO

    cdef inline int _enter_one(self, int64_t i, int64_t t, bint tried) noexcept nogil:
        """Let the next transaction of the unit enter its queue, or a store access the L1; return whether it did."""
        cdef Sm* sm = &self.sm[i]
        cdef Buffer* b = &sm.buffer
        cdef Entry* e = &sm.entry[sm.entry_head]
        cdef int64_t queue = self._queue_of(sm, e.warp)
        cdef uint64_t masks
        if e.op != LOAD:
            return self._store_past_buffer(i, queue, t, tried)
        if 0 <= self.entries_per_queue <= b.queue[queue].size:
            self._block_buffer(b, queue)
            return 0
        masks = e.masks[e.at] if self.recording else 0
        if self.sized:
            masks |= e.sectors[e.at] << 32
        if ring_push(&b.queue[queue], Item(t, e.ids[e.at], e.load, <int64_t> masks)) < 0:
            return C_MEMORY
        b.held += 1
        e.at += 1
        if e.at == e.count:
            self._leave_unit(sm, e)
        return 1

    cdef inline int64_t _queue_of(self, const Sm* sm, int64_t warp) noexcept nogil:
        if self.signature == SIGNATURE_BLOCK:
            return sm.warp[warp].slot
        return sm.warp[warp].index if self.signature == SIGNATURE_INDEX else warp

    cdef inline void _block_buffer(self, Buffer* b, int64_t queue) noexcept nogil:
        b.blocked = True
        if self.flush:
            b.flushed = queue

    cdef inline int _store_past_buffer(self, int64_t i, int64_t queue, int64_t t, bint tried) noexcept nogil:
        """Let a store access the L1 if its queue is empty, and nothing else has; return whether it was served."""
        cdef Sm* sm = &self.sm[i]
        cdef Buffer* b = &sm.buffer
        cdef Entry* e = &sm.entry[sm.entry_head]
        cdef int outcome
        if b.queue[queue].size > 0:
            self._block_buffer(b, queue)
            return 0
        if tried or b.stuck != NONE:
            b.blocked = b.stuck != NONE
            return 0
        if self.unusual:
            outcome = self._access_unusual(sm, e, t)
        elif e.local and e.op == STORE:
            outcome = self._store_local(sm, e, e.ids[e.at])
        else:
            outcome = self._store(sm, e, e.ids[e.at])
        if outcome == NO_MEMORY:
            return C_MEMORY
        if outcome >= FAILED:
            sm.n.fails[outcome - FAILED] += 1
            return 0
        self._log(LOG_ACCESS, t, i, sm.cache.line[e.ids[e.at]].line, outcome, sm.missed)
        return C_MEMORY if self._next_transaction(sm, t) < 0 else 1

    cdef int64_t _buffer_wake(self, Sm* sm, int64_t t) noexcept nogil:
        """Return the next cycle in which the buffer can give or take a transaction unless a message arrives before."""
        cdef Buffer* b = &sm.buffer
        cdef int64_t k, ready, wake = NEVER
        cdef bint fails_again
        if sm.entries > 0 and not b.blocked:
            return t + 1
        if b.held == 0:
            return NEVER
        # The head that could not be served fails until a message arrives, or until a queue that becomes ready is selected.
        fails_again = b.stuck != NONE and not sm.retry and self._select_queue(b, t + 1) == b.stuck
        for k in range(b.queues):
            if b.queue[k].size == 0:
                continue
            ready = ring_first(&b.queue[k]).time + self.buffer_latency
            if ready > t + 1:
                wake = min(wake, ready)
            elif not fails_again:
                return t + 1
        return wake
