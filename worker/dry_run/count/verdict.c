/* See verdict.h. Everything that can be full is looked at with how full it was; the fullest is the bottleneck when it
 * was nearly full. How full something was is the demand of the load as a share of what it can do, so the load can grow
 * by the inverse of it. Of an open load that is more than something can do it is more than 1. */
#include "worker/dry_run/count/verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "worker/dry_run/count/expectation.h"
#include "worker/print/human.h"

enum { TASKS_MIN = 100 /* fewer show nothing */, EFFECT_MAX = 320 };

#define SECONDS_MIN  1.0
#define FULL         0.95
#define BEHIND_MAX   0.1 /* share of the pushes that may be late */
#define NEARLY_FULL  0.85
#define HARDLY_USED  0.4  /* of the runners: more would not change that */
#define WORTH_SAYING 0.05 /* by this share something changes */
#define OURS         0.75 /* of the busy processors: system work for others is counted, too */
/* A mean wait is another one than the model expects when it is longer by this factor, and by so many seconds. */
#define GAP_FACTOR  2.0
#define GAP_SECONDS 0.005

#define SAY(into, ...)    snprintf(into, RESULT_TEXT_MAX, __VA_ARGS__)
#define SAY_TIME(seconds) human_time(fmax(seconds, 0), (char[HUMAN_TEXT_MAX]){0})
#define SAY_RATE(rate)    human_rate(fmax(rate, 0), (char[HUMAN_TEXT_MAX]){0})
#define SAY_SHARE(share)  human_share(fmin(fmax(share, 0), 1), (char[HUMAN_TEXT_MAX]){0})
#define SAY_COUNT(count)  human_count((int64_t)(count), (char[HUMAN_TEXT_MAX]){0})
#define SAY_NAME(text)    log_quote(text, (char[LOG_QUOTE_MAX]){0})

/* Behind what the answer of `result` says already. */
#define ANSWER(...)                                                                                                    \
    snprintf(result->answer + strlen(result->answer), RESULT_TEXT_MAX - strlen(result->answer), __VA_ARGS__)

struct verdict {
    struct result *result;
    const struct result_host *host;                   /* whose machine was the busiest */
    double load_behind;                               /* share of the pushes that came late, at the worst host */
    const struct result_resource *fullest;            /* of the resources; NULL = none had a load */
    const struct result_node *lock_node, *queue_node; /* the busiest of each; NULL = not known */
    unsigned full_resources;                          /* nearly full ones */
    double busy_changeover;                           /* the changeover of the resource that had the most */
    double own_busy;                                  /* share of the processors of this machine that the run took */
    bool has_gap;                                     /* tasks waited much longer than the model expects */
    bool is_crowded;                                  /* all processors were busy, and others took much of them */
    unsigned runners, processes;
    double full[RESULT_TROUBLE + 1]; /* the demand as a share of what it can do; 0 = not known */
};

/* --- how full things were ----------------------------------------------------------------------------------------- */

/* Held, or between two holders while one waits; and each task that comes needs a hold and a changeover, served or
 * not, for when it is full all wait. Where few wait a changeover can take longer than it does then: a lock that is
 * refused is requested again after a while. So that of the resource with the most of them counts when it is shorter. */
static double resource_full(const struct verdict *verdict, const struct result_resource *resource)
{
    double changing =
        (double)resource->changeovers * resource->changeover_mean / fmax(verdict->result->measured_for, 1e-3);
    double changeover = fmin(resource->changeover_mean, verdict->busy_changeover);
    return fmax(resource->share_held + changing, resource->load * (resource->hold_mean + changeover));
}

static double busy_changeover_of(const struct result *result)
{
    uint64_t most = 0;
    double changeover = 0;
    for (size_t i = 0; i < result->resource_count; i++) {
        if (result->resources[i].changeovers > most) {
            most = result->resources[i].changeovers;
            changeover = result->resources[i].changeover_mean;
        }
    }
    return changeover;
}

