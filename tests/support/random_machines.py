"""Draw random machines and programs for the simulators, and drive the compiled engine step by step, with its log."""

from dataclasses import dataclass, replace

import numpy as np

from rdmodel.gpu.cache import OWN_DATA
from rdmodel.gpu.config import GPU, CacheConfig, CoreConfig
from rdmodel.gpu.memory import CrossbarConfig, DramConfig, L2Config
from rdmodel.gpu.served_loads import looks_into_l1, serves_all_loads
from rdmodel.policies import (
    ABYP,
    APCM,
    CCA,
    CCWS,
    DAWS,
    DWTCS,
    DYNCTA,
    MRPB,
    OWL,
    PCAL,
    PD,
    PDP,
    SWL,
    BypassAll,
    BypassOnStall,
    GCache,
    LatencyLimit,
    LazyCTA,
    Linear,
    PMod,
    StreamingBypass,
)
from rdmodel.reference.machine import MachineInstruction
from rdmodel.simulator import _engine, _inspection, machine
from rdmodel.simulator.options import has_sector_masks
from rdmodel.trace import Op, Space
from rdmodel.trace.cache_ops import CacheOp
from rdmodel.trace.coalescing import LOCAL, LOOP_EXIT, PASSES_L1, Chunk

KINDS = ("issue", "access", "fill", "slice", "dram", "begin", "end")


def random_gpu(random, line=128, **parts):
    """Return a small machine with limits that programs reach; `parts` are changes by part: l1={...}."""
    ways, sets = int(random.integers(1, 5)), int(2 ** random.integers(0, 3))
    pick = lambda *values: values[random.integers(len(values))]  # noqa: E731
    slices, l2_ways = int(random.integers(1, 4)), int(random.integers(1, 5))
    gpu = GPU(
        name="random",
        sms=1,
        max_threads=1536,
        max_blocks=8,
        max_warps=48,
        clock=pick(700, 700, 600, 1000),
        l1=CacheConfig(
            size=ways * sets * line,
            ways=ways,
            line=line,
            index=pick(Linear(), PMod()) if sets > 1 else Linear(),
            mshrs=pick(None, 1, 2, 3, 8),
            mshr_merge=pick(None, 1, 2, 4),
            mshr_per_warp=pick(None, None, 1, 2),
            allocate=pick("miss", "miss", "fill"),
            miss_queue=pick(1, 2, 8),
        ),
        core=CoreConfig(
            schedulers=pick(1, 2, 3, 4),
            sched=pick("lrr", "gto", "two-level", "old", "gty"),
            fetch_group=pick(1, 2, 3, 8),
            ldst_queue=pick(1, 1, 2, 4),
            hit_latency=pick(0, 1, 5, 20),
            first_scheduler=pick("fair", "fair", "cycle"),
        ),
        crossbar=CrossbarConfig(clock=pick(700, 1400, 500, 1000), width=pick(32, 8, 200), latency=pick(0, 1, 8)),
        l2=L2Config(
            clock=pick(700, 700, 350, 1400, 900),
            slices=slices,
            size=l2_ways * line * int(2 ** random.integers(0, 3)),
            ways=l2_ways,
            mshrs=pick(None, 1, 2, 8),
            mshr_merge=pick(None, 1, 2),
            queue=pick(1, 2, 64),
            latency=pick(0, 3, 20),
            dirty_ways=pick(None, None, 1, 2),
        ),
        dram=DramConfig(
            clock=pick(924, 700, 350, 1500),
            banks=pick(1, 2, 4),
            row=line * pick(1, 2, 4),
            queue=pick(1, 2, 8),
            width=pick(32, 64, 128),
            latency=pick(0, 10),
            **{name: int(random.integers(0, most)) for name, most in TIMINGS.items()},
        ),
    )
    return changed(with_shared_data(gpu, random), **parts)


def with_shared_data(gpu, random):
    """In a fourth of the cases, let the ways be tags alone and some fewer lines have data."""
    if random.integers(4):
        return gpu
    return gpu.replace(l1=replace(gpu.l1, **shared_data(gpu.l1, random)))


