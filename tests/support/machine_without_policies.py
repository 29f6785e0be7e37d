"""Run hand-written programs on the cycle-by-cycle machine without policies."""

from __future__ import annotations

from rdmodel.reference.machine import simulate
from rdmodel.simulator.options import SimulationOptions
from tests.support.machine_programs import machine


def simulated(blocks, gpu=None, *, slots=1, sms=1, sched=None, memory=10):
    gpu = gpu or machine()
    options = SimulationOptions(sms=sms, sched=sched, memory=memory).resolve(gpu)
    return simulate(blocks, gpu, options, slots, max(map(len, blocks), default=1), log=True)


def one_warp(*instructions, gpu=None, memory=10):
    return simulated([[list(instructions)]], gpu, memory=memory)
