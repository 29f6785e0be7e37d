"""Validation of `rdmodel.time` on measured times of complete tuning spaces: how good are the configurations it chooses?

The times are of the FAIR benchmark hub for auto-tuning (AutoTuningAssociation/benchmark_hub), as is their kernels'
source, which stays outside of this repository. ``python -m validation.tuning`` writes the page from the recorded
predictions; ``--sources DIR`` predicts again, with the folder ``kernels`` of the hub.
"""
