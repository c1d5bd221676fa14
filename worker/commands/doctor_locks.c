/* The lock nodes, and what the configuration itself gives to think about. */
#include "worker/commands/doctor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/commands/nodes.h"
#include "worker/nodes/node_probe.h"

static const struct doctor_kind lock_node_away = {
    "lock-node-unreachable", DOCTOR_WARNING,
    "Locks go on while a majority of the nodes answers; one less can fail now.",
    "Bring the node back, or mend its address."};
static const struct doctor_kind lock_node_away_too = {"lock-node-unreachable", DOCTOR_WARNING,
                                                      "It is one of those without which there is no majority.",
                                                      "Bring the node back, or mend its address."};
static const struct doctor_kind lock_node_refuses = {
    "lock-node-refuses", DOCTOR_ERROR, "A node that answers with errors has no vote: it is as good as down.",
    "Mend what it says: memory, its user's rights, lock.prefix."};
static const struct doctor_kind lock_node_unfit = {"lock-node-unfit", DOCTOR_ERROR,
                                                   "A node like this may forget or refuse locks that are held.",
                                                   "See `holdfast check`, which says more."};
static const struct doctor_kind lock_node_doubtful = {"lock-node-doubtful", DOCTOR_WARNING,
                                                      "A node like this may forget or refuse locks that are held.",
                                                      "See `holdfast check`, which says more."};
static const struct doctor_kind lock_group_missing = {
    "lock-group-missing", DOCTOR_ERROR,
    "Several lock nodes that are no group have no votes: every task that needs a lock waits.",
    "Run `holdfast nodes init` once, with all lock nodes up."};
static const struct doctor_kind lock_node_quarantined = {
    "lock-node-quarantined", DOCTOR_WARNING,
    "It may have forgotten locks that are held, so it has no vote until they have expired.",
    "Nothing, when workers run; else `holdfast nodes heal --wait`."};
static const struct doctor_kind lock_node_excluded = {
    "lock-node-excluded", DOCTOR_ERROR, "It has no vote until somebody does something; fewer of the others may fail.",
    "See `holdfast nodes`, and docs/lock-nodes.md."};
static const struct doctor_kind lock_place_vacant = {
    "lock-place-vacant", DOCTOR_WARNING, "A place in the lock group is nobody's: one node less may fail.",
    "Finish what was begun: `holdfast nodes replace`, or `heal --wait`, again."};
static const struct doctor_kind lock_clock_rate = {
    "lock-clock-rate", DOCTOR_ERROR,
    "Locks exclude only while the clocks of lock nodes and workers keep to lock.drift_factor.",
    "It is this host's clock when the other nodes show the same, else the node's. Slew each clock by at most half of "
    "lock.drift_factor (chrony: maxslewrate) and never set it; see docs/lock-nodes.md."};
static const struct doctor_kind host_clock_rate = {
    "host-clock-rate", DOCTOR_WARNING,
    "Workers of this host measure their locks by CLOCK_BOOTTIME, which follows this rate.",
    "Slew it by at most half of lock.drift_factor (chrony: maxslewrate); see docs/lock-nodes.md."};
static const struct doctor_kind configuration = {"configuration", DOCTOR_WARNING,
                                                 "The configuration works, but perhaps not as it was meant.",
                                                 "See `holdfast check`, which looks at the plugins too."};

static void probe_judge(struct doctor *doctor, const struct node_probe *probe, bool has_majority)
{
    struct findings findings = {0};
    if (probe->state == PROBE_UNREACHABLE || probe->state == PROBE_REFUSED)
        doctor_find(doctor, has_majority ? &lock_node_away : &lock_node_away_too, "%s %s: %s", probe->node->name,
                    probe->state == PROBE_UNREACHABLE ? "cannot be reached" : "does not let us in", probe->reason);
    if (probe->state == PROBE_ANSWERED && probe->refusal[0] != '\0')
        doctor_find(doctor, &lock_node_refuses, "%s refuses a lock below lock.prefix \"%s\": %s", probe->node->name,
                    probe->lock_prefix, probe->refusal);
    if (probe->state == PROBE_ANSWERED)
        node_facts_judge(&probe->facts, probe->node->name, NODE_FOR_LOCKS, &findings);
    for (size_t i = 0; i < findings.count; i++)
        doctor_find(doctor, findings.items[i].is_warning ? &lock_node_doubtful : &lock_node_unfit, "%s",
                    findings.items[i].text);
    findings_fini(&findings);
}

