# See _plugins.pxd for the subject.
"""Call the policies of users in compiled libraries: `Plugins`, on top of `LoadStore`."""

from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc

from rdmodel.plugins.policy cimport (
    RDMODEL_ABSENT, RDMODEL_BYPASS, RDMODEL_BYPASSED, RDMODEL_IN_FLIGHT, RDMODEL_LOAD, RDMODEL_USE, RDMODEL_VALID,
    rdmodel_access, rdmodel_counters, rdmodel_line, rdmodel_machine, rdmodel_policy, rdmodel_warp,
)
from rdmodel.simulator._cache cimport GHOST, RESERVED, VALID, CacheLine, Note, cache_victim
from rdmodel.simulator._issue cimport Warp
from rdmodel.simulator._loadstore cimport NO_WAY, PROTECTED, WAY, LoadStore
from rdmodel.simulator._machine cimport BYPASSED, Load, Sm
from rdmodel.simulator._period cimport Period, period_over
from rdmodel.structures._lru cimport NONE

FAULT_TEXTS = {
    FAULT_ADMIT: "admit returned {answer}; must be from 0 to {most}",
    FAULT_REPLACE: "replace returned {answer} for {answers} lines; must be from -1 to {most}",
    FAULT_PERMIT: "permit returned {answer}; must be from 0 to {most}",
}


