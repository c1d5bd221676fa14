#include "worker/dry_run/report/result.h"

#include <stdlib.h>

static void spread_fini(struct result_spread *spread)
{
    free(spread->histogram);
}

void result_fini(struct result *result)
{
    plan_fini(&result->plan);
    spread_fini(&result->wait);
    spread_fini(&result->hold);
    spread_fini(&result->acquire);
    spread_fini(&result->extend);
    for (unsigned i = 0; i < result->node_count; i++)
        spread_fini(&result->nodes[i].latency);
    for (size_t i = 0; i < result->resource_count; i++)
        free(result->resources[i].name);
    free(result->seconds);
    free(result->resources);
    free(result->hosts);
    *result = (struct result){0};
}

enum result_tone result_tone(const struct result *result)
{
    bool is_wrong =
        result->overlaps_unfenced > 0 || result->bottleneck == RESULT_TROUBLE || result->crashed_checks[0] != '\0';
    if (is_wrong || (result->headroom > 0 && result->headroom < 1))
        return RESULT_BAD;
    return result->bottleneck == RESULT_NONE && result->headroom > 0 ? RESULT_GOOD : RESULT_FAIR;
}
