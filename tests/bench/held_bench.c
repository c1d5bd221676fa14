/* What it costs to keep locks: takes --locks of them, then measures for --secs how much of a core the library uses to
 * keep them extended, and tells how often it did.
 *
 *     held-bench --ports P,P,... [--locks N] [--secs S] [--ttl-ms T]
 *
 * One JSON line goes to standard output. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"
#include "redlock/redlock_loop.h"
#include "tests/support/cpu_time.h"
#include "tests/support/loop_until.h"

#define GRACE_NS (60 * NS_PER_S)

static struct loop *loop;
static struct redlock_node nodes[REDLOCK_NODES_MAX];
static struct redlock_options options = {.nodes = nodes, .key_prefix = "lock:", .client_name = "held-bench"};
static unsigned locks = 10000, held, lost, others;
static uint64_t extended;

_Noreturn static void fail(const char *text)
{
    fprintf(stderr, "held-bench: %s\n", text);
    exit(1);
}

static void lock_event(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    (void)lock;
    (void)context;
    held += event->kind == REDLOCK_EVENT_ANSWER && event->answer == REDLOCK_ACQUIRED;
    others += event->kind == REDLOCK_EVENT_ANSWER && event->answer != REDLOCK_ACQUIRED;
    extended += event->kind == REDLOCK_EVENT_EXTENDED;
    lost += event->kind == REDLOCK_EVENT_LOST;
}

static void lock_take(struct redlock_group *group, const struct redlock_terms *terms, unsigned number)
{
    char name[32];
    const char *resource = name;
    snprintf(name, sizeof name, "held%u", number);
    struct redlock_lock *lock = redlock_lock_create(group, terms, lock_event, NULL);
    if (!redlock_lock_acquire(lock, &(struct redlock_request){.resources = &resource, .resource_count = 1}))
        fail("a request is refused");
}

static bool is_settled(void *group)
{
    return redlock_group_is_settled(group);
}

static bool are_answered(void *wanted)
{
    return held + others >= *(const unsigned *)wanted;
}

static bool never(void *nothing)
{
    (void)nothing;
    return false;
}

/* Some at a time, so that their extensions spread as those of a fleet at work do. */
static void locks_take(struct redlock_group *group, const struct redlock_terms *terms)
{
    for (unsigned number = 0; number < locks;) {
        unsigned until = number + 100 < locks ? number + 100 : locks;
        while (number < until)
            lock_take(group, terms, number++);
        if (!loop_until(loop, are_answered, &number, GRACE_NS))
            fail("the nodes do not answer");
    }
    if (others > 0)
        fail("not every lock was had: is there a lock group, and nothing else at work?");
}

static void ports_take(char *text)
{
    char *word = NULL;
    while ((word = strsep(&text, ",")) != NULL && options.node_count < REDLOCK_NODES_MAX)
        nodes[options.node_count++] =
            (struct redlock_node){.host = "127.0.0.1", .port = (unsigned)strtoul(word, NULL, 10), .timeout_ms = 500};
}

int main(int count, char **words)
{
    static const struct option known[] = {{"ports", required_argument, NULL, 'p'},
                                          {"locks", required_argument, NULL, 'l'},
                                          {"secs", required_argument, NULL, 's'},
                                          {"ttl-ms", required_argument, NULL, 't'},
                                          {NULL, 0, NULL, 0}};
    struct redlock_terms terms = {.tries = 1};
    char reason[256];
    double seconds = 20;
    int option = 0;
    while ((option = getopt_long(count, words, "", known, NULL)) != -1) {
        if (option == 'p')
            ports_take(optarg);
        else if (option == 'l')
            locks = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 's')
            seconds = strtod(optarg, NULL);
        else if (option == 't')
            terms.ttl_ms = strtol(optarg, NULL, 10);
        else
            return 2;
    }
    log_set_level(LOG_WARN);
    loop = loop_create(NULL);
    if (!redlock_terms_check(&terms, &options, reason, sizeof reason))
        fail(reason);
    struct redlock_group *group = redlock_group_create(loop, &options, reason, sizeof reason);
    if (group == NULL)
        fail(reason);
    (void)loop_until(loop, is_settled, group, GRACE_NS);
    locks_take(group, &terms);
    int64_t before_us = cpu_time_us();
    uint64_t extended_before = extended;
    (void)loop_until(loop, never, NULL, (int64_t)(seconds * (double)NS_PER_S));
    double used = (double)(cpu_time_us() - before_us) / 1e6 / seconds;
    printf("{\"locks\": %u, \"secs\": %.1f, \"core\": %.4f, \"extended\": %" PRIu64 ", \"lost\": %u}\n", held, seconds,
           used, extended - extended_before, lost);
    fflush(stdout);
    _Exit(lost > 0); /* what is held expires by its ttl */
}
