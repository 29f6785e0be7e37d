"""Compare predictions for public benchmarks with counters of a Quadro GV100.

``python -m validation.counters --sources DIR`` traces the benchmarks' own sources, which are not part of this project,
with the launches in `launches/` and predicts every counter. `measured.csv` has the measured ones. They are means over
all launches of a kernel in the default run of the benchmark (accel-sim/accel-sim-framework@2260456,
util/accelwattch/accelwattch_hw_profiler/hw_perf.csv), collected with Nsight Compute, which empties the caches before
each launch.
"""
