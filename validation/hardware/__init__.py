"""Compare the model with L1 miss rates measured on a GeForce GTX 570.

``python -m validation.hardware`` from a checkout prints the comparison, ``--source cuda`` the one from compiled code,
and ``--record`` renews the committed record. ``python -m validation.hardware.other_gpus`` does so for a Tesla K40c.
"""
