/* The replacement that the machine has without a policy. */
#include "rdmodel_policy.h"

static int64_t replace(const void *state, const rdmodel_access *access, const rdmodel_line *lines, int64_t n)
{
    return 0;
}

static const rdmodel_policy table = {
    .version = RDMODEL_POLICY_VERSION,
    .bytes = sizeof(rdmodel_policy),
    .name = "lru",
    .description = "Replacement of the least recently used line",
    .kind = RDMODEL_ADMISSION,
    .replace = replace,
};

const rdmodel_policy *rdmodel_policy_table(void)
{
    return &table;
}
