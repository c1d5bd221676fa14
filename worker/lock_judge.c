#include "worker/lock_judge.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "worker/config/findings.h"
#include "worker/startup.h"

/* The first is enough for a log line; a reload or `holdfast check` tells all. */
static bool holds_fit(const struct config *config, const struct plugins *plugins, int64_t max_ttl_ns,
                      char reason[LOCK_JUDGE_REASON_MAX])
{
    struct findings findings = {0};
    char text[LOG_QUOTE_MAX];
    startup_check_holds(config, plugins, max_ttl_ns, &findings);
    bool fit = findings.errors == 0;
    if (!fit)
        snprintf(reason, LOCK_JUDGE_REASON_MAX, "reason=%s", log_quote(findings.items[0].text, text));
    findings_fini(&findings);
    return fit;
}

const char *lock_judge(const struct config *config, const struct plugins *plugins,
                       const struct redlock_standing *standing, char reason[LOCK_JUDGE_REASON_MAX])
{
    if (standing->blank >= standing->nodes / 2 + 1) {
        snprintf(reason, LOCK_JUDGE_REASON_MAX,
                 "nodes=%u blank=%u advice=\"the lock nodes are no lock group yet: make them one with holdfast nodes "
                 "init\"",
                 standing->nodes, standing->blank);
        return "lock_group_missing";
    }
    if (standing->max_ttl_ns > 0 && config->lock.ttl_ns > standing->max_ttl_ns) {
        snprintf(reason, LOCK_JUDGE_REASON_MAX,
                 "ttl_ms=%lld max_ttl_ms=%lld advice=\"lock.ttl is above the max_ttl of the lock group: lower it\"",
                 (long long)(config->lock.ttl_ns / NS_PER_MS), (long long)(standing->max_ttl_ns / NS_PER_MS));
        return "lock_ttl_too_long";
    }
    return holds_fit(config, plugins, standing->max_ttl_ns, reason) ? NULL : "hold_at_least_too_long";
}
