"""Restate the analytical model in plain Python: readable and slow, the oracle of the compiled cores.

`paper` and `hardware` each model one SM as a generator. The generator yields the current time whenever a slot is free.
It is then sent a `Block`, or None when no blocks are left, and finally returns its `Counts`. `run` drives one SM,
`run_all` several SMs with one dispatcher. The oracle of the simulator is `rdmodel.reference.machine`.

>>> from rdmodel.gpu.config import CacheConfig
>>> from rdmodel.model.options import Options
>>> from rdmodel.policies import Linear
>>> cache = CacheConfig(size=1024, ways=2, index=Linear())
>>> options = Options(definition="paper", lat_min=100, sigma=0.0, hit_latency=0)
>>> load = Instruction(op=0, needs=0, gap=0, lines=(7, 8))
>>> counts = run(paper(cache, options, 1, iter([0, 0])), [[[load, load]]])
>>> counts.transactions, counts.hits, counts.compulsory
(4, 2, 2)
"""

from rdmodel.reference.model.blocks import SM, Block, Instruction, run, run_all
from rdmodel.reference.model.hardware import hardware
from rdmodel.reference.model.l2 import SharedL2Counts, shared_l2
from rdmodel.reference.model.paper import paper
from rdmodel.reference.model.record import Counts, Effect, L2Request, Log, Try
from rdmodel.reference.model.stack import ReuseStack
from rdmodel.reuse.histogram import INFINITE

__all__ = [
    "INFINITE",
    "SM",
    "Block",
    "Counts",
    "Effect",
    "Instruction",
    "L2Request",
    "Log",
    "ReuseStack",
    "SharedL2Counts",
    "Try",
    "hardware",
    "paper",
    "run",
    "run_all",
    "shared_l2",
]
