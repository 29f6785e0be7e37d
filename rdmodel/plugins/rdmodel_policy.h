/* Policies of rdmodel's simulated machine as compiled plug-ins (docs/plugins.md).
 *
 * A plug-in is a shared library that exports `rdmodel_policy_table`, which returns a description of one policy: its
 * name, its options, and its functions, any of which may be NULL. The machine keeps one state of the policy for each SM
 * and calls the functions with the state of the SM in question.
 *
 * Decisions (`admit`, `replace`, `permit`) must leave the state as it is and depend on nothing but their arguments,
 * because the machine asks again while an access waits and skips the cycles in which nothing happens. Events
 * (`loaded`, `replaced`, `began`, `ended`, `period_ended`) change the state. No pointer is valid after the call.
 */
#ifndef RDMODEL_POLICY_H
#define RDMODEL_POLICY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RDMODEL_POLICY_VERSION 1

/* Kinds of policies: a machine has at most one of each. */
enum {
    RDMODEL_ADMISSION = 1,    /* decides which loads use the L1, and which lines they replace */
    RDMODEL_THROTTLING = 2    /* decides which warps may issue loads */
};

/* Answers of `admit`. */
enum {
    RDMODEL_USE = 0,          /* the load uses the L1 */
    RDMODEL_USE_PRESENT = 1,  /* it uses a line that is valid or in flight; otherwise it bypasses the L1 */
    RDMODEL_BYPASS = 2        /* it bypasses the L1 */
};

/* Answers of `permit`. */
enum {
    RDMODEL_WAIT = 0,         /* the warp may issue no loads */
    RDMODEL_LOAD_PRESENT = 1, /* its loads use lines that are valid or in flight, and bypass the L1 otherwise */
    RDMODEL_LOAD = 2          /* it may issue loads */
};

/* Whether a line is in the L1. */
enum {
    RDMODEL_ABSENT = 0,
    RDMODEL_VALID = 1,        /* it has a way, and nothing of it is in flight */
    RDMODEL_IN_FLIGHT = 2
};

/* Outcomes of a load transaction. With sectors: of the sectors that it asks for, some miss; none misses and some are in
 * flight; or all are there. */
enum {
    RDMODEL_HIT = 0,
    RDMODEL_PENDING_HIT = 1,
    RDMODEL_MISS = 2,
    RDMODEL_BYPASSED = 3
};

/* The simulated machine. */
typedef struct {
    int64_t sms;
    int64_t warps;            /* warp slots of an SM */
    int64_t schedulers;       /* of an SM; slot w belongs to scheduler w mod schedulers */
    int64_t sets, ways;       /* of an L1 */
    int64_t line_bytes;
} rdmodel_machine;

/* A warp in a slot of an SM. */
typedef struct {
    int64_t slot;
    int64_t block, warp;      /* its block in the grid, and its number in the block */
    int64_t age;              /* warps that began on the SM before it */
    int64_t rank;             /* for `permit`: older warps of its scheduler that wait at no barrier; otherwise 0 */
} rdmodel_warp;

/* A transaction of a load or a store at the L1. At a fill, it is the transaction that missed first. */
typedef struct {
    int64_t line, set;
    int64_t pc;               /* of the load; -1 for a store */
    int64_t slot, block, warp;   /* of the warp, as in rdmodel_warp */
    int32_t present;          /* RDMODEL_ABSENT, ... before the transaction */
    int32_t store;            /* 1: it is a store to local memory, or to an L1 in which stores take ways */
} rdmodel_access;

/* A valid line of the L1. */
typedef struct {
    int64_t line;
    int64_t pc;               /* of the load that brought it; -1 if a store did */
    int64_t block, warp;      /* the warp that brought it */
    int64_t uses;             /* load transactions that brought or found it */
    uint64_t data;            /* of the policy; 0 when the line is brought */
} rdmodel_line;

/* Sums since the start of the kernel, of one SM. Hits, pending hits and misses count sectors where the L1 has them. */
typedef struct {
    int64_t warp_instructions, thread_instructions;
    int64_t hits, pending_hits, misses;
    int64_t bypassed;         /* load transactions that bypassed the L1 */
    int64_t writes;           /* store transactions */
} rdmodel_counters;

/* An option with its default and its limits. The functions get all options as doubles, in the order of the table. */
typedef struct {
    const char *name;         /* a Python identifier in lower case */
    double value, least, most;
    int32_t whole;            /* 1: a whole number */
} rdmodel_option;

typedef struct {
    int32_t version;          /* RDMODEL_POLICY_VERSION */
    int32_t bytes;            /* sizeof(rdmodel_policy) */
    const char *name;         /* lower-case letters, digits and hyphens */
    const char *description;  /* one line */
    int32_t kind;             /* RDMODEL_ADMISSION or RDMODEL_THROTTLING */
    int32_t options;
    const rdmodel_option *option;

    /* Return the state of SM `sm`, or NULL if memory is exhausted. `options` is valid as long as the state. */
    void *(*create)(const rdmodel_machine *machine, int64_t sm, const double *options);
    void (*destroy)(void *state);

    /* Admission: decide about a load. */
    int32_t (*admit)(const void *state, const rdmodel_access *access);
    /* Admission: choose the line that loses its way to that of `access`; `lines` are the `n` lines of the set that are
     * valid, the first to leave by LRU first, and no way is empty. -1 chooses none: a load bypasses the L1, and a line
     * that arrives is not kept. A local store, and a line that one has written in flight, then replace lines[0]. */
    int64_t (*replace)(const void *state, const rdmodel_access *access, const rdmodel_line *lines, int64_t n);
    /* Throttling: decide about the loads of a warp. */
    int32_t (*permit)(const void *state, const rdmodel_warp *warp);

    /* A load transaction was served. `data` is the line's; NULL if the line is absent, because the load bypassed. */
    void (*loaded)(void *state, const rdmodel_access *access, int32_t outcome, uint64_t *data);
    /* lines[chosen] is being replaced; the data of the others may be changed. */
    void (*replaced)(void *state, const rdmodel_access *access, rdmodel_line *lines, int64_t n, int64_t chosen);
    /* A warp began, or ended. */
    void (*began)(void *state, const rdmodel_warp *warp);
    void (*ended)(void *state, const rdmodel_warp *warp);
    /* A period of as many cycles as the option `period` says is over; states and counters of all SMs. */
    void (*period_ended)(void *const *states, const rdmodel_counters *counters, int64_t sms);
} rdmodel_policy;

/* The only symbol that a plug-in must export. */
const rdmodel_policy *rdmodel_policy_table(void);

#ifdef __cplusplus
}
#endif

#endif