def shared_data(l1, random):
    """Return fields of an L1 with which its ways are tags alone, and at most as many lines have data."""
    pools = int(random.choice([each for each in (1, 2, 4) if each <= l1.sets]))
    return {
        "size": pools * int(random.integers(1, l1.lines // pools + 1)) * l1.line,
        "tag_sets": l1.sets,
        "reserved": 0,
        "pools": pools,
        "protected": int(random.integers(l1.ways + 1)),
    }


def random_sectored_gpu(random, line=128, **parts):
    """Return a small machine whose lines have sectors, or whose stores at least write in place."""
    pick = lambda *values: values[random.integers(len(values))]  # noqa: E731
    sector = pick(32, 32, 32, 64, 128, 4)
    fetch = sector * pick(1, 1, 2, 4)
    hashed = bool(pick(False, True))
    sectored = {
        "l1": {
            "sector": sector,
            "tags_per_step": pick(1, 1, 2, 4),
            "stores": pick("through", "through", "update"),
            "caches": pick(*[("global", "local", "nc")] * 6, ("local", "nc"), ("global",)),
            "dlcm": pick(None, None, None, "ca", "cg"),
            "allocate": pick("miss", "miss", "fill"),
        },
        "l2": {"sector": sector, "fetch": min(fetch, line), "index": "hash" if hashed else "linear"},
    }
    if hashed:
        sectored["l2"]["slices"] = pick(1, 2, 3, 4, 5)
    return changed(changed(random_gpu(random, line), **sectored), **parts)


def random_partitioned_gpu(random, line=128, **parts):
    """Return a small machine whose L2 has two or three partitions of one to three slices."""
    pick = lambda *values: values[random.integers(len(values))]  # noqa: E731
    partitions = pick(2, 2, 3)
    l2 = {
        "partitions": partitions,
        "slices": partitions * pick(1, 1, 2, 3),
        "partition_latency": pick(0, 0, 1, 7, 40),
    }
    return changed(changed(random_sectored_gpu(random, line), l2=l2), **parts)


def changed(gpu, **parts):
    """Return a machine with fields of its parts changed; the L1 may be given as sets instead of a size."""
    for name, changes in parts.items():
        old = getattr(gpu, name)
        if "sets" in changes:
            changes = dict(changes)
            changes["size"] = changes.pop("sets") * changes.get("ways", old.ways) * gpu.l1.line
            changes |= OWN_DATA
        gpu = gpu.replace(**{name: replace(old, **changes)})
    return gpu


def random_policies(random):
    """Return policies of different kinds, small enough to act in small programs: mostly one or two, seldom more."""
    pick = lambda *values: values[random.integers(len(values))]  # noqa: E731
    drain, stalls = pick("fixed", "round-robin", "longest"), ("associativity", "all")
    period = lambda: int(random.integers(20, 200))  # noqa: E731
    tokens = int(random.integers(0, 3))
    throttling = (
        SWL(warps=pick(1, 2, 3)),
        PCAL(tokens=tokens, extra=int(random.integers(not tokens, 3))),
        DWTCS(
            period=period(),
            mpki=pick(0.0, 1.0, 10.0, 30.0),
            confirm=pick(1, 1, 2, 3),
            sample=pick(1, 1, 2),
            limit=pick(None, None, None, 2),
        ),
        random_ccws(random),
        random_dyncta(random),
        random_latency_limit(random),
        random_lazy_cta(random),
        random_owl(random),
        CCA(period=int(random.integers(10, 100)), gain=float(random.choice([0.0, 0.0, 0.1, 1.0]))),
        random_daws(random),
    )
    admission = (
        BypassAll(),
        BypassOnStall(on=pick(*stalls)),
        StreamingBypass(period=period(), threshold=pick(0.0, 0.3, 0.6, 0.9), caches=pick("both", "l1", "l2")),
        PD(distance=pick(1, 2, 4, 8), counts=pick("set", "set", "cache"), since=pick("use", "use", "allocation")),
        random_pdp(random),
        random_abyp(random),
        random_apcm(random),
        random_g_cache(random),
    )
    reordering = MRPB(
        signature=pick("warp", "block", "warp-in-block"),
        drain=pick("", "greedy-") + drain,
        flush=pick(True, False),
        entries=pick(1, 2, 4, 8, None),
        latency=pick(0, 1, 5),
        bypass=pick(None, *stalls),
    )
    chosen = [policy for policy in (pick(*throttling), pick(*admission), reordering) if random.random() < 0.5]
    return tuple(chosen[i] for i in random.permutation(len(chosen)))


def random_ccws(random):
    ways = int(random.integers(1, 4))
    entries = ways * int(random.integers(1, 4))
    base, throttle = random.choice([1, 5, 20, 100]), random.choice([1, 8, 100])
    return CCWS(base=int(base), throttle=int(throttle), entries=entries, ways=ways)


def random_daws(random):
    return DAWS(
        share=float(random.choice([0.0, 0.3, 0.6, 1.0])),
        reuse=float(random.choice([0.0, 0.1, 0.3, 0.5])),
        converged=int(random.integers(1, 4)),
        loads=int(random.choice([1, 3, 6, 64])),
    )


def random_dyncta(random):
    low, high = sorted(int(random.integers(0, 60)) for _ in range(2))
    return DYNCTA(period=int(random.integers(10, 100)), idle=int(random.choice([0, 5, 20, 100])), low=low, high=high)


def random_latency_limit(random):
    low, high = sorted(float(random.choice([1.0, 1.1, 1.5, 2.5])) for _ in range(2))
    return LatencyLimit(
        period=int(random.integers(5, 80)),
        high=high,
        low=low,
        lost=float(random.choice([0.0, 0.0, 0.2, 0.5])),
        step=int(random.integers(1, 4)),
    )


def random_pdp(random):
    return PDP(
        period=int(random.integers(5, 150)), most=int(random.choice([1, 3, 16, 64])), every=int(random.integers(1, 4))
    )


def random_lazy_cta(random):
    lcs, baws = (bool(random.integers(2)) for _ in range(2))
    return LazyCTA(lcs=lcs, group=int(random.choice([1, 2, 2, 3, 9])), baws=baws)


def random_owl(random):
    locality, blp = (bool(random.integers(2)) for _ in range(2))
    return OWL(group=int(random.choice([1, 2, 3, 5, 99])), locality=locality, blp=blp)


def random_abyp(random):
    most = int(random.integers(1, 5))
    return ABYP(entries=int(random.choice([1, 2, 8])), most=most, threshold=int(random.integers(1, most + 1)))


def random_apcm(random):
    tags, loads = random.choice([1, 2, 4, 32]), random.choice([1, 3, 16])
    mode = str(random.choice(["both", "both", "bypass", "protect"]))
    return APCM(mode=mode, tags=int(tags), loads=int(loads), most=int(random.choice([2, 3, 15])))


def random_g_cache(random):
    return GCache(
        period=int(random.integers(20, 300)), sharers=int(random.integers(1, 4)), heat=int(random.choice([1, 2, 3, 7]))
    )


TIMINGS = {"tcl": 8, "trp": 6, "trc": 20, "tras": 15, "trcd": 8, "trrd": 6}
NEEDS = (0, 1, 2, 3, 2**63, 2**64 - 1)
OPS = (Op.LOAD, Op.LOAD, Op.LOAD, Op.STORE, Op.ATOMIC, Op.BARRIER)


@dataclass(frozen=True)
class Mix:
    """Distribution of random warps.

    Warps have fewer than `most` instructions of at most `widest` transactions to lines of `pool` (None: a few random
    lines), and `barriers` barriers in addition. There are `pcs` program counters; the share `exits` of instructions
    leaves a loop. With `sectors`, lines have that many (or messages pieces): transactions ask for some, often for all.
    """

    most: int = 12
    widest: int = 6
    pool: tuple = None
    ops: tuple = OPS
    local: float = 0.3
    needs: tuple = NEEDS
    gaps: tuple = (0, 0, 1, 5)
    empty: float = 0.2
    barriers: int = 0
    pcs: int = 6
    exits: float = 0.2
    sectors: int = 0
    cache_ops: tuple = (0, 0, 0, 0, CacheOp.CA, CacheOp.CG, CacheOp.CV)


MIX = Mix()


def random_blocks(random, blocks, warps, mix=MIX):
    """Return random blocks; without ``mix.barriers`` their warps do not meet the same number of barriers."""
    pool = range(int(random.integers(2, 40))) if mix.pool is None else mix.pool
    return [[random_warp(random, pool, mix) for _ in range(warps)] for _ in range(blocks)]


def random_warp(random, pool, mix):
    warp = [random_instruction(random, pool, mix) for _ in range(int(random.integers(0, mix.most)))]
    for _ in range(mix.barriers):
        warp.insert(int(random.integers(len(warp) + 1)), random_instruction(random, pool, replace(mix, ops=BARRIERS)))
    return warp


BARRIERS = (Op.BARRIER,)


def random_instruction(random, pool, mix):
    pick = lambda values: values[random.integers(len(values))]  # noqa: E731
    op = int(pick(mix.ops))
    # Two groups of lanes may want the same line.
    most, twice = int(random.integers(1, mix.widest + 1)), bool(random.random() < 0.2)
    lines = random.choice(len(pool), size=most if twice else min(len(pool), most), replace=twice)
    served_elsewhere = op == Op.BARRIER or (op != Op.LOAD and random.random() < mix.empty)
    chosen = () if served_elsewhere else tuple(pool[i] for i in lines)
    masks = [random_masks(random, mix.sectors) for _ in chosen] if mix.sectors else []
    return MachineInstruction(
        op=op,
        local=bool(op != Op.BARRIER and random.random() < mix.local),
        needs=pick(mix.needs),
        gap=pick(mix.gaps),
        lanes=int(random.integers(1, 33)),
        lines=chosen,
        pc=int(random.integers(mix.pcs)),
        loop_exit=bool(random.random() < mix.exits),
        sectors=tuple(asked for asked, _ in masks),
        full=tuple(full for _, full in masks),
        cache_op=int(pick(mix.cache_ops)) if op == Op.LOAD else 0,
    )


def random_masks(random, sectors):
    """Return the sectors that a transaction asks for, and those of them that it writes in full."""
    everything = (1 << sectors) - 1
    asked = everything if random.random() < 0.3 else int(random.integers(1, everything + 1))
    return asked, asked if random.random() < 0.5 else asked & int(random.integers(everything + 1))


MAX_CYCLES = 200_000
"""More cycles than any program of a test takes."""


MACHINES = {"lines": random_gpu, "sectors": random_sectored_gpu, "partitions": random_partitioned_gpu}
"""Functions that draw a GPU, by the kind of its lines."""


def mixed(gpu, kind, **fields):
    """Return a mix of instructions for a GPU that `MACHINES` drew, with masks of sectors if it has sectors."""
    return Mix(sectors=0 if kind == "lines" else gpu.l1.sectors, **fields)


class Driven:
    """The compiled engine on given blocks, which it gets in pieces of random length.

    It runs to the end, or until `stop(machine)`, which is called every few cycles, returns true. `previous` is the
    finished run of the launch before, whose lines it finds in the L2.
    """

    def __init__(self, blocks, gpu, options, slots, block_warps, random=None, stop=None, previous=None):
        operators = any(i.cache_op for block in blocks for warp in block for i in warp)
        self.l1 = gpu.l1
        bypasses = operators or not serves_all_loads(gpu.l1)
        self.machine = machine.make_machine(gpu, options, slots, block_warps, bypasses=bypasses, log=True)
        if previous is not None:
            self.machine.take_lines(previous.machine)
        self.sms, self.slices = options.sms, 0 if options.memory is not None else gpu.l2.slices
        self.blocks, self.block_warps = blocks, block_warps
        self.sectored = has_sector_masks(gpu)
        self.sized = self.sectored or gpu.crossbar.packets == "coalesced"
        self.random = random or np.random.default_rng(0)
        self.begun = 0
        self.left = {}
        while (wanted := self.machine.run(int(self.random.integers(1, 20)))) != _engine.DONE:
            sm, subject = self.machine.subject_sm, self.machine.subject
            assert wanted != _engine.STUCK, self.machine.waiting_for()
            if wanted == _engine.WANT_CHUNK:
                self.feed(sm, subject)
            elif wanted == _engine.WANT_BLOCK:
                self.give(sm, subject)
            else:
                assert self.machine.violations() == []
                assert self.machine.now < MAX_CYCLES, "there is always something to do and nothing gets done"
                if stop is not None and stop(self.machine):
                    return
        assert self.machine.under_way() == []
        self.cycles = self.machine.last_end + 1

    def give(self, sm, slot):
        if self.begun == len(self.blocks):
            self.machine.decline_block(sm, slot)
            return
        self.machine.begin_block(sm, slot, self.begun)
        for i, instructions in enumerate(self.blocks[self.begun]):
            warp = slot * self.block_warps + i
            self.left[sm, warp] = list(instructions)
            while self.machine.starving(sm, warp):
                self.feed(sm, warp)
        self.begun += 1
        self.machine.start_block(sm, slot)

    def feed(self, sm, warp):
        left = self.left[sm, warp]
        n = int(self.random.integers(0, len(left) + 1))
        part, self.left[sm, warp] = left[:n], left[n:]
        lines = [line for instruction in part for line in instruction.lines]
        chunk = Chunk(n, len(lines), details=True, sector=1 if self.sized else None, full=self.sized)
        chunk.n, chunk.used = n, len(lines)
        chunk.op[:] = [i.op for i in part]
        chunk.needs[:] = [i.needs for i in part]
        chunk.gap[:] = [i.gap for i in part]
        chunk.count[:] = [len(i.lines) for i in part]
        chunk.lines[:] = lines
        chunk.pc[:] = [i.pc for i in part]
        chunk.lanes[:] = [i.lanes for i in part]
        chunk.flags[:] = [self.flags(i) for i in part]
        if self.sized:
            chunk.masks[:] = [mask for i in part for mask in i.sectors or (1,) * len(i.lines)]
            chunk.full[:] = [mask for i in part for mask in i.full or (1,) * len(i.lines)]
        self.machine.put_chunk(sm, warp, chunk, bool(self.left[sm, warp]) or bool(n))

    def flags(self, instruction):
        space = Space.LOCAL if instruction.local else Space.GLOBAL
        past = instruction.op == Op.LOAD and not looks_into_l1(self.l1, space, instruction.cache_op)
        return LOCAL * instruction.local + LOOP_EXIT * instruction.loop_exit + PASSES_L1 * past

    def log(self):
        """Return the log as the reference writes it."""
        return [entry(*event) for event in self.machine.events()]

    def sm_counters(self, i):
        """Return an SM's counters under the reference's names."""
        counts = dict(self.machine.sm_counters(i))
        fails = dict(zip(_inspection.FAIL_NAMES, counts.pop("fails"), strict=True))
        counts["cross_warp_intra_block"] = counts.pop("cross_warp")
        parts = ("hits", "pending_hits", "compulsory", "capacity", "associativity", "writes", "bypassed")
        lookups = counts.pop("lookups")
        counts["transactions"] = sum(counts[name] for name in parts)
        if self.sectored:
            counts["transactions"] = lookups + counts["writes"] + counts["bypassed"]
        return {**counts, **{f"fail_{name}": value for name, value in fails.items()}}

    def slice_counters(self, i):
        counts = dict(self.machine.slice_counters(i))
        names = ("line_alloc", "mshr_entry", "mshr_merge", "dram_queue")
        fails = dict(zip(names, counts.pop("fails"), strict=True))
        return {**counts, **{f"fail_{name}": value for name, value in fails.items()}}

    def channel_counters(self, i):
        return dict(self.machine.channel_counters(i))


def entry(kind, time, where, a, b, *masks):
    """Return one log entry as the reference writes it; `masks` has the mask of sectors, where lines have some."""
    name = KINDS[kind]
    if name == "fill":
        return (name, time, where, a, *masks)
    return (name, time, where, a, b, *(masks if name in ("access", "slice", "dram") else ()))
