/* The lock nodes, and what the configuration itself gives to think about. */
#include "worker/commands/doctor.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "worker/node_probe.h"

static const struct doctor_kind lock_node_away = {
    "lock-node-unreachable", DOCTOR_WARNING,
    "Locks go on while a majority of the nodes answers; one less can fail now.",
    "Bring the node back, or mend its address."};
static const struct doctor_kind lock_node_away_too = {"lock-node-unreachable", DOCTOR_WARNING,
                                                      "It is one of those without which there is no majority.",
                                                      "Bring the node back, or mend its address."};
static const struct doctor_kind lock_majority_away = {"lock-majority-unreachable", DOCTOR_ERROR,
                                                      "No lock can be taken: every task that needs one waits.",
                                                      "Bring the lock nodes back, or mend what they say."};
static const struct doctor_kind lock_node_refuses = {
    "lock-node-refuses", DOCTOR_ERROR, "A node that answers with errors has no vote: it is as good as down.",
    "Mend what it says: memory, its user's rights, lock.prefix."};
static const struct doctor_kind lock_node_unfit = {"lock-node-unfit", DOCTOR_ERROR,
                                                   "A node like this may forget or refuse locks that are held.",
                                                   "See `holdfast check`, which says more."};
static const struct doctor_kind lock_node_doubtful = {"lock-node-doubtful", DOCTOR_WARNING,
                                                      "A node like this may forget or refuse locks that are held.",
                                                      "See `holdfast check`, which says more."};
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

static int nodes_examine(struct doctor *doctor)
{
    const struct config *config = doctor->console->config;
    struct error error = ERROR_NONE;
    size_t count = config->lock_node_count, granted = 0;
    if (count == 0)
        return EXIT_CODE_OK;
    struct node_probe *probes = memory_zeroed(count, sizeof *probes);
    for (size_t i = 0; i < count; i++)
        probes[i] = (struct node_probe){
            .node = &config->lock_nodes[i], .use = NODE_FOR_LOCKS, .lock_prefix = config->lock.prefix};
    bool was_run = node_probe_all(probes, count, &error);
    for (size_t i = 0; was_run && i < count; i++)
        granted += node_probe_grants(&probes[i]);
    for (size_t i = 0; was_run && i < count; i++)
        probe_judge(doctor, &probes[i], granted > count / 2);
    free(probes);
    if (!was_run)
        return console_complain(doctor->console, "%s", error.text);
    if (granted <= count / 2)
        doctor_find(doctor, &lock_majority_away, "%zu of %zu lock nodes grant locks", granted, count);
    return EXIT_CODE_OK;
}

int doctor_examine_locks(struct doctor *doctor)
{
    const struct findings *warnings = &doctor->console->warnings;
    for (size_t i = 0; i < warnings->count; i++)
        doctor_find(doctor, &configuration, "%s", warnings->items[i].text);
    return nodes_examine(doctor);
}
