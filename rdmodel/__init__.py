"""Predict and simulate the behaviour of a GPU's caches for a kernel launch, without a GPU.

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

from rdmodel.common.lazy_names import lazy_names

# Names are imported on first use, so that `import rdmodel` is fast; __init__.pyi declares them for type checkers.
_HOMES = {
    "rdmodel.answers.store": ("Answers",),
    "rdmodel.common.intervals": ("Estimate",),
    "rdmodel.comparison.calibrate": ("Calibration", "calibrate"),
    "rdmodel.comparison.compare": ("compare",),
    "rdmodel.comparison.counters": ("CounterComparison", "compare_counters"),
    "rdmodel.comparison.differences": ("Difference", "diff"),
    "rdmodel.comparison.measured": ("MeasuredComparison", "compare_measured"),
    "rdmodel.comparison.nsight": ("Measurement", "read_ncu"),
    "rdmodel.comparison.values": ("Agreement", "Comparison", "agreement"),
    "rdmodel.comparison.origin_changes": ("OriginChange",),
    "rdmodel.contests.contest": ("Contest", "contest"),
    "rdmodel.errors": ("ConfigError", "LaunchError", "RdmodelError", "SimulationError", "TraceError"),
    "rdmodel.estimation.estimate": ("estimate",),
    "rdmodel.gpu.cache": ("CacheConfig",),
    "rdmodel.gpu.config": ("GPU", "CoreConfig", "LatencyConfig"),
    "rdmodel.gpu.memory": ("CrossbarConfig", "DramConfig", "L2Config"),
    "rdmodel.locality_analysis.classify": ("locality",),
    "rdmodel.locality_analysis.concentration": ("balance", "concentration_by_load", "intra_warp_concentration"),
    "rdmodel.locality_analysis.values": ("Locality",),
    "rdmodel.model.options": ("Options",),
    "rdmodel.model.predict": ("predict",),
    "rdmodel.policies.combinations": ("Combination", "combination"),
    "rdmodel.reports.kernel_report": ("KernelReport",),
    "rdmodel.reports.report": ("Report",),
    "rdmodel.reports.build": ("report",),
    "rdmodel.results.counts": ("MissCounts", "SmCounts"),
    "rdmodel.results.expected_error": ("ExpectedError",),
    "rdmodel.results.origins": ("OriginCounts", "OriginRow", "Origins", "OriginTable"),
    "rdmodel.results.prediction": ("Ablation", "L2Prediction", "Prediction"),
    "rdmodel.results.simulation": (
        "Contention",
        "DramCounts",
        "L2Counts",
        "MissLatencies",
        "ReservationFails",
        "Simulation",
        "SmSimulation",
        "Traffic",
    ),
    "rdmodel.reuse.distance": ("DistanceStream", "histogram", "miss_ratio_curve", "reuse_distances"),
    "rdmodel.reuse.histogram": ("Histogram", "MissRatioCurve"),
    "rdmodel.reuse.sampled": ("SampledCurve", "SampledHistogram"),
    "rdmodel.simulator.options": ("SimulationOptions",),
    "rdmodel.simulator.sectors": ("SectorCounts",),
    "rdmodel.simulator.simulate": ("simulate", "simulate_launches"),
    "rdmodel.sweeps.sweep": ("sweep",),
    "rdmodel.sweeps.values": ("Sweep", "SweepRow"),
    "rdmodel.tiling.objectives": ("Roofline", "roofline"),
    "rdmodel.tiling.rank": ("rank_tiles",),
    "rdmodel.tiling.values": ("InfeasibleTile", "RankedTile", "Ranking"),
    "rdmodel.timing.launch_time": ("time",),
    "rdmodel.timing.values": ("TimeEstimate",),
    "rdmodel.trace": ("ArrayInfo", "Columns", "Launch", "Op", "Segment", "Space", "Trace"),
    "rdmodel.trace.storage": ("load", "save"),
    "rdmodel.version": ("__version__",),
}
"""Module of each public name."""

_MODULES = ("policies", "presets")
"""Public modules."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES, _MODULES)
