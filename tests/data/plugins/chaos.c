/* A policy that decides by a hash of everything that has happened: two machines run it alike only if they report the
 * same events in the same order, and ask with the same arguments. CHAOS_THROTTLES chooses the kind. */
#include <stdlib.h>
#include "rdmodel_policy.h"

typedef struct {
    uint64_t hash;
    double bypassing, refusing;
} chaos;

static uint64_t mix(uint64_t hash, int64_t value)
{
    hash = (hash ^ (uint64_t)value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t mix_access(uint64_t hash, const rdmodel_access *a)
{
    const int64_t values[] = {a->line, a->set, a->pc, a->slot, a->block, a->warp, a->present, a->store};
    for (int i = 0; i < 8; i++)
        hash = mix(hash, values[i]);
    return hash;
}

static uint64_t mix_warp(uint64_t hash, const rdmodel_warp *w)
{
    const int64_t values[] = {w->slot, w->block, w->warp, w->age, w->rank};
    for (int i = 0; i < 5; i++)
        hash = mix(hash, values[i]);
    return hash;
}

static uint64_t mix_lines(uint64_t hash, const rdmodel_line *lines, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const rdmodel_line *l = &lines[i];
        const int64_t values[] = {l->line, l->pc, l->block, l->warp, l->uses, (int64_t)l->data};
        for (int k = 0; k < 6; k++)
            hash = mix(hash, values[k]);
    }
    return hash;
}

static double share(uint64_t hash)
{
    return (double)(hash >> 11) / 9007199254740992.0;
}

static void *create(const rdmodel_machine *m, int64_t sm, const double *options)
{
    const int64_t values[] = {m->sms, m->warps, m->schedulers, m->sets, m->ways, m->line_bytes, sm};
    chaos *c = malloc(sizeof(chaos));
    if (c == NULL)
        return NULL;
    c->hash = (uint64_t)options[0];
    for (int i = 0; i < 7; i++)
        c->hash = mix(c->hash, values[i]);
    c->bypassing = options[2];
    c->refusing = options[3];
    return c;
}

#ifdef CHAOS_THROTTLES
static int32_t permit(const void *state, const rdmodel_warp *warp)
{
    const chaos *c = state;
    double drawn = share(mix_warp(c->hash, warp));
    if (drawn < c->bypassing)
        return RDMODEL_LOAD_PRESENT;
    return drawn < c->bypassing + c->refusing && warp->rank > 0 ? RDMODEL_WAIT : RDMODEL_LOAD;
}
#else
static int32_t admit(const void *state, const rdmodel_access *access)
{
    const chaos *c = state;
    double drawn = share(mix_access(c->hash, access));
    if (drawn < c->bypassing / 2)
        return RDMODEL_USE_PRESENT;
    return drawn < c->bypassing ? RDMODEL_BYPASS : RDMODEL_USE;
}

static int64_t replace(const void *state, const rdmodel_access *access, const rdmodel_line *lines, int64_t n)
{
    const chaos *c = state;
    uint64_t hash = mix_lines(mix_access(c->hash, access), lines, n);
    return share(hash) < c->refusing ? -1 : (int64_t)(mix(hash, 1) % (uint64_t)n);
}
#endif

static void loaded(void *state, const rdmodel_access *access, int32_t outcome, uint64_t *data)
{
    chaos *c = state;
    c->hash = mix(mix_access(c->hash, access), outcome);
    if (data != NULL)
        *data = mix(*data, (int64_t)c->hash);
}

static void replaced(void *state, const rdmodel_access *access, rdmodel_line *lines, int64_t n, int64_t chosen)
{
    chaos *c = state;
    c->hash = mix(mix_lines(mix_access(c->hash, access), lines, n), chosen);
    lines[(c->hash >> 7) % (uint64_t)n].data += 1;
}

static void began(void *state, const rdmodel_warp *warp)
{
    chaos *c = state;
    c->hash = mix_warp(mix(c->hash, 1), warp);
}

static void ended(void *state, const rdmodel_warp *warp)
{
    chaos *c = state;
    c->hash = mix_warp(mix(c->hash, 2), warp);
}

static void period_ended(void *const *states, const rdmodel_counters *counters, int64_t sms)
{
    uint64_t hash = 0;
    for (int64_t i = 0; i < sms; i++) {
        const rdmodel_counters *n = &counters[i];
        const int64_t values[] = {n->warp_instructions, n->thread_instructions, n->hits, n->pending_hits,
                                  n->misses, n->bypassed, n->writes};
        for (int k = 0; k < 7; k++)
            hash = mix(hash, values[k]);
    }
    for (int64_t i = 0; i < sms; i++) {
        chaos *c = states[i];
        c->hash = mix(c->hash, (int64_t)hash);
    }
}

static const rdmodel_option options[] = {
    {"seed", 0, 0, 1e15, 1},
    {"period", 50, 1, 1e9, 1},
    {"bypassing", 0.2, 0, 1, 0},
    {"refusing", 0.2, 0, 1, 0},
};

static const rdmodel_policy table = {
    .version = RDMODEL_POLICY_VERSION,
    .bytes = sizeof(rdmodel_policy),
    .description = "Chance, by a hash of everything that has happened",
    .options = 4,
    .option = options,
    .create = create,
    .destroy = free,
#ifdef CHAOS_THROTTLES
    .name = "chaos-throttling",
    .kind = RDMODEL_THROTTLING,
    .permit = permit,
#else
    .name = "chaos-admission",
    .kind = RDMODEL_ADMISSION,
    .admit = admit,
    .replace = replace,
#endif
    .loaded = loaded,
    .replaced = replaced,
    .began = began,
    .ended = ended,
    .period_ended = period_ended,
};

const rdmodel_policy *rdmodel_policy_table(void)
{
    return &table;
}