static void resources_look(struct verdict *verdict)
{
    const struct result *result = verdict->result;
    verdict->busy_changeover = busy_changeover_of(result);
    for (size_t i = 0; i < result->resource_count; i++) {
        const struct result_resource *resource = &result->resources[i];
        double full = resource_full(verdict, resource);
        if (resource->load > 0 && full > verdict->full[RESULT_RESOURCE]) {
            verdict->full[RESULT_RESOURCE] = full;
            verdict->fullest = resource;
        }
        verdict->full_resources += full >= NEARLY_FULL;
    }
}

/* A process has one loop; its handlers sleep. */
static void hosts_look(struct verdict *verdict)
{
    const struct result *result = verdict->result;
    for (unsigned i = 0; i < result->host_count; i++) {
        const struct result_host *host = &result->hosts[i];
        verdict->runners += host->processes * host->threads;
        verdict->processes += host->processes;
        if (host->processes > 0)
            verdict->full[RESULT_WORKER_CPU] =
                fmax(verdict->full[RESULT_WORKER_CPU], host->cpu_share / host->processes);
        if (verdict->host == NULL || host->machine_busy > verdict->host->machine_busy)
            verdict->host = host;
        verdict->load_behind = fmax(verdict->load_behind, host->load_behind);
    }
}

static void nodes_look(struct verdict *verdict)
{
    const struct result *result = verdict->result;
    for (unsigned i = 0; i < result->node_count; i++) {
        const struct result_node *node = &result->nodes[i];
        const struct result_node **busiest = node->is_queue_node ? &verdict->queue_node : &verdict->lock_node;
        double *full = &verdict->full[node->is_queue_node ? RESULT_QUEUE_NODE : RESULT_LOCK_NODES];
        if (node->cpu_share > *full) {
            *full = node->cpu_share;
            *busiest = node;
        }
    }
}

/* Of the busiest machine: what others take of it is no demand of the load. */
static void machine_look(struct verdict *verdict)
{
    const struct result *result = verdict->result;
    if (verdict->host == NULL || verdict->host->processors == 0)
        return;
    double busy = verdict->host->machine_busy, own = result->overhead_share + verdict->host->cpu_share;
    for (unsigned i = 0; result->plan.is_local && i < result->node_count; i++)
        own += result->nodes[i].cpu_share;
    verdict->own_busy = own / verdict->host->processors;
    bool is_ours = verdict->own_busy > OURS * busy;
    verdict->full[RESULT_MACHINE] = is_ours ? busy : verdict->own_busy;
    verdict->is_crowded = busy > FULL && !is_ours;
}

/* What a runner is taken for, what came, and what it can do. A load that resources hold back does not come to it. */
static void runners_look(struct verdict *verdict)
{
    const struct result *result = verdict->result;
    if (verdict->runners == 0)
        return;
    double changing = result->throughput * verdict->result->overheads.runner_changeover / verdict->runners;
    double full = fmin(result->utilisation + changing, 1);
    bool is_held_back = verdict->full[RESULT_RESOURCE] >= 1;
    if (full >= NEARLY_FULL && !plan_is_closed(&verdict->result->plan) && !is_held_back && result->throughput > 0)
        full *= fmax(verdict->result->overheads.arrivals / result->throughput, 1);
    verdict->full[RESULT_RUNNERS] = full;
}

/* --- which it is -------------------------------------------------------------------------------------------------- */

/* The fullest. Processors come last: what they are full of is named where it can be, and a resource or the threads are
 * full whatever else is. */
static enum result_bottleneck fullest_of(const struct verdict *verdict)
{
    enum result_bottleneck of_tasks =
        verdict->full[RESULT_RUNNERS] > verdict->full[RESULT_RESOURCE] ? RESULT_RUNNERS : RESULT_RESOURCE;
    if (verdict->full[of_tasks] >= FULL)
        return of_tasks;
    static const enum result_bottleneck order[] = {RESULT_RESOURCE,   RESULT_RUNNERS,    RESULT_QUEUE_NODE,
                                                   RESULT_LOCK_NODES, RESULT_WORKER_CPU, RESULT_MACHINE};
    enum result_bottleneck fullest = RESULT_RESOURCE;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        if (verdict->full[order[i]] > verdict->full[fullest])
            fullest = order[i];
    return fullest;
}

