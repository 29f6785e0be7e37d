"""Compare the results of both engines with recorded ones, bit for bit.

A golden record answers one question: did a change of the code change any result? It covers the 30 kernels of
PolyBench/GPU under four engines: the model with either definition (``hardware``, ``paper``), the model with all SMs
and a shared L2 (``l2``), and the simulator. ``digests.csv`` has the SHA-256 of all counters of each of the 120
results, with two counters that a person can read. Times and configurations are left out of the digest.

Commands, from a checkout::

    python -m validation.golden                      compare all results; exit with status 1 if any differs
    python -m validation.golden --kernels gemm syrk  compare some kernels
    python -m validation.golden --engines simulator  compare one engine
    python -m validation.golden --record             renew the record

Run the comparison after every change that must not change results, such as a faster data structure. Renew the record
only with a change that is meant to change results, and say in its commit message which counters moved and why. The
other validations say whether results are *right*; this one says whether they are the *same*. All random numbers come
from generators with a seed, so that equal code gives equal results.
"""
