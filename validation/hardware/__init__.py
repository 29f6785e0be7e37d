"""L1 miss rates measured on a GeForce GTX 570, and what the model says of the same launches.

``python -m validation.hardware`` from a checkout prints the comparison; ``--record`` renews the committed record.
"""
