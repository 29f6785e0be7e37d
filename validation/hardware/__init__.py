"""L1 miss rates measured on a GeForce GTX 570, and what the model says of the same launches.

``python -m validation.hardware`` from a checkout prints the comparison, ``--source cuda`` that from compiled code;
``--record`` renews the committed record. ``python -m validation.hardware.other_gpus`` is about a Tesla K40c.
"""
