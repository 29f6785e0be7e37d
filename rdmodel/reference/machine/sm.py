"""Model one SM of the reference machine: block slots, warps, schedulers, the load/store unit and the L1."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from rdmodel.gpu.config import GPU
from rdmodel.gpu.served_loads import looks_into_l1
from rdmodel.policies import MRPB, policy_of_kind
from rdmodel.reference.machine.choice import l1_config, make_admission
from rdmodel.reference.machine.instruction import MachineBlock, MachineInstruction, Owner
from rdmodel.reference.machine.l1 import L1, L1_OUTCOMES, L1Failure, L1Outcome, is_served
from rdmodel.reference.machine.ldst import LoadStoreUnit, QueuedInstruction
from rdmodel.reference.machine.messages import Message, Response, Transaction
from rdmodel.reference.machine.mrpb import PrioritizationBuffer
from rdmodel.reference.machine.plugin import IN_FLIGHT, NO_LOAD, Plugin, SmPlugins
from rdmodel.reference.machine.record import BARRIER, MEMORY, NON_MEMORY, SM_COUNTERS, EventLog, zero_counters
from rdmodel.reference.machine.sectored_l1 import SectoredL1
from rdmodel.reference.machine.throttling import Permit, Throttle
from rdmodel.reference.machine.warps import Scheduler, Warp
from rdmodel.simulator.options import SimulationOptions, has_sector_masks, packet_bytes
from rdmodel.trace import Op, Space


@dataclass(slots=True, eq=False)
class MachineResidentBlock:
    """A block in a slot of the reference machine's SM, and its warps that have not ended."""

    block: int
    live: list[Warp]


