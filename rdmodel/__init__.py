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

from rdmodel import policies, presets
from rdmodel.config import GPU, CacheConfig, LatencyConfig, Options
from rdmodel.distance import DistanceStream, histogram, miss_ratio_curve, reuse_distances
from rdmodel.errors import ConfigError, LaunchError, RdmodelError, SimulationError, TraceError
from rdmodel.histogram import Histogram, MissRatioCurve
from rdmodel.model import predict
from rdmodel.result import Ablation, MissCounts, Prediction, SmCounts
from rdmodel.storage import load, save
from rdmodel.trace import ArrayInfo, Columns, Launch, Op, Segment, Space, Trace
from rdmodel.version import __version__

__all__ = [
    "GPU",
    "Ablation",
    "ArrayInfo",
    "CacheConfig",
    "Columns",
    "ConfigError",
    "DistanceStream",
    "Histogram",
    "LatencyConfig",
    "Launch",
    "LaunchError",
    "MissCounts",
    "MissRatioCurve",
    "Op",
    "Options",
    "Prediction",
    "RdmodelError",
    "Segment",
    "SimulationError",
    "SmCounts",
    "Space",
    "Trace",
    "TraceError",
    "__version__",
    "histogram",
    "load",
    "miss_ratio_curve",
    "policies",
    "predict",
    "presets",
    "reuse_distances",
    "save",
]
