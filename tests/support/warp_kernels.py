"""Kernels of Warp; importing this module needs Warp. The annotations must be values, not texts."""

import warp as wp


@wp.kernel
def shift(a: float, field: wp.array2d(dtype=float), speed: wp.array(dtype=wp.vec3), gravity: wp.vec3):
    i, j = wp.tid()
    field[i, j] = field[i, j] * a + speed[i][1] + gravity[0]
