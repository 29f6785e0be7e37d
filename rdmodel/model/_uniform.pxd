# The uniform numbers of a NumPy generator, continued from its state: PCG64 (O'Neill 2014), as `Generator.random` draws.
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    typedef unsigned __int128 rdmodel_wide;
    typedef struct { rdmodel_wide state, step; } rdmodel_uniform;

    static inline rdmodel_uniform rdmodel_uniform_from(
        unsigned long long high, unsigned long long low, unsigned long long step_high, unsigned long long step_low
    ) {
        rdmodel_uniform u = {(rdmodel_wide) high << 64 | low, (rdmodel_wide) step_high << 64 | step_low};
        return u;
    }

    static inline double rdmodel_uniform_next(rdmodel_uniform* u) {
        const rdmodel_wide factor = (rdmodel_wide) 0x2360ED051FC65DA4ULL << 64 | 0x4385DF649FCCF645ULL;
        unsigned long long mixed;
        int turn;
        u->state = u->state * factor + u->step;
        mixed = (unsigned long long) (u->state >> 64) ^ (unsigned long long) u->state;
        turn = (int) (u->state >> 122);
        mixed = mixed >> turn | mixed << (-turn & 63);
        return (double) (long long) (mixed >> 11) * (1.0 / 9007199254740992.0);
    }
    """
    ctypedef struct Uniform "rdmodel_uniform":
        pass
    Uniform uniform_from "rdmodel_uniform_from"(
        uint64_t high, uint64_t low, uint64_t step_high, uint64_t step_low
    ) noexcept nogil
    double uniform_next "rdmodel_uniform_next"(Uniform* u) noexcept nogil
