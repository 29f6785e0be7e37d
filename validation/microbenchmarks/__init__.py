"""Recover simulated machines from timings, by the micro-benchmarks of Nugteren et al. (HPCA 2014, section 5).

The micro-benchmarks see the cycles of a launch and nothing of the configuration. ``python -m
validation.microbenchmarks`` from a checkout prints the recovered numbers beside the configured ones; ``--record``
renews the committed record.
"""
