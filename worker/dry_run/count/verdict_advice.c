/* What would help, and what would not. Numbers of runs that did not take place are the model's: both what it expects of
 * the change and what it expects of the run as it was, so that its error is in both. */
#include <stdio.h>

#include "worker/dry_run/count/expectation.h"
#include "worker/dry_run/count/verdict_private.h"

#define HARDLY_USED  0.4  /* of the runners: fewer would do */
#define WORTH_SAYING 0.05 /* by this share something changes */

static char *advice_next(struct result *result)
{
    static char too_much[RESULT_TEXT_MAX];
    return result->advice_count < RESULT_ADVICE_MAX ? result->advice[result->advice_count++] : too_much;
}

static struct result_expected expected_with(const struct verdict *verdict, struct expectation_change change)
{
    return expectation_of(verdict->result, &verdict->result->plan, verdict->overheads, &change);
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

/* --- threads ------------------------------------------------------------------------------------------------------ */

static void more_threads(const struct verdict *verdict, const struct result_expected *now)
{
    struct expectation_change change = EXPECTATION_AS_IT_WAS;
    change.runners = 2;
    struct result_expected then = expected_with(verdict, change);
    char effect[320];
    effect_write(effect, sizeof effect, now, &then);
    if (is_better(now, &then))
        verdict_say(advice_next(verdict->result), "Twice as many threads (%u): the model expects %s.",
                    2 * verdict->runners, effect);
    else
        verdict_say(advice_next(verdict->result),
                    "More threads would not help: with twice as many (%u) the model expects %s.", 2 * verdict->runners,
                    effect);
}

/* Half of them, for as long as nothing gets worse. */
static void fewer_threads(const struct verdict *verdict, const struct result_expected *now)
{
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
    char effect[320];
    effect_write(effect, sizeof effect, now, &enough);
    verdict_say(advice_next(verdict->result),
                "Fewer threads would do: %u of them are taken %s of the time; with %u the model expects %s.",
                verdict->runners, SAY_SHARE(verdict->result->utilisation), runners, effect);
}

/* --- holds and resources ------------------------------------------------------------------------------------------ */

static void shorter_holds(const struct verdict *verdict, const struct result_expected *now)
{
    struct expectation_change change = EXPECTATION_AS_IT_WAS;
    change.holds = 0.8;
    struct result_expected then = expected_with(verdict, change);
    char effect[320];
    effect_write(effect, sizeof effect, now, &then);
    if (is_better(now, &then))
        verdict_say(advice_next(verdict->result), "Holds that are a fifth shorter: the model expects %s.", effect);
}

/* The one with the greatest load is that which the model can divide. */
static void hottest_spread(const struct verdict *verdict, const struct result_expected *now)
{
    struct result *result = verdict->result;
    struct expectation_change change = EXPECTATION_AS_IT_WAS;
    change.spread = 2;
    struct result_expected then = expected_with(verdict, change);
    char effect[320];
    effect_write(effect, sizeof effect, now, &then);
    if (verdict->fullest == &result->resources[0] && is_better(now, &then))
        verdict_say(advice_next(result), "If %s were two resources with half of its tasks each: the model expects %s.",
                    SAY_NAME(verdict->fullest->name), effect);
}

/* --- machines ----------------------------------------------------------------------------------------------------- */

static void machines_advise(const struct verdict *verdict)
{
    struct result *result = verdict->result;
    switch (result->bottleneck) {
    case RESULT_WORKER_CPU:
        verdict_say(
            advice_next(result),
            "One more worker process, or a host: each has a loop of its own. More threads in the same processes "
            "would not help.");
        return;
    case RESULT_QUEUE_NODE:
        verdict_say(advice_next(result),
                    "The queue node is one thread: a faster processor for it, or queues on another node, would help; "
                    "more workers or threads would not.");
        return;
    case RESULT_LOCK_NODES:
        verdict_say(
            advice_next(result),
            "Each lock node takes part in every lock (%s commands for a hold): faster processors for them would "
            "help; more nodes, workers or threads would not.",
            SAY_RATE(result->commands_per_hold));
        return;
    case RESULT_MACHINE:
        if (result->plan.is_local) /* no other host reaches its nodes */
            verdict_say(advice_next(result), "More processors, or a run (-c FILE) on nodes on machines of their own, "
                                             "in which other hosts can take part.");
        else
            verdict_say(advice_next(result),
                        "More processors, or more hosts that take part (`holdfast dry-run --join %s -c FILE` while it "
                        "runs), and nodes on machines of their own.",
                        result->plan.id);
        return;
    case RESULT_LOAD:
        verdict_say(advice_next(result),
                    "A smaller --rate, or a machine that does nothing else, for a run to rely on.");
        return;
    default:
        return;
    }
}

/* Others may have used them, too. */
static void processors_advise(const struct verdict *verdict)
{
    struct result *result = verdict->result;
    if (verdict->full[RESULT_MACHINE] > 0.95 && result->bottleneck != RESULT_MACHINE)
        verdict_say(
            advice_next(result),
            "The %u processors of this machine were busy %s of the time, by the dry run and others: all latencies "
            "are longer for that than on machines with room.",
            verdict->facts->processors, SAY_SHARE(verdict->full[RESULT_MACHINE]));
}

static void losses_advise(const struct verdict *verdict)
{
    struct result *result = verdict->result;
    if (result->overlaps > 0)
        verdict_say(advice_next(result),
                    "Two handlers were in the same resource at once %s time%s, as the witness saw; what writes there "
                    "should compare fencing tokens%s.",
                    SAY_COUNT(result->overlaps), human_plural((int64_t)result->overlaps),
                    result->overlaps_unfenced > 0 ? ", and not all had tokens that differ" : ", which would have told");
    else if (result->lost > 0)
        verdict_say(advice_next(result),
                    "%s lock%s lost while the handler ran: a longer ttl outlives longer pauses of nodes and workers.",
                    SAY_COUNT(result->lost), result->lost == 1 ? " was" : "s were");
}

void verdict_advise(struct verdict *verdict)
{
    const struct result *result = verdict->result;
    struct result_expected now = result->expected;
    bool is_of_tasks = result->bottleneck == RESULT_NONE || result->bottleneck == RESULT_RESOURCE ||
                       result->bottleneck == RESULT_RUNNERS;
    machines_advise(verdict);
    processors_advise(verdict);
    losses_advise(verdict);
    if (!now.is_known || !is_of_tasks)
        return;
    if (result->bottleneck != RESULT_NONE || verdict->full[RESULT_RUNNERS] > HARDLY_USED)
        more_threads(verdict, &now);
    if (result->bottleneck != RESULT_RUNNERS && verdict->full[RESULT_RUNNERS] < HARDLY_USED)
        fewer_threads(verdict, &now);
    shorter_holds(verdict, &now);
    hottest_spread(verdict, &now);
}