class SM:
    """SM `number` of the reference machine, with `slots` block slots of `block_warps` warp slots each.

    All SMs share `throttle`. The memory system empties the L1's miss queue, and appends the lines that come back to
    `responses`.
    """

    def __init__(
        self,
        number: int,
        gpu: GPU,
        options: SimulationOptions,
        slots: int,
        block_warps: int,
        throttle: Throttle,
        plugins: Sequence[Plugin],
        log: EventLog,
    ) -> None:
        assert options.sched is not None
        core = gpu.core
        self.number = number
        self.counts = zero_counters(SM_COUNTERS)
        self._sectored = has_sector_masks(gpu)
        self._sized = self._sectored or gpu.crossbar.packets == "coalesced"
        cache = l1_config(gpu.l1, options.policies)
        if self._sectored:
            self.l1: L1 = SectoredL1(cache, self.counts)
        else:
            self.l1 = L1(cache, self.counts, packet_bytes(gpu) if self._sized else None)
        self.plugins = SmPlugins(number, self.l1, plugins)
        self.admission = make_admission(
            self.l1, options.policies, plugins, self.plugins, allocate_on_miss=cache.allocate == "miss"
        )
        self.responses: deque[Response] = deque()
        reordering = policy_of_kind(options.policies, "reordering")
        if isinstance(reordering, MRPB):
            self.ldst: LoadStoreUnit = PrioritizationBuffer(
                self._attempt, reordering, slots, block_warps, gpu.l1.tags_per_step
            )
        else:
            self.ldst = LoadStoreUnit(self._attempt, gpu.l1.tags_per_step)
        self.residents: list[MachineResidentBlock | None] = [None] * slots
        self.last_end = -1
        self._core = core
        self._l1_config = cache
        self._throttle = throttle
        self.l1.on_evict.append(lambda way: throttle.on_evict(number, way))
        self._log = log
        self._block_warps = block_warps
        self._warps_begun = 0
        self._first_scheduler = 0
        self._hits: deque[tuple[int, Transaction]] = deque()
        warp_slots = range(slots * block_warps)
        self._schedulers = [
            Scheduler(options.sched, core.schedulers, len(warp_slots[s :: core.schedulers]), core.fetch_group)
            for s in range(core.schedulers)
        ]

    def take_message(self) -> Message:
        """Remove the first message from the miss queue, and count it."""
        message = self.l1.miss_queue.popleft()
        kind = "write" if message.write else "read"
        self.counts[f"{kind}_messages"] += 1
        if self._sized:
            self.counts[f"{kind}_sectors"] += message.sectors.bit_count()
        return message

    # Phases S1 to S4; the memory system runs S5.

    def step(self, now: int) -> None:
        """Run phases S1 to S4 of cycle `now`."""
        self._fill(now)
        self._return_hits(now)
        self.ldst.step(now)
        self._issue(now)

    def _fill(self, now: int) -> None:
        """S1: take the responses that have arrived."""
        while self.responses and self.responses[0].time <= now:
            arrival, line, bypass, sectors, block, sent, hint = self.responses.popleft()
            if block is not None:
                self.counts["acknowledgements"] += 1
                self.l1.unacknowledged[block] -= 1
                continue
            self._throttle.on_answer(self.number, arrival - sent)
            if bypass is not None:
                bypass.warp.receive(bypass.number)
                continue
            self._log.record("fill", now, self.number, line, *self._masks(sectors))
            first = self.l1.first_waiting(line, sectors)
            self.plugins.claim(line, first.warp, first.instruction.pc, present=IN_FLIGHT)
            if hint:
                self.admission.on_hint()
            for transaction in self.admission.fill(line, sectors):
                transaction.warp.receive(transaction.number)

    def _return_hits(self, now: int) -> None:
        """S2: return the data of transactions that hit `hit_latency` cycles ago."""
        while self._hits and self._hits[0][0] <= now:
            _, transaction = self._hits.popleft()
            transaction.warp.receive(transaction.number)

    def _attempt(self, queued: QueuedInstruction, line: int, now: int) -> bool:
        """Let a transaction access the L1 (part of S3) and count the result; return whether it was served."""
        outcome = self._access(queued, line, now)
        if not is_served(outcome):
            self.counts[outcome] += 1
            return False
        self.counts["transactions"] += 1
        mask = sectors_of(queued)[0]
        if outcome in ("hit", "pending", "miss"):
            mask = self.l1.returns(outcome).missing
        self._log.record("access", now, self.number, line, L1_OUTCOMES.index(outcome), *self._masks(mask))
        self._return_hits(now)
        queued.served += 1
        if queued.served == len(queued.instruction.lines):
            queued.warp.queued -= 1
            self.admission.on_instruction_served(queued.warp, queued.instruction)
        return True

    def _access(self, queued: QueuedInstruction, line: int, now: int) -> L1Outcome | L1Failure:
        """Let a transaction access the L1; the data of a hit or a pending hit follows after `hit_latency`."""
        warp, number, instruction = queued.warp, queued.number, queued.instruction
        if instruction.op != Op.LOAD:
            self.plugins.claim(line, warp, NO_LOAD, store=True)
            return self.plugins.store(instruction, line, *sectors_of(queued))
        sectors, _ = sectors_of(queued)
        transaction = Transaction(warp, number, line, instruction, queued.served, queued.allocating, sectors)
        space = Space.LOCAL if instruction.local else Space.GLOBAL
        if not looks_into_l1(self._l1_config, space, instruction.cache_op):
            return self.l1.bypass(transaction)
        absent = self.l1.is_absent(line)
        self.plugins.claim(line, warp, instruction.pc)
        outcome = self.admission.load(transaction)
        if not is_served(outcome):
            return outcome
        self.plugins.on_load(outcome, absent=absent)
        self._throttle.on_load(self.number, transaction, len(self._active()), self.counts, absent=absent)
        returns = self.l1.returns(outcome)
        if returns.found:
            self._hits.append((now + self._core.hit_latency, transaction))
        # One return was counted at issue. A pending hit, for one, waits for two: the fill and the hit latency.
        warp.loads[number] += returns.fills + returns.found - 1
        return outcome

    def _masks(self, mask: int) -> tuple[int, ...]:
        """Return the mask for the log, which has masks only where lines have sectors."""
        return (mask,) if self._sectored else ()

    def _issue(self, now: int) -> None:
        """S4: let every scheduler issue from at most one warp, in a circle that begins with `core.first_scheduler`."""
        active = self._active()
        self._throttle.before_issue(self.number, active)
        issued_before = self.counts["warp_instructions"]
        count = len(self._schedulers)
        first = now if self._core.first_scheduler == "cycle" else self._first_scheduler
        for turn in range(first, first + count):
            scheduler = turn % count
            room = len(self.ldst.queue) < self._core.ldst_queue
            own = [warp for warp in active if warp.slot % count == scheduler]
            ready = [warp for warp in own if warp.can_issue(now, room=room)]
            permits = self._permits(ready, own) if ready else {}
            issuable = [warp for warp in ready if permits[warp] != Permit.WAIT or not warp.loads_next]
            if issuable:
                warp = self._throttle.choose(self.number, self._schedulers[scheduler], issuable)
                self._issue_from(warp, permits[warp], now)
                self._throttle.on_issue(self.number, warp)
        issued = self.counts["warp_instructions"] > issued_before
        self._throttle.after_issue(self.number, now, self._active(), issued=issued)

    def _permits(self, warps: list[Warp], active: list[Warp]) -> dict[Warp, Permit]:
        """Return the permits of some of the active warps of a scheduler."""
        by_age = sorted(active, key=lambda warp: warp.age)
        return {warp: self._throttle.permit(self.number, warp, by_age.index(warp)) for warp in warps}

    def _issue_from(self, warp: Warp, permit: Permit, now: int) -> None:
        instruction = warp.next_instruction
        assert instruction is not None
        self.counts["warp_instructions"] += 1
        self.counts["thread_instructions"] += instruction.lanes
        if warp.gap_left:
            warp.gap_left -= 1
            warp.rests_until = now + self._core.alu_latency
            kind = NON_MEMORY
        elif instruction.op == Op.BARRIER:
            warp.at_barrier = True
            warp.go_to(warp.position + 1)
            kind = BARRIER
        else:
            self._enter(warp, instruction, allocating=permit != Permit.PASS)
            warp.go_to(warp.position + 1)
            kind = MEMORY
        self._log.record("issue", now, self.number, warp.slot, kind)

    def _enter(self, warp: Warp, instruction: MachineInstruction, *, allocating: bool) -> None:
        """Number a memory instruction, and append it to the load/store queue if it has transactions."""
        number = warp.memory_instructions
        warp.memory_instructions += 1
        self.admission.on_issue(instruction)
        if instruction.lines:
            self._first_scheduler = warp.slot % len(self._schedulers) + 1
            self.ldst.queue.append(QueuedInstruction(warp, number, instruction, allocating))
            warp.queued += 1
            if instruction.op == Op.LOAD:
                warp.loads[number] = len(instruction.lines)

    def _active(self) -> list[Warp]:
        """Return the warps that have not ended and do not wait at a barrier, in the order of their slots."""
        live = [warp for resident in self.residents if resident is not None for warp in resident.live]
        return [warp for warp in live if not warp.at_barrier]

    # Phases E1 to E3: barriers, ends and dispatch.

    @property
    def resident(self) -> int:
        """The number of blocks on the SM."""
        return sum(resident is not None for resident in self.residents)

    def settle(self, now: int) -> None:
        """Release barriers and end warps and blocks (E1, E2)."""
        for slot, resident in enumerate(self.residents):
            if resident is None:
                continue
            while self._release(resident) or self._end_warps(resident):
                pass
            if not resident.live and not self._awaits_acknowledgements(resident.block):
                self._end(slot, resident.block, now)

    def _awaits_acknowledgements(self, block: int) -> bool:
        return self._core.store_acks and self.l1.unacknowledged[block] > 0

    def _release(self, resident: MachineResidentBlock) -> bool:
        if not resident.live or not all(warp.at_barrier for warp in resident.live):
            return False
        for warp in resident.live:
            warp.at_barrier = False
        return True

    def _end_warps(self, resident: MachineResidentBlock) -> bool:
        ended = [warp for warp in resident.live if warp.finished]
        for warp in ended:
            resident.live.remove(warp)
            self._throttle.on_warp_end(self.number, warp)
            self.admission.on_warp_end(warp)
            self.plugins.on_warp(warp, began=False)
        return bool(ended)

    def _end(self, slot: int, block: int, now: int) -> None:
        self._log.record("end", now, self.number, slot, block)
        self.residents[slot] = None
        self._throttle.on_block_end(self.number, block)
        self.last_end = now

    def begin(self, slot: int, number: int, block: MachineBlock, now: int) -> None:
        """Start block `number` of the grid in a free slot (E3); a block without instructions ends at once."""
        self._log.record("begin", now, self.number, slot, number)
        self.counts["blocks"] += 1
        first_slot, first_age = slot * self._block_warps, self._warps_begun
        warps = [Warp(first_slot + i, first_age + i, Owner(number, i), block[i]) for i in range(len(block))]
        self._warps_begun += len(warps)
        resident = MachineResidentBlock(number, [warp for warp in warps if warp.program])
        self.residents[slot] = resident
        self._throttle.on_block_begin(self.number, number)
        for warp in resident.live:
            self._throttle.on_warp_begin(self.number, warp)
            self.admission.on_warp_begin(warp)
            self.plugins.on_warp(warp, began=True)
        if not resident.live:
            self._end(slot, number, now)

    def check_drained(self) -> None:
        """Assert that the SM is empty and that its counters add up."""
        assert all(resident is None for resident in self.residents)
        assert self.ldst.empty and not self._hits and not self.responses
        assert self.l1.idle
        assert all(way.state != "reserved" for way in self.l1.ways)
        causes = ("compulsory", "capacity", "associativity")
        if self._sectored:
            reads: tuple[str, ...] = ("tag_misses", "sector_misses", "bypassed")
            looked_up = ("hits", "pending_hits", *causes)
            assert self.counts["sectors"] == sum(self.counts[name] for name in looked_up)
        else:
            reads = (*causes, "bypassed")
            served = ("hits", "pending_hits", *causes, "writes", "bypassed")
            assert self.counts["transactions"] == sum(self.counts[name] for name in served)
        assert self.counts["read_messages"] == sum(self.counts[name] for name in reads)


def sectors_of(queued: QueuedInstruction) -> tuple[int, int]:
    """Return masks of the sectors that the next transaction asks for and of those that it writes in full."""
    instruction, place = queued.instruction, queued.served
    return (instruction.sectors[place], instruction.full[place]) if instruction.sectors else (1, 1)
