"""The micro-benchmarks of Nugteren et al. (HPCA 2014, section 5), run on the simulated machine.

They recover a machine from timings alone: of a launch they see its cycles, of the configuration nothing.
``python -m validation.microbenchmarks`` from a checkout prints what they find next to what is configured;
``--record`` renews the committed record.
"""