static bool is_too_little(const struct result *result)
{
    return result->wait.count < TASKS_MIN || result->measured_for < SECONDS_MIN;
}

static bool is_trouble(const struct result *result)
{
    return result->pushed >= TASKS_MIN / 10 && result->hold.count == 0 && result->done == 0;
}

static unsigned faults_done(const struct result *result)
{
    unsigned done = 0;
    for (unsigned i = 0; i < result->fault_count; i++)
        done += result->faults[i].was_done;
    return done;
}

/* Of something that is nearly full the mean wait of a short run is a matter of chance. */
static bool has_gap(const struct result *result, double full)
{
    const struct result_expected *expected = &result->expected;
    bool is_chance = full >= NEARLY_FULL && result->wait.mean_error <= 0;
    double sure = result->wait.mean - (full >= NEARLY_FULL ? result->wait.mean_error : 0);
    return expected->is_known && expected->wait >= 0 && !is_chance && sure > GAP_FACTOR * expected->wait &&
           sure > expected->wait + GAP_SECONDS;
}

/* --- saying it ---------------------------------------------------------------------------------------------------- */

static void trouble_say(const struct verdict *verdict)
{
    struct result *result = verdict->result;
    uint64_t granted = 0, failed = 0, lock_nodes = 0;
    for (unsigned i = 0; i < result->node_count; i++) {
        granted += result->nodes[i].granted;
        failed += result->nodes[i].errors + result->nodes[i].timeouts;
        lock_nodes += result->nodes[i].requests > 0;
    }
    if (result->dead > 0 && result->dead == result->ended)
        ANSWER("Nothing ran to its end: all %s tasks that ended were buried. The workers' log tells why.",
               SAY_COUNT(result->dead));
    else if (lock_nodes > 0 && granted == 0)
        ANSWER("Nothing ran: no lock node granted anything (%s errors and timeouts). A majority of them has to be "
               "up and to vote; `holdfast nodes` tells why one does not.",
               SAY_COUNT(failed));
    else
        ANSWER("Nothing ran to its end: %s tasks were pushed and no handler returned while it was measured. Either "
               "holds are longer than the run, or the workers cannot run; their log tells.",
               SAY_COUNT(result->pushed));
}

/* ", where the model expects 18 ms", as far as it is known. */
static const char *model_says(const struct result *result, const char *what, char *out, size_t size)
{
    const struct result_expected *expected = &result->expected;
    out[0] = '\0';
    if (expected->is_known && expected->wait < 0)
        snprintf(out, size, ", where the model%s expects a wait that grows", what);
    else if (expected->is_known)
        snprintf(out, size, ", where the model%s expects %s", what, SAY_TIME(expected->wait));
    return out;
}

static void faults_say(struct result *result, unsigned done)
{
    char more[32] = "", model[96];
    const char *first = NULL;
    for (unsigned i = 0; first == NULL; i++)
        first = result->faults[i].was_done ? result->faults[i].text : NULL;
    int shown = (int)strcspn(first, ":"); /* what was done, without what was seen of it */
    if (done > 1)
        snprintf(more, sizeof more, ", and %u more", done - 1);
    if (result->wait.count == 0)
        ANSWER("With its fault%s (%.*s%s) no task got a lock while it was measured.", human_plural(done), shown, first,
               more);
    else
        ANSWER(
            "With its fault%s (%.*s%s) tasks waited %s on average, and one of a hundred %s or longer%s. How much room "
            "there is, a run without faults tells.",
            human_plural(done), shown, first, more, SAY_TIME(result->wait.mean), SAY_TIME(result->wait.p99),
            model_says(result, ", which knows of no fault,", model, sizeof model));
}

static void little_say(struct result *result)
{
    ANSWER("Too little to judge by: %s task%s got a lock in %s that were measured. Let it run longer%s.",
           SAY_COUNT(result->wait.count), human_plural((int64_t)result->wait.count), SAY_TIME(result->measured_for),
           result->plan.kind == DRY_RUN_REHEARSAL ? ", or push more"
                                                  : ": a shadow sees only tasks that are there when it looks");
}