cdef class Plugins(LoadStore):
    """Compiled libraries that decide about loads and warps, and are told what happens."""

    def _plug(self, int number, table, options):
        """Set the plug-in that admits or throttles: the address of its table, and its options; `period` is -1 or one."""
        cdef Plugin* p = &self.plugin[number]
        cdef int64_t i, period = -1
        if table == 0:
            p.period = Period(-1, -2)
            return
        p.table = <const rdmodel_policy*> <uintptr_t> table
        p.option = <double*> malloc(<size_t> max(1, p.table.options) * sizeof(double))
        if p.option == NULL:
            raise MemoryError
        for i in range(p.table.options):
            p.option[i] = options[i]
            if p.table.period_ended != NULL and p.table.option[i].name == b"period":
                period = options[i]
        p.period = Period(period, period - 1)
        self.plugged = self.admitting = True
        self.choosing = self.choosing or p.table.replace != NULL

    def _create_states(self, l1):
        """Create the states of the plug-ins, one for each SM."""
        cdef rdmodel_machine machine
        cdef Plugin* p
        cdef int64_t i
        if not self.plugged:
            return
        machine.sms = self.sms
        machine.warps = self.slots * self.block_warps
        machine.schedulers = self.schedulers
        machine.sets = l1["sets"]
        machine.ways = l1["ways"]
        machine.line_bytes = l1["line"]
        self.candidate = <rdmodel_line*> malloc(<size_t> machine.ways * sizeof(rdmodel_line))
        self.candidate_id = <int64_t*> malloc(<size_t> machine.ways * sizeof(int64_t))
        self.sums = <rdmodel_counters*> calloc(<size_t> self.sms, sizeof(rdmodel_counters))
        if self.candidate == NULL or self.candidate_id == NULL or self.sums == NULL:
            raise MemoryError
        for number in range(C_PLUGINS):
            p = &self.plugin[number]
            if p.table == NULL:
                continue
            p.state = <void**> calloc(<size_t> self.sms, sizeof(void*))
            if p.state == NULL:
                raise MemoryError
            for i in range(self.sms):
                if p.table.create != NULL:
                    p.state[i] = p.table.create(&machine, i, p.option)
                    if p.state[i] == NULL:
                        raise MemoryError

    def __dealloc__(self):
        cdef int64_t i
        cdef int number
        cdef Plugin* p
        for number in range(C_PLUGINS):
            p = &self.plugin[number]
            if p.state != NULL:
                for i in range(self.sms):
                    if p.table.destroy != NULL and p.state[i] != NULL:
                        p.table.destroy(p.state[i])
            free(p.state)
            free(p.option)
        free(self.candidate)
        free(self.candidate_id)
        free(self.sums)

    def fault_text(self):
        """Return the complaint about an answer that is not allowed."""
        number = THROTTLING if self.fault == FAULT_PERMIT else ADMITTING
        text = FAULT_TEXTS[self.fault].format(answer=self.answer, answers=self.answers, most=self.answers - 1)
        return f"policy {self.plugin[number].table.name.decode()!r}: {text}"

    cdef inline void _complain(self, int fault, int64_t answer, int64_t answers) noexcept nogil:
        if self.fault == NO_FAULT:
            self.fault = fault
            self.answer = answer
            self.answers = answers

    # ---- decisions

    cdef inline int _presence(self, const Sm* sm, int64_t id) noexcept nogil:
        cdef const CacheLine* l = &sm.cache.line[id]
        if (sm.cache.sector[id].pending != 0) if self.sectored else (l.mshr != NONE):
            return RDMODEL_IN_FLIGHT
        return RDMODEL_VALID if l.flags & VALID else RDMODEL_ABSENT

    cdef inline void _describe(
        self, const Sm* sm, int64_t id, int64_t warp, int64_t pc, int present, bint store, rdmodel_access* out
    ) noexcept nogil:
        cdef const Warp* w = &sm.warp[warp]
        out.line = sm.cache.line[id].line
        out.set = sm.cache.line[id].set
        out.pc = pc
        out.slot = warp
        out.block = w.block
        out.warp = w.index
        out.present = present
        out.store = store

    cdef inline int _ask_to_admit(self, const Sm* sm, int64_t load, int64_t id, int present) noexcept nogil:
        """Return whether a load uses the L1."""
        cdef const Plugin* p = &self.plugin[ADMITTING]
        cdef rdmodel_access access
        cdef int verdict
        if p.table == NULL or p.table.admit == NULL:
            return RDMODEL_USE
        self._describe(sm, id, sm.load[load].warp, sm.load[load].pc, present, False, &access)
        verdict = p.table.admit(p.state[self._number_of(sm)], &access)
        if not RDMODEL_USE <= verdict <= RDMODEL_BYPASS:
            self._complain(FAULT_ADMIT, verdict, RDMODEL_BYPASS + 1)
            return RDMODEL_USE
        return verdict

    cdef inline int64_t _list_candidates(self, const Sm* sm, int64_t set, int number) noexcept nogil:
        """List the valid lines of a set for a plug-in, the least recently used first; return their number."""
        cdef int64_t id = sm.cache.set[set].oldest, n = 0
        cdef const CacheLine* l
        cdef const Note* note
        while id != NONE:
            l = &sm.cache.line[id]
            if not l.flags & (RESERVED | GHOST):
                note = &sm.cache.note[id]
                self.candidate[n] = rdmodel_line(l.line, note.pc, l.block, l.warp, note.uses, note.data[number])
                self.candidate_id[n] = id
                n += 1
            id = l.in_set.newer
        return n

    cdef inline int _choose_way(self, const Sm* sm, int64_t set, int64_t* victim) noexcept nogil:
        """Let the plug-in choose the line that the transaction `asking` replaces; NONE: a way is empty."""
        cdef const Plugin* p = &self.plugin[ADMITTING]
        cdef int64_t n, chosen
        victim[0] = NONE
        if sm.cache.set[set].size < sm.cache.ways:
            return WAY if cache_victim(&sm.cache, set, victim) else NO_WAY
        n = self._list_candidates(sm, set, ADMITTING)
        if n == 0:
            return NO_WAY
        chosen = p.table.replace(p.state[self._number_of(sm)], &self.asking, self.candidate, n)
        if chosen == -1:
            return PROTECTED
        if not 0 <= chosen < n:
            self._complain(FAULT_REPLACE, chosen, n)
            chosen = 0
        victim[0] = self.candidate_id[chosen]
        return WAY

    cdef bint _find_way_to_store(
        self, Sm* sm, int64_t id, int64_t warp, bint must, int64_t* victim
    ) noexcept nogil:
        """Find the line that a store may replace, NONE if a way is empty; `must`: the store cannot do without."""
        cdef int way
        if not self.plugged:
            return cache_victim(&sm.cache, sm.cache.line[id].set, victim)
        self._describe(sm, id, warp, NONE, self._presence(sm, id), True, &self.asking)
        if self.choosing:
            way = self._choose_way(sm, self.asking.set, victim)
            if way != PROTECTED or not must:
                return way == WAY
        return cache_victim(&sm.cache, self.asking.set, victim)

    cdef inline int _ask_to_permit(self, const Sm* sm, int64_t warp, int64_t rank) noexcept nogil:
        """Return what a warp may load."""
        cdef const Plugin* p = &self.plugin[THROTTLING]
        cdef const Warp* w = &sm.warp[warp]
        cdef rdmodel_warp told = rdmodel_warp(warp, w.block, w.index, w.age, rank)
        cdef int verdict = p.table.permit(p.state[self._number_of(sm)], &told)
        if not 0 <= verdict <= RDMODEL_LOAD:
            self._complain(FAULT_PERMIT, verdict, RDMODEL_LOAD + 1)
            return RDMODEL_LOAD
        return verdict

    # ---- events

    cdef inline void _make_stale(self, Sm* sm) noexcept nogil:
        cdef int64_t k
        for k in range(self.schedulers):
            sm.scheduler[k].stale = True

    cdef inline void _tell_loaded(self, Sm* sm, int64_t load, int64_t id, int outcome, int present) noexcept nogil:
        """Report a load transaction that has been served to the plug-ins."""
        cdef int number
        cdef const Plugin* p
        cdef rdmodel_access access
        cdef uint64_t* data
        for number in range(C_PLUGINS):
            p = &self.plugin[number]
            if p.table == NULL or p.table.loaded == NULL:
                continue
            self._describe(sm, id, sm.load[load].warp, sm.load[load].pc, present, False, &access)
            data = &sm.cache.note[id].data[number]
            if outcome == BYPASSED:
                p.table.loaded(
                    p.state[self._number_of(sm)], &access, RDMODEL_BYPASSED,
                    NULL if present == RDMODEL_ABSENT else data,
                )
            else:
                p.table.loaded(p.state[self._number_of(sm)], &access, outcome, data)
            if number == THROTTLING:
                self._make_stale(sm)

    cdef inline void _tell_replaced(self, Sm* sm, int64_t id) noexcept nogil:
        """Report to the plug-ins that the transaction `asking` replaces a line."""
        cdef int number
        cdef const Plugin* p
        cdef int64_t i, n, chosen
        for number in range(C_PLUGINS):
            p = &self.plugin[number]
            if p.table == NULL or p.table.replaced == NULL:
                continue
            n = self._list_candidates(sm, sm.cache.line[id].set, number)
            chosen = 0
            while self.candidate_id[chosen] != id:
                chosen += 1
            p.table.replaced(p.state[self._number_of(sm)], &self.asking, self.candidate, n, chosen)
            for i in range(n):
                sm.cache.note[self.candidate_id[i]].data[number] = self.candidate[i].data
            if number == THROTTLING:
                self._make_stale(sm)

    cdef inline void _tell_warp(self, Sm* sm, int64_t warp, bint began) noexcept nogil:
        """Report the begin or the end of a warp to the plug-ins."""
        cdef int number
        cdef const Plugin* p
        cdef const Warp* w = &sm.warp[warp]
        cdef rdmodel_warp told = rdmodel_warp(warp, w.block, w.index, w.age, 0)
        for number in range(C_PLUGINS):
            p = &self.plugin[number]
            if p.table == NULL:
                continue
            if began and p.table.began != NULL:
                p.table.began(p.state[self._number_of(sm)], &told)
            elif not began and p.table.ended != NULL:
                p.table.ended(p.state[self._number_of(sm)], &told)
        # A stalled access may succeed now.
        sm.retry = True
        self._rouse(sm.number, self.now + 1)

    cdef inline bint _end_plugin_periods(self) noexcept nogil:
        """Report the ends of periods to the plug-ins; return whether there was one."""
        cdef int number
        cdef Plugin* p
        cdef int64_t i
        cdef Sm* sm
        cdef bint over = False
        for number in range(C_PLUGINS):
            p = &self.plugin[number]
            if not period_over(&p.period, self.now):
                continue
            over = True
            for i in range(self.sms):
                sm = &self.sm[i]
                self.sums[i] = rdmodel_counters(
                    sm.n.warp_instructions, sm.n.thread_instructions, sm.n.hits, sm.n.pending_hits,
                    sm.n.compulsory + sm.n.capacity + sm.n.associativity, sm.n.bypassed, sm.n.writes,
                )
            p.table.period_ended(<void* const*> p.state, self.sums, self.sms)
        if over:
            for i in range(self.sms):
                sm = &self.sm[i]
                self._make_stale(sm)
                sm.retry = True
                self._rouse(sm.number, self.now + 1)
        return over
