/* A trial whose load is the shadow of a live fleet: what the shadow finds is pushed, and once a second it is judged
 * whether all that follows from it stays within its share of the nodes. */
#include <math.h>
#include <stdio.h>

#include "worker/dry_run/trial_private.h"

static void task_found(void *context, const struct shadow_task *found)
{
    struct trial *trial = context;
    struct instant due = instant_now();
    if (found->task.at_us > 0)
        due = instant_after(due, (found->task.at_us - wall_now().us) * NS_PER_US);
    tally_pushed(trial->tally, found->task.jid, found->resources, found->resource_count, due);
    feeder_add(trial->feeder, &found->task);
    trial->pushed++;
}

static void fleet_copied(void *context)
{
    struct trial *trial = context;
    struct shadow_counts counts = shadow_counts(trial->shadow);
    trial_say(trial, "Copied %llu running, %llu queued and %llu scheduled tasks; what comes now is followed.",
              (unsigned long long)counts.running, (unsigned long long)counts.queued,
              (unsigned long long)counts.scheduled);
}

void trial_shadow_begin(struct trial *trial)
{
    const struct dry_run_plan *plan = trial->plan;
    trial->admission = admission_begin(plan->node_share, plan->copy_rate);
    trial->shadow = shadow_create(&(struct shadow_options){.loop = trial->loop,
                                                           .live = trial->terms.live,
                                                           .plugins = trial->terms.plugins,
                                                           .plan = plan,
                                                           .found = task_found,
                                                           .copied = fleet_copied,
                                                           .context = trial});
    shadow_begin(trial->shadow);
}

/* What the process has asked of the nodes since it said so last; the queue node is asked by its claims. */
void trial_shadow_note(struct trial *trial, unsigned process, const struct observed_process *said)
{
    struct trial_asked *before = &trial->asked[process];
    for (unsigned i = 0; i < said->node_count && i + 1 < RESULT_NODES_MAX; i++) {
        trial->asked_now[i + 1] += said->nodes[i]->requests - before->requests[i + 1];
        before->requests[i + 1] = said->nodes[i]->requests;
    }
    trial->asked_now[0] += said->claim_calls - before->requests[0];
    before->requests[0] = said->claim_calls;
}

/* The time that our scripts took there: as many of them as we sent, each as long as those that it ran meanwhile. Guests
 * ask as much as this host, as far as is known. */
static double share_taken(struct trial *trial, unsigned number)
{
    struct trial_node *node = &trial->nodes[number];
    const struct node_sample *from = &node->judged, *to = &node->last;
    double seconds = (double)instant_since(from->at, to->at) / (double)NS_PER_S;
    uint64_t scripts = to->scripts - from->scripts, asked = trial->asked_now[number];
    bool is_known = node->was_seen && from->at.ns != 0 && seconds > 0 && scripts > 0 && to->scripts >= from->scripts;
    node->judged = node->last;
    trial->asked_now[number] = 0;
    if (!is_known)
        return 0;
    double ours = fmin((double)asked * (reception_guest_count(trial->reception) + 1.0) / (double)scripts, 1);
    return ours * (double)(to->script_us - from->script_us) / (double)US_PER_S / seconds;
}

void trial_shadow_second(struct trial *trial)
{
    double worst = 0;
    for (unsigned i = 0; i <= trial->terms.config->lock_node_count && i < RESULT_NODES_MAX; i++)
        worst = fmax(worst, share_taken(trial, i));
    double told = (double)(trial->pushed - trial->pushed_judged);
    trial->pushed_judged = trial->pushed;
    shadow_limit(trial->shadow, admission_judge(&trial->admission, worst, told));
}

void trial_shadow_tell(const struct trial *trial, struct result *result)
{
    struct shadow_counts counts = shadow_counts(trial->shadow);
    const struct admission *admission = &trial->admission;
    char slowed[160] = "", missed[160] = "";
    if (admission->cuts > 0)
        snprintf(slowed, sizeof slowed,
                 "; it was slowed down %u times to stay within --node-share, and %llu tasks were not played",
                 admission->cuts, (unsigned long long)counts.waiting);
    if (counts.missed > 0)
        snprintf(missed, sizeof missed, "; up to %llu tasks came and went between two looks",
                 (unsigned long long)counts.missed);
    snprintf(result->shadowed, sizeof result->shadowed,
             "copied %llu running, %llu queued and %llu scheduled tasks, and %llu that came meanwhile; %llu texts were "
             "no tasks of a class and queue that are served here; at most %.2g %% of a node's time was taken%s%s",
             (unsigned long long)counts.running, (unsigned long long)counts.queued,
             (unsigned long long)counts.scheduled, (unsigned long long)counts.followed,
             (unsigned long long)counts.invalid, 100 * admission->worst, slowed, missed);
}