static void resource_say(const struct verdict *verdict)
{
    struct result *result = verdict->result;
    const struct result_resource *resource = verdict->fullest;
    char others[64] = "";
    if (verdict->full_resources > 1)
        snprintf(others, sizeof others, " So are %s others, nearly.", SAY_COUNT(verdict->full_resources - 1));
    double full = verdict->full[RESULT_RESOURCE];
    if (full > 1 && !plan_is_closed(&verdict->result->plan))
        ANSWER("The resource %s is overloaded: %s tasks a second come for it and %s a second can hold it one after "
               "the other (%s each, and %s from one to the next), so its waiting list grows for as long as this goes "
               "on.%s",
               SAY_NAME(resource->name), SAY_RATE(resource->load),
               SAY_RATE(1 / (resource->hold_mean + resource->changeover_mean)), SAY_TIME(resource->hold_mean),
               SAY_TIME(resource->changeover_mean), others);
    else
        ANSWER("The bottleneck is the resource %s: it is held %s of the time and handed on for %s of it; tasks wait "
               "%s for it on average.%s",
               SAY_NAME(resource->name), SAY_SHARE(resource->share_held),
               SAY_SHARE(resource->throughput * resource->changeover_mean), SAY_TIME(resource->wait_mean), others);
}

static void runners_say(const struct verdict *verdict)
{
    struct result *result = verdict->result;
    bool grows = verdict->full[RESULT_RUNNERS] > 1;
    ANSWER("The bottleneck is the number of threads: all %u are taken %s of the time, at %s tasks a second%s.",
           verdict->runners, SAY_SHARE(result->utilisation), SAY_RATE(result->throughput),
           grows ? ", and more come than that, so the queue grows" : "");
}

static void node_say(const struct verdict *verdict, const struct result_node *node, const char *what)
{
    struct result *result = verdict->result;
    ANSWER("The bottleneck is the %s %s: its one thread is busy %s of the time, at %s tasks a second.", what,
           SAY_NAME(node->name), SAY_SHARE(node->cpu_share), SAY_RATE(verdict->result->throughput));
}

/* What comes nearest to being one, when there is no bottleneck. */
static const char *nearest_name(const struct verdict *verdict, enum result_bottleneck nearest, char *out, size_t size)
{
    static const char *const names[] = {[RESULT_RUNNERS] = "the threads",
                                        [RESULT_WORKER_CPU] = "the loop of a worker process",
                                        [RESULT_QUEUE_NODE] = "the queue node",
                                        [RESULT_LOCK_NODES] = "a lock node",
                                        [RESULT_MACHINE] = "this machine"};
    if (nearest != RESULT_RESOURCE)
        return names[nearest];
    snprintf(out, size, "the resource %s", SAY_NAME(verdict->fullest != NULL ? verdict->fullest->name : "?"));
    return out;
}

static void room_say(const struct verdict *verdict, enum result_bottleneck nearest)
{
    struct result *result = verdict->result;
    char name[LOG_QUOTE_MAX + 32];
    double full = verdict->full[nearest];
    bool is_closed = plan_is_closed(&result->plan);
    if (is_closed || verdict->is_crowded)
        ANSWER("Nothing is full%s: the fullest is %s (%s). Tasks wait %s on average, and %s end in a second.",
               is_closed ? ", for so few tasks at a time" : "", nearest_name(verdict, nearest, name, sizeof name),
               SAY_SHARE(full), SAY_TIME(result->wait.mean), SAY_RATE(result->throughput));
    else
        ANSWER("There is room: the fullest is %s (%s), so this load could grow by a factor of %s. Tasks wait %s on "
               "average, and one of a hundred %s or longer.",
               nearest_name(verdict, nearest, name, sizeof name), SAY_SHARE(full), SAY_RATE(1 / full),
               SAY_TIME(result->wait.mean), SAY_TIME(result->wait.p99));
}

static void load_say(const struct verdict *verdict)
{
    struct result *result = verdict->result;
    char why[96];
    if (verdict->load_behind > BEHIND_MAX)
        snprintf(why, sizeof why, "%s of the pushes came late", SAY_SHARE(verdict->load_behind));
    else
        snprintf(why, sizeof why, "it used %s of one processor", SAY_SHARE(result->overhead_share));
    ANSWER("The dry run itself did not keep up: at %s tasks a second %s. What was measured holds for that load, and "
           "nothing can be said of a greater one.",
           SAY_RATE(verdict->result->overheads.arrivals), why);
}

