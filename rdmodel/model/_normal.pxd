# The magnitudes of the normal numbers of a NumPy generator, as `Generator.standard_normal` draws them from its state.
from libc.stdint cimport int64_t, uint64_t

from rdmodel.model._uniform cimport Uniform

cdef extern from "ziggurat.h":
    """
    #include <math.h>
    #include "ziggurat.h"

    static inline double rdmodel_tail_of_normal(rdmodel_uniform* u) {
        for (;;) { /* Marsaglia 1964 */
            double x = -RDMODEL_TAIL_INVERSE * log1p(-rdmodel_uniform_next(u));
            double y = -log1p(-rdmodel_uniform_next(u));
            if (y + y > x * x)
                return RDMODEL_TAIL + x;
        }
    }

    static inline double rdmodel_normal_next(rdmodel_uniform* u) {
        for (;;) {
            uint64_t bits = rdmodel_uniform_bits(u);
            int layer = bits & 0xff;
            uint64_t draw = bits >> 9 & 0xfffffffffffffULL; /* bit 8 is the sign */
            double x = (double) (int64_t) draw * rdmodel_layers[layer].width;
            if (draw < rdmodel_layers[layer].inside)
                return x;
            if (layer == 0)
                return rdmodel_tail_of_normal(u);
            if ((rdmodel_layers[layer - 1].height - rdmodel_layers[layer].height) * rdmodel_uniform_next(u)
                + rdmodel_layers[layer].height < exp(-0.5 * x * x))
                return x;
        }
    }

    /* The nearest whole number, and of halves the even one: numbers this large have no halves. */
    static inline int64_t rdmodel_steps_next(rdmodel_uniform* u, double sigma) {
        const double large = 6755399441055744.0; /* 1.5 * 2^52 */
        volatile double sum = rdmodel_normal_next(u) * sigma + large;
        return (int64_t) (sum - large);
    }
    """
    int64_t steps_next "rdmodel_steps_next"(Uniform* u, double sigma) noexcept nogil
