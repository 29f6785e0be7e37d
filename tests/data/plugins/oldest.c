/* swl: only the oldest warps of a scheduler may issue loads. */
#include <stdlib.h>
#include "rdmodel_policy.h"

static void *create(const rdmodel_machine *machine, int64_t sm, const double *options)
{
    double *limit = malloc(sizeof(double));
    if (limit != NULL)
        *limit = options[0];
    return limit;
}

static int32_t permit(const void *state, const rdmodel_warp *warp)
{
    return (double)warp->rank < *(const double *)state ? RDMODEL_LOAD : RDMODEL_WAIT;
}

static const rdmodel_option options[] = {{"warps", 4, 1, 64, 1}};

static const rdmodel_policy table = {
    .version = RDMODEL_POLICY_VERSION,
    .bytes = sizeof(rdmodel_policy),
    .name = "oldest",
    .description = "Loads of the oldest warps only",
    .kind = RDMODEL_THROTTLING,
    .options = 1,
    .option = options,
    .create = create,
    .destroy = free,
    .permit = permit,
};

const rdmodel_policy *rdmodel_policy_table(void)
{
    return &table;
}
