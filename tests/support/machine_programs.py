"""Write programs for the cycle-by-cycle machine by hand, run them and read its log."""

from __future__ import annotations

from rdmodel.gpu.config import GPU, CacheConfig, CoreConfig
from rdmodel.gpu.memory import CrossbarConfig, DramConfig, L2Config
from rdmodel.policies import Linear
from rdmodel.reference.machine import MachineInstruction, simulate
from rdmodel.simulator.options import SimulationOptions
from rdmodel.trace import Op


def load(*lines, needs=0, gap=0, lanes=32, local=False):
    return MachineInstruction(Op.LOAD, local, needs, gap, lanes, lines)


def store(*lines, needs=0, gap=0, local=False):
    return MachineInstruction(Op.STORE, local, needs, gap, 32, lines)


def barrier(gap=0, needs=0):
    return MachineInstruction(Op.BARRIER, False, needs, gap, 32, ())


def machine(sets=2, ways=2, l1=(), core=(), crossbar=(), l2=(), dram=(), clock=700):
    """Return a GPU with small numbers; the timings of the DRAM have their defaults."""
    return GPU(
        name="test",
        sms=1,
        max_threads=1024,
        max_blocks=8,
        max_warps=32,
        clock=clock,
        l1=CacheConfig(size=128 * sets * ways, ways=ways, index=Linear(), **dict(l1)),
        core=CoreConfig(**{"schedulers": 1, "hit_latency": 3, **dict(core)}),
        crossbar=CrossbarConfig(**{"clock": 700, **dict(crossbar)}),
        l2=L2Config(**{"slices": 1, "size": 8192, "ways": 4, "latency": 0, **dict(l2)}),
        dram=DramConfig(**{"clock": 700, "latency": 0, **dict(dram)}),
    )


def logged(outcome, name):
    return [entry[1:] for entry in outcome.log if entry[0] == name]


def counted(outcome, *names, sm=0):
    return tuple(outcome.sms[sm][name] for name in names)


def simulated(blocks, *policies, gpu=None, slots=1, sms=1, sched=None, memory=10):
    gpu = gpu or machine()
    options = SimulationOptions(sms=sms, sched=sched, memory=memory, policies=policies).resolve(gpu)
    return simulate(blocks, gpu, options, slots, max(map(len, blocks), default=1), log=True)


def one_warp(*instructions, policies, gpu=None, memory=10):
    return simulated([[list(instructions)]], *policies, gpu=gpu, memory=memory)


def chain(*lines, pc=0):
    """Return loads of one line each; each load needs the load before it."""
    return [load_by(pc, line, needs=1) for line in lines]


def load_by(pc, *lines, leaves=False, **options):
    """Return a load with a program counter; `leaves`: the warp leaves the loop after it."""
    return load(*lines, **options)._replace(pc=pc, loop_exit=leaves)


def issued(outcome, sm=0):
    """Return (cycle, warp slot) of memory instructions."""
    return [(t, slot) for t, where, slot, kind in logged(outcome, "issue") if where == sm and kind == 1]


def accessed(outcome):
    """Return (cycle, line, outcome) of SM 0."""
    return [(t, line, what) for t, where, line, what in logged(outcome, "access") if where == 0]


def outcomes(outcome):
    return [what for *_, what in accessed(outcome)]
