"""Take policies of users from compiled libraries, and policies and index functions from installed packages.

``rdmodel_policy.h`` is what a library is written against, and ``policy.pxd`` declares the same to Cython. `table` reads
what a library exports, `build` compiles one, and `entry_points` finds what installed packages offer.
"""