static void bottleneck_say(const struct verdict *verdict, enum result_bottleneck bottleneck)
{
    struct result *result = verdict->result;
    switch (bottleneck) {
    case RESULT_RESOURCE:
        resource_say(verdict);
        return;
    case RESULT_RUNNERS:
        runners_say(verdict);
        return;
    case RESULT_QUEUE_NODE:
        node_say(verdict, verdict->queue_node, "queue node");
        return;
    case RESULT_LOCK_NODES:
        node_say(verdict, verdict->lock_node, "lock node");
        return;
    case RESULT_WORKER_CPU:
        ANSWER("The bottleneck is the worker process: its loop, one thread, is busy %s of the time, at %s tasks a "
               "second in %u process%s.",
               SAY_SHARE(verdict->full[bottleneck]), SAY_RATE(result->throughput), verdict->processes,
               verdict->processes == 1 ? "" : "es");
        return;
    default:
        ANSWER(
            "The bottleneck is this machine: the dry run keeps its %u processors busy %s of the time. On machines of "
            "their own, nodes and workers would do more than this.",
            verdict->host->processors, SAY_SHARE(verdict->full[bottleneck]));
    }
}

/* Before anything else. What the model does not know can be many things. */
static void gap_say(struct result *result, bool is_all)
{
    char model[96];
    ANSWER("Tasks waited %s on average%s%s", SAY_TIME(result->wait.mean), model_says(result, "", model, sizeof model),
           is_all
               ? ": something that it does not know held them up (a node, a worker or this machine that stood still, "
                 "a share, tasks that came in bursts), so nothing can be said of a greater load."
               : ". ");
}

static void load_judge(struct verdict *verdict)
{
    struct result *result = verdict->result;
    enum result_bottleneck fullest = fullest_of(verdict);
    double full = verdict->full[fullest];
    bool is_late = verdict->load_behind > BEHIND_MAX || result->overhead_share > FULL;
    verdict->has_gap = has_gap(result, full);
    if (verdict->has_gap)
        gap_say(result, full < NEARLY_FULL && !is_late);
    if (full >= NEARLY_FULL) {
        result->bottleneck = fullest;
        result->headroom = 1 / full;
        bottleneck_say(verdict, fullest);
    } else if (is_late) {
        result->bottleneck = RESULT_LOAD;
        load_say(verdict);
    } else if (!verdict->has_gap) {
        result->bottleneck = RESULT_NONE;
        result->headroom = verdict->is_crowded ? 0 : 1 / full;
        room_say(verdict, fullest);
    }
}

static void decide(struct verdict *verdict)
{
    struct result *result = verdict->result;
    unsigned faults = faults_done(result);
    result->bottleneck = RESULT_UNKNOWN;
    result->headroom = 0;
    result->answer[0] = '\0';
    if (faults > 0) {
        faults_say(result, faults);
    } else if (is_trouble(result)) {
        result->bottleneck = RESULT_TROUBLE;
        trouble_say(verdict);
    } else if (is_too_little(result) || verdict->full[fullest_of(verdict)] <= 0) {
        little_say(result);
    } else {
        load_judge(verdict);
    }
}

/* --- advice ------------------------------------------------------------------------------------------------------- */

/* What would help, and what would not. Numbers of runs that did not take place are the model's: both what it expects of
 * the change and what it expects of the run as it was, so that its error is in both. */
static char *advice_next(struct result *result)
{
    static char too_much[RESULT_TEXT_MAX];
    return result->advice_count < RESULT_ADVICE_MAX ? result->advice[result->advice_count++] : too_much;
}

static struct result_expected expected_with(const struct verdict *verdict, struct expectation_change change)
{
    return expectation_of(verdict->result, &change);
}

static bool is_better(const struct result_expected *now, const struct result_expected *then)
{
    if (then->throughput > now->throughput * (1 + WORTH_SAYING))
        return true;
    if (now->wait < 0 || then->wait < 0)
        return now->wait < 0 && then->wait >= 0;
    return then->wait < now->wait * (1 - WORTH_SAYING);
}

