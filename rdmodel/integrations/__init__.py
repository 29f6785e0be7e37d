"""Rankings of tiles in the forms of other tools, a module each: Triton, Kernel Tuner, PPCG and Optuna.

None of them imports the tool it is for.
"""
