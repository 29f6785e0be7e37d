"""rdmodel: what a GPU's caches will do with a kernel, in seconds, from a script, without a GPU.

>>> import rdmodel as rd
>>> import tracegen
>>> trace = tracegen.kernel("atax.1", NX=512, NY=512)
>>> prediction = rd.predict(trace, gpu="gtx470-16k", threads=256)
>>> prediction.transactions
135168
>>> prediction.misses.compulsory
4112
>>> prediction.hits + prediction.latency_misses + prediction.misses.total == prediction.transactions
True

Reuse distances and miss-ratio curves of any stream of lines:

>>> rd.reuse_distances([0, 1, 0, 2, 0, 0, 1])
array([-1, -1,  1, -1,  1,  0,  2])
>>> rd.miss_ratio_curve([0, 1, 0, 2, 0, 0, 1], sizes=[2]).at(2)
0.5714285714285714
"""

from importlib import import_module
from typing import Any

# Names are fetched when first used, so that `import rdmodel` costs next to nothing; __init__.pyi tells type checkers.
_HOMES = {
    "rdmodel.answers": ("Answers",),
    "rdmodel.calibration": ("Calibration", "calibrate"),
    "rdmodel.classification": ("locality",),
    "rdmodel.combinations": ("Combination", "combination"),
    "rdmodel.comparing": ("compare",),
    "rdmodel.comparison": ("Agreement", "Comparison", "agreement"),
    "rdmodel.concentration": ("balance", "concentration_by_load", "intra_warp_concentration"),
    "rdmodel.config": ("GPU", "CacheConfig", "CoreConfig", "LatencyConfig"),
    "rdmodel.contests": ("Contest", "contest"),
    "rdmodel.distance": ("DistanceStream", "histogram", "miss_ratio_curve", "reuse_distances"),
    "rdmodel.errors": ("ConfigError", "LaunchError", "RdmodelError", "SimulationError", "TraceError"),
    "rdmodel.estimates": ("Estimate", "SampledCurve", "SampledHistogram"),
    "rdmodel.localities": ("Locality",),
    "rdmodel.measured": ("MeasuredComparison", "compare_measured"),
    "rdmodel.measurements": ("Measurement", "read_ncu"),
    "rdmodel.memory": ("CrossbarConfig", "DramConfig", "L2Config"),
    "rdmodel.model": ("predict",),
    "rdmodel.objectives": ("Roofline", "roofline"),
    "rdmodel.options": ("Options", "SimulationOptions"),
    "rdmodel.outcomes": ("Sweep", "SweepRow"),
    "rdmodel.quick": ("estimate",),
    "rdmodel.ranking": ("InfeasibleTile", "RankedTile", "Ranking"),
    "rdmodel.reports.making": ("report",),
    "rdmodel.reports.values": ("KernelReport", "Report"),
    "rdmodel.result": ("Ablation", "L2Prediction", "MissCounts", "Prediction", "SmCounts"),
    "rdmodel.reuse": ("Histogram", "MissRatioCurve"),
    "rdmodel.sectors": ("SectorCounts",),
    "rdmodel.simulation": (
        "Contention",
        "DramCounts",
        "L2Counts",
        "MissLatencies",
        "ReservationFails",
        "Simulation",
        "SmSimulation",
        "Traffic",
    ),
    "rdmodel.simulator": ("simulate",),
    "rdmodel.storage": ("load", "save"),
    "rdmodel.sweeps": ("sweep",),
    "rdmodel.tiling": ("rank_tiles",),
    "rdmodel.trace": ("ArrayInfo", "Columns", "Launch", "Op", "Segment", "Space", "Trace"),
    "rdmodel.version": ("__version__",),
}
_MODULES = ("policies", "presets")
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted([*_HOME, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"rdmodel.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'rdmodel' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
