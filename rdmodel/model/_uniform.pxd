# The uniform numbers of a NumPy generator, continued from its state: PCG64 (O'Neill 2014), as `Generator.random` draws.
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #include <stdint.h>

    typedef unsigned __int128 rdmodel_wide;
    typedef struct { rdmodel_wide state, step; } rdmodel_uniform;

    static inline rdmodel_uniform rdmodel_uniform_from(
        unsigned long long high, unsigned long long low, unsigned long long step_high, unsigned long long step_low
    ) {
        rdmodel_uniform u = {(rdmodel_wide) high << 64 | low, (rdmodel_wide) step_high << 64 | step_low};
        return u;
    }

    static inline void rdmodel_uniform_step(rdmodel_uniform* u) {
        const rdmodel_wide factor = (rdmodel_wide) 0x2360ED051FC65DA4ULL << 64 | 0x4385DF649FCCF645ULL;
        u->state = u->state * factor + u->step;
    }

    /* Begin with a state and a sequence, as PCG's srandom does. */
    static inline rdmodel_uniform rdmodel_uniform_seed(
        unsigned long long high, unsigned long long low, unsigned long long of_high, unsigned long long of_low
    ) {
        rdmodel_uniform u;
        u.step = ((rdmodel_wide) of_high << 64 | of_low) << 1 | 1;
        u.state = u.step + ((rdmodel_wide) high << 64 | low);
        rdmodel_uniform_step(&u);
        return u;
    }

    static inline void rdmodel_uniform_state(const rdmodel_uniform* u, uint64_t* halves) {
        halves[0] = (uint64_t) (u->state >> 64);
        halves[1] = (uint64_t) u->state;
        halves[2] = (uint64_t) (u->step >> 64);
        halves[3] = (uint64_t) u->step;
    }

    static inline unsigned long long rdmodel_uniform_bits(rdmodel_uniform* u) {
        unsigned long long mixed;
        int turn;
        rdmodel_uniform_step(u);
        mixed = (unsigned long long) (u->state >> 64) ^ (unsigned long long) u->state;
        turn = (int) (u->state >> 122);
        return mixed >> turn | mixed << (-turn & 63);
    }

    static inline double rdmodel_uniform_next(rdmodel_uniform* u) {
        return (double) (long long) (rdmodel_uniform_bits(u) >> 11) * (1.0 / 9007199254740992.0);
    }
    """
    ctypedef struct Uniform "rdmodel_uniform":
        pass
    Uniform uniform_from "rdmodel_uniform_from"(
        uint64_t high, uint64_t low, uint64_t step_high, uint64_t step_low
    ) noexcept nogil
    Uniform uniform_seed "rdmodel_uniform_seed"(
        uint64_t high, uint64_t low, uint64_t of_high, uint64_t of_low
    ) noexcept nogil
    void uniform_state "rdmodel_uniform_state"(const Uniform* u, uint64_t* halves) noexcept nogil
    double uniform_next "rdmodel_uniform_next"(Uniform* u) noexcept nogil


cdef inline Uniform uniform_of(state):
    # Continue from a state and an increment, as two halves of 64 bits each.
    return uniform_from(state[0], state[1], state[2], state[3])