static int nodes_examine(struct doctor *doctor, struct node_probe probes[REDLOCK_NODES_MAX])
{
    const struct config *config = doctor->console->config;
    struct error error = ERROR_NONE;
    size_t count = config->lock_node_count, granted = 0;
    for (size_t i = 0; i < count; i++)
        probes[i] = (struct node_probe){
            .node = &config->lock_nodes[i], .use = NODE_FOR_LOCKS, .lock_prefix = config->lock.prefix};
    if (!node_probe_all(probes, count, &error))
        return console_complain(doctor->console, "%s", error.text);
    for (size_t i = 0; i < count; i++)
        granted += node_probe_grants(&probes[i]);
    for (size_t i = 0; i < count; i++)
        probe_judge(doctor, &probes[i], granted > count / 2);
    return EXIT_CODE_OK;
}

static void member_judge(struct doctor *doctor, const struct redlock_node_view *view)
{
    struct buffer text = {0};
    nodes_verdict_text(view, &text);
    doctor_find(doctor, view->quarantine_left_ns > 0 ? &lock_node_quarantined : &lock_node_excluded, "%s is %s",
                view->name, buffer_text(&text));
    buffer_fini(&text);
}

static void group_judge(struct doctor *doctor, const struct redlock_nodes *nodes)
{
    struct redlock_group_view group = redlock_nodes_group(nodes);
    if (group.vacant > 0)
        doctor_find(doctor, &lock_place_vacant, "%u place of the lock group is vacant", group.vacant);
    bool is_told_by_nodes = group.reached >= group.quorum && nodes_markers_of(nodes).marked > 0;
    if (!group.has_group && group.nodes > 1 && !is_told_by_nodes) {
        if (group.reached >= group.quorum)
            doctor_find(doctor, &lock_group_missing, "the %u lock nodes are no lock group", group.nodes);
        return;
    }
    for (unsigned i = 0; i < group.nodes; i++) {
        const struct redlock_node_view *view = redlock_nodes_view(nodes, i);
        if (!view->votes && strcmp(view->state, "unseen") != 0)
            member_judge(doctor, view);
    }
}

/* --- clocks ------------------------------------------------------------------------------------------------------- */

#define CLOCKS_COMPARED_NS (1 * NS_PER_S)

static void rate_judge(struct doctor *doctor, const struct redlock_node_view *view, int64_t bound_ppm)
{
    bool is_fast = view->rate_least_ppm > bound_ppm, is_slow = view->rate_most_ppm < -bound_ppm;
    if (!is_fast && !is_slow)
        return;
    doctor_find(doctor, &lock_clock_rate,
                "%s's clock runs %lld ppm %s than ours (at least; lock.drift_factor allows %lld)", view->name,
                (long long)(is_fast ? view->rate_least_ppm : -view->rate_most_ppm), is_fast ? "faster" : "slower",
                (long long)bound_ppm);
}

int64_t doctor_clock_slew_ppm(long tick, long freq, long ticks_per_s)
{
    return (int64_t)tick * ticks_per_s - 1000000 + freq / 65536;
}

static void host_clock_judge(struct doctor *doctor, int64_t bound_ppm)
{
    struct timex kernel = {.modes = 0}; /* reads only */
    if (adjtimex(&kernel) < 0)
        return;
    int64_t ppm = doctor_clock_slew_ppm(kernel.tick, kernel.freq, sysconf(_SC_CLK_TCK));
    if (ppm > bound_ppm || ppm < -bound_ppm)
        doctor_find(doctor, &host_clock_rate,
                    "the clock of this host is slewed by %lld ppm (half of lock.drift_factor allows %lld)",
                    (long long)ppm, (long long)bound_ppm);
}

static void group_examine(struct doctor *doctor, const struct node_probe *probes)
{
    struct nodes_session session;
    struct redlock_node_view views[REDLOCK_NODES_MAX];
    int64_t drift_ppm = (int64_t)(doctor->console->config->lock.drift_factor * 1e6 + 0.5);
    if (nodes_session_open(&session, doctor->console->config, NULL)) {
        (void)redlock_nodes_compare_clocks(session.nodes, CLOCKS_COMPARED_NS);
        group_judge(doctor, session.nodes);
        for (size_t i = 0; i < session.options.node_count; i++) {
            views[i] = *redlock_nodes_view(session.nodes, i);
            rate_judge(doctor, &views[i], drift_ppm);
        }
        status_take_locks(&doctor->status, views, probes, session.options.node_count);
        host_clock_judge(doctor, drift_ppm / 2);
    }
    nodes_session_close(&session);
}

int doctor_examine_locks(struct doctor *doctor)
{
    const struct findings *warnings = &doctor->console->warnings;
    for (size_t i = 0; i < warnings->count; i++)
        doctor_find(doctor, &configuration, "%s", warnings->items[i].text);
    if (doctor->console->config->lock_node_count == 0)
        return EXIT_CODE_OK;
    struct node_probe probes[REDLOCK_NODES_MAX] = {0};
    int code = nodes_examine(doctor, probes);
    if (code == EXIT_CODE_OK)
        group_examine(doctor, probes);
    return code;
}