/* "the wait goes from 5 ms to 3 ms": what of it there is. */
static void effect_write(char *out, size_t size, const struct result_expected *now, const struct result_expected *then)
{
    char throughput[128] = "", wait[160];
    bool is_same = fabs(then->throughput - now->throughput) < 0.01 * now->throughput &&
                   (fabs(then->wait - now->wait) < 0.01 * fabs(now->wait) || (now->wait < 0 && then->wait < 0));
    if (is_same) {
        snprintf(out, size, "no difference");
        return;
    }
    if (fabs(then->throughput - now->throughput) > now->throughput * WORTH_SAYING)
        snprintf(throughput, sizeof throughput, "%s tasks a second instead of %s, and ", SAY_RATE(then->throughput),
                 SAY_RATE(now->throughput));
    if (then->wait < 0)
        snprintf(wait, sizeof wait, "a wait that still grows");
    else if (now->wait < 0)
        snprintf(wait, sizeof wait, "a mean wait of %s instead of one that grows", SAY_TIME(then->wait));
    else
        snprintf(wait, sizeof wait, "a mean wait of %s instead of %s", SAY_TIME(then->wait), SAY_TIME(now->wait));
    snprintf(out, size, "%s%s", throughput, wait);
}

/* What the model expects of the change, in words; true when it is better. */
static bool change_helps(const struct verdict *verdict, struct expectation_change change, char effect[EFFECT_MAX])
{
    const struct result_expected *now = &verdict->result->expected;
    struct result_expected then = expected_with(verdict, change);
    effect_write(effect, EFFECT_MAX, now, &then);
    return is_better(now, &then);
}

static void more_threads(const struct verdict *verdict)
{
    char effect[EFFECT_MAX];
    bool helps = change_helps(verdict, (struct expectation_change){.holds = 1, .runners = 2, .spread = 1}, effect);
    SAY(advice_next(verdict->result),
        helps ? "Twice as many threads (%u): the model expects %s."
              : "More threads would not help: with twice as many (%u) the model expects %s.",
        2 * verdict->runners, effect);
}

/* Half of them, for as long as nothing gets worse. */
static void fewer_threads(const struct verdict *verdict)
{
    const struct result_expected *now = &verdict->result->expected;
    struct expectation_change change = EXPECTATION_AS_IT_WAS;
    struct result_expected enough = *now;
    unsigned runners = verdict->runners;
    for (unsigned fewer = runners / 2; fewer >= 1; fewer /= 2) {
        change.runners = (double)fewer / verdict->runners;
        struct result_expected then = expected_with(verdict, change);
        bool is_worse = then.throughput < now->throughput * (1 - WORTH_SAYING) || then.utilisation > 0.7 ||
                        (now->wait >= 0 && (then.wait < 0 || then.wait > now->wait * (1 + WORTH_SAYING)));
        if (is_worse)
            break;
        enough = then;
        runners = fewer;
    }
    if (runners == verdict->runners)
        return;
    char effect[EFFECT_MAX];
    effect_write(effect, sizeof effect, now, &enough);
    SAY(advice_next(verdict->result),
        "Fewer threads would do: %u of them are taken %s of the time; with %u the model expects %s.", verdict->runners,
        SAY_SHARE(verdict->result->utilisation), runners, effect);
}

/* --- machines ----------------------------------------------------------------------------------------------------- */

static void machines_advise(const struct verdict *verdict)
{
    static const char *const helps[RESULT_UNKNOWN + 1] = {
        [RESULT_WORKER_CPU] =
            "One more worker process, or a host: each has a loop of its own. More threads in the same "
            "processes would not help.",
        [RESULT_QUEUE_NODE] = "The queue node is one thread: a faster processor for it, or queues on another node, "
                              "would help; more workers or threads would not.",
        [RESULT_LOCK_NODES] = "Each lock node takes part in every lock: faster processors for them would help; more "
                              "nodes, workers or threads would not.",
        [RESULT_LOAD] = "A smaller --rate, or a machine that does nothing else, for a run to rely on."};
    struct result *result = verdict->result;
    if (helps[result->bottleneck] != NULL)
        SAY(advice_next(result), "%s", helps[result->bottleneck]);
    else if (result->bottleneck == RESULT_MACHINE && result->plan.is_local) /* no other host reaches its nodes */
        SAY(advice_next(result),
            "More processors, or a run (-c FILE) on nodes on machines of their own, in which other "
            "hosts can take part.");
    else if (result->bottleneck == RESULT_MACHINE)
        SAY(advice_next(result),
            "More processors, or a run of several hosts (--name and --hosts), and nodes on machines of their own.");
}

