# See _inspection.pxd for the subject.
"""Check and report the state of the compiled simulator: `Inspection`, on top of `BlockIssue`."""

from libc.stdint cimport int64_t, uint64_t

from rdmodel.simulator._block_issue cimport BlockIssue
from rdmodel.simulator._cache cimport cache_violations
from rdmodel.simulator._dram cimport Channel
from rdmodel.simulator._machine cimport FAILED, Slice, Sm
from rdmodel.simulator._network cimport LOG_WIDTH
from rdmodel.simulator._wakes cimport NEVER
from rdmodel.structures._lru cimport NONE
from rdmodel.structures._ring cimport ring_first

# Reasons of a failure, in the order of FAIL_LINE to FAIL_QUEUE: in an L1, and in a slice.
FAIL_NAMES = ("line_alloc", "mshr_entry", "mshr_merge", "miss_queue")
SLICE_FAIL_NAMES = ("line_alloc", "mshr_entry", "mshr_merge", "dram_queue")


cdef class Inspection(BlockIssue):
    """Counters, the log, and sentences about the state of the machine; nothing here changes it."""

    def slice_counters(self, int64_t i):
        """Return the counters of a slice of the L2 as a dict; `fails` in the order of SLICE_FAIL_NAMES."""
        return self.slice[i].n

    def channel_counters(self, int64_t i):
        """Return the counters of a DRAM channel as a dict."""
        cdef Channel* c = &self.slice[i].channel
        return {"reads": c.reads, "writes": c.writes, "activations": c.activations}

    def events(self):
        """Return the log as a list of tuples (kind, time, where, a, b); with sectors, (kind, time, where, a, b, c)."""
        cdef int64_t i
        cdef int64_t* row
        if self.log_lost:
            raise MemoryError
        result = []
        for i in range(self.log_size):
            row = self.log + i * LOG_WIDTH
            entry = (row[0], row[1], row[2], row[3], row[4])
            result.append((*entry, row[5]) if self.sectored else entry)
        return result

    def violations(self):
        """Return the violated invariants as sentences; O(lines in the caches)."""
        cdef int64_t i
        violations = []
        for i in range(self.sms):
            violations += [f"SM {i}: {text}" for text in self._sm_violations(&self.sm[i])]
        for i in range(self.slices):
            violations += [f"slice {i}: {text}" for text in self._slice_violations(&self.slice[i])]
        return violations

    cdef list _sm_violations(self, Sm* sm):
        cdef int64_t i, reserved = 0, loads = 0, held_mshrs = 0
        violations = cache_violations(&sm.cache, &reserved)
        if not self.sectored and not self.fill and reserved != sm.mshrs.used:
            violations.append(f"{reserved} lines are reserved, {sm.mshrs.used} MSHRs in use")
        if self.sectored and reserved > sm.mshrs.used:
            violations.append(f"{reserved} lines have sectors in flight, {sm.mshrs.used} MSHRs are in use")
        if sm.mshrs.limit >= 0 and sm.mshrs.used > sm.mshrs.limit:
            violations.append(f"{sm.mshrs.used} of {sm.mshrs.limit} MSHRs are in use")
        if sm.entries > self.ldst_queue:
            violations.append(f"{sm.entries} instructions are in a load/store unit for {self.ldst_queue}")
        if not self.fill and sm.misses.size > self.miss_queue + 1:
            violations.append(f"{sm.misses.size} requests are in a miss queue for {self.miss_queue}")
        for i in range(self.slots * self.block_warps):
            held_mshrs += sm.warp[i].held if sm.warp[i].alive else 0
            loads += sm.warp[i].loads if sm.warp[i].alive else 0
            if sm.warp[i].alive and count_bits(sm.warp[i].pending) + sm.warp[i].ancient != sm.warp[i].loads:
                violations.append(f"warp slot {i} has lost count of its loads")
        if held_mshrs != sm.mshrs.used:
            violations.append(f"warps hold {held_mshrs} MSHRs, {sm.mshrs.used} are in use")
        if loads != self._incomplete_loads(sm):
            violations.append(f"{loads} loads are not complete, {self._incomplete_loads(sm)} are on record")
        for ring, name in ((sm.responses.size, "responses"), (sm.hits.size, "hits")):
            if ring > 0 and self.wakes.time[sm.number] == NEVER:
                violations.append(f"{name} are due and the SM sleeps")
        if self.wakes.time[sm.number] <= self.now:
            violations.append(f"is to wake in cycle {self.wakes.time[sm.number]}, and it is cycle {self.now}")
        return violations

    cdef list _slice_violations(self, Slice* s):
        cdef int64_t reserved = 0
        wrong = cache_violations(&s.cache, &reserved)
        if reserved != s.mshrs.used:
            wrong.append(f"{reserved} lines are reserved, {s.mshrs.used} MSHRs in use")
        if s.mshrs.limit >= 0 and s.mshrs.used > s.mshrs.limit:
            wrong.append(f"{s.mshrs.used} of {s.mshrs.limit} MSHRs are in use")
        if s.occupancy != s.input.size or s.occupancy > self.l_queue:
            wrong.append(f"the input for {self.l_queue} holds {s.input.size} requests and counts {s.occupancy}")
        if s.waiting.size > 0 and s.occupancy < self.l_queue:
            wrong.append(f"{s.waiting.size} SMs wait for an input that has room")
        if s.channel.queued > s.channel.limit + (2 * self.sectors if self.sectored else 1):
            wrong.append(f"{s.channel.queued} requests are in a DRAM queue for {s.channel.limit}")
        if self.wakes.time[s.number] <= self.now:
            wrong.append(f"is to wake in cycle {self.wakes.time[s.number]}, and it is cycle {self.now}")
        return wrong

    cdef int64_t _incomplete_loads(self, Sm* sm):
        cdef int64_t i = sm.free_load, free = 0
        while i != NONE:
            free += 1
            i = sm.load[i].next
        return sm.loads - free

    def under_way(self):
        """Return the parts that are not empty as sentences; none at the end of a run."""
        cdef int64_t i
        cdef Sm* sm
        cdef Slice* s
        leftovers = []
        for i in range(self.sms):
            sm = &self.sm[i]
            sizes = {
                "blocks": sum([sm.slot[k].occupied for k in range(self.slots)]),
                "instructions in the load/store unit": sm.entries, "MSHRs": sm.mshrs.used,
                "requests in the miss queue": sm.misses.size, "responses": sm.responses.size,
                "requests in the buffer": sm.buffer.held,
                "loads": self._incomplete_loads(sm),
            }
            leftovers += [f"SM {i}: {size} {name}" for name, size in sizes.items() if size]
        for i in range(self.slices):
            s = &self.slice[i]
            sizes = {
                "requests in the input": s.input.size, "waiting SMs": s.waiting.size, "MSHRs": s.mshrs.used,
                "requests in the DRAM's queue": s.channel.queued, "lines on their way from the DRAM": s.returns.size,
                "requests from other partitions": s.crossed.size, "answers from other partitions": s.answers.size,
                "lines on their way from other partitions": s.crossing.used,
            }
            leftovers += [f"slice {i}: {size} {name}" for name, size in sizes.items() if size]
        return leftovers

    def waiting_for(self):
        """Return the reasons why SMs and slices wait as sentences, for the report on a run that cannot go on."""
        cdef int64_t i, k
        cdef Sm* sm
        reasons = []
        for i in range(self.sms):
            sm = &self.sm[i]
            if sm.stalled:
                reasons.append(f"SM {i}: the load/store unit waits for {FAIL_NAMES[sm.reason - FAILED]}")
            if sm.waiting:
                k = self._entrance(i, ring_first(&sm.misses).line)
                reasons.append(f"SM {i}: the miss queue waits for room in slice {k}")
            for k in range(self.slots):
                if sm.slot[k].occupied:
                    loading = sum([sm.warp[k * self.block_warps + j].loads > 0 for j in range(self.block_warps)])
                    if sm.slot[k].stores:
                        reasons.append(
                            f"SM {i}: block {sm.slot[k].block}: {sm.slot[k].stores} stores are not acknowledged"
                        )
                    reasons.append(
                        f"SM {i}: block {sm.slot[k].block}: {sm.slot[k].waiting} of {sm.slot[k].alive} warps wait at a "
                        f"barrier, {loading} for loads"
                    )
        for i in range(self.slices):
            if self.slice[i].stalled:
                reasons.append(f"slice {i}: a request waits for {SLICE_FAIL_NAMES[self.slice[i].reason - FAILED]}")
        return reasons


cdef int64_t count_bits(uint64_t mask):
    cdef int64_t count = 0
    while mask != 0:
        mask &= mask - 1
        count += 1
    return count
