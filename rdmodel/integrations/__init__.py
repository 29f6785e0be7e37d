"""Convert rankings of tiles to the forms of other tools, one module each: Triton, Kernel Tuner, PPCG and Optuna.

No module imports the tool that it serves.
"""