static void others_advise(const struct verdict *verdict)
{
    if (verdict->is_crowded)
        SAY(advice_next(verdict->result),
            "The %u processors of this machine were busy %s of the time, and what this run started took %s of them: "
            "all latencies are longer for that than on a machine of its own.",
            verdict->host->processors, SAY_SHARE(verdict->host->machine_busy), SAY_SHARE(verdict->own_busy));
}

static void losses_advise(const struct verdict *verdict)
{
    struct result *result = verdict->result;
    if (result->overlaps > 0)
        SAY(advice_next(result),
            "Two handlers were in the same resource at once %s time%s, as the overlap detector saw; what writes there "
            "should compare fencing tokens%s.",
            SAY_COUNT(result->overlaps), human_plural((int64_t)result->overlaps),
            result->overlaps_unfenced > 0 ? ", and not all had tokens that differ" : ", which would have told");
    else if (result->lost > 0)
        SAY(advice_next(result),
            "%s lock%s lost while the handler ran: a longer ttl outlives longer pauses of nodes and workers.",
            SAY_COUNT(result->lost), result->lost == 1 ? " was" : "s were");
}

static void advise(struct verdict *verdict)
{
    struct result *result = verdict->result;
    char effect[EFFECT_MAX];
    bool is_of_tasks = result->bottleneck == RESULT_NONE || result->bottleneck == RESULT_RESOURCE ||
                       result->bottleneck == RESULT_RUNNERS;
    machines_advise(verdict);
    others_advise(verdict);
    losses_advise(verdict);
    if (!result->expected.is_known || !is_of_tasks || verdict->has_gap)
        return;
    if (result->bottleneck != RESULT_NONE || verdict->full[RESULT_RUNNERS] > HARDLY_USED)
        more_threads(verdict);
    fewer_threads(verdict);
    if (change_helps(verdict, (struct expectation_change){.holds = 0.8, .runners = 1, .spread = 1}, effect))
        SAY(advice_next(result), "Holds that are a fifth shorter: the model expects %s.", effect);
    /* The one with the greatest load is that which the model can divide. */
    if (verdict->fullest == &result->resources[0] &&
        change_helps(verdict, (struct expectation_change){.holds = 1, .runners = 1, .spread = 2}, effect))
        SAY(advice_next(result), "If %s were two resources with half of its tasks each: the model expects %s.",
            SAY_NAME(verdict->fullest->name), effect);
}

/* Each host sees its own tasks. */
static void merge_advise(struct result *result)
{
    if (result->host_count > 1)
        SAY(advice_next(result),
            "Joined from %zu hosts, each of which counted its own tasks. What only both of two hosts together could "
            "see is not in it: overlaps between their tasks, late writes that a fence refused there, and how long a "
            "lock took from the one host to the other.",
            result->host_count);
}

void verdict_make(struct result *result)
{
    struct verdict verdict = {.result = result};
    result->advice_count = 0;
    result->answer[0] = '\0';
    if (result_is_part(result)) {
        result->bottleneck = RESULT_UNKNOWN;
        ANSWER("This is a part: %zu of %u hosts. What the run shows, the results of all of them say together: "
               "holdfast dry-run merge FILE ...",
               result->host_count, result->plan.hosts);
        return;
    }
    resources_look(&verdict);
    hosts_look(&verdict);
    nodes_look(&verdict);
    runners_look(&verdict);
    machine_look(&verdict);
    decide(&verdict);
    if (!is_trouble(result) && !is_too_little(result))
        advise(&verdict);
    merge_advise(result);
}
