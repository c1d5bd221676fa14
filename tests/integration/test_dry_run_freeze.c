/* A holder that stands still for longer than its lock is valid, in the workers of a dry run: another process enters
 * what the frozen one never left, the overlap detector sees both, and what the late one would still write has the
 * smaller token.
 *
 * Nothing here counts on time: holds last longer than the test, it is frozen who is known to be inside, and it is
 * thawed when another one is known to be. */
#include "tests/support/test.h"

#include <stdio.h>

#include "tests/support/dry_config_fixture.h"
#include "worker/dry_run/count/overlap_detector.h"

enum { LOCK_NODES = 3, PROCESSES = 2, VISITS_MAX = 1000 };

/* Short, so that the test is; but a machine that stands still for a moment must not end locks by itself. */
#define TTL_NS (3 * NS_PER_S)

struct visit {
    unsigned process;
    char jid[LOAD_JID_DIGITS + 1];
    uint64_t token;
    bool has_left;
};

static struct {
    struct overlap_detector *detector;
    struct visit visits[VISITS_MAX];
    unsigned visit_count, overlaps, unfenced, refusals;
} seen;

/* --- what is seen ------------------------------------------------------------------------------------------------- */

static void overlap_seen(void *context, unsigned resource, bool is_fenced)
{
    (void)context, (void)resource;
    seen.overlaps++;
    seen.unfenced += !is_fenced;
}

static void refusal_seen(void *context, unsigned resource)
{
    (void)context, (void)resource;
    seen.refusals++;
}

static struct visit *visit_find(const struct handler_event *event)
{
    for (unsigned i = 0; i < seen.visit_count; i++)
        if (seen.visits[i].token == event->token && strcmp(seen.visits[i].jid, event->jid) == 0)
            return &seen.visits[i];
    return NULL;
}

static void take(void *context, unsigned number, const struct record *record)
{
    (void)context;
    const struct handler_event *event = &record->event;
    if (record->kind != RECORD_ENTER && record->kind != RECORD_LEAVE)
        return;
    struct overlap_visit visit = {.process = number - 1, .jid = event->jid, .token = event->token, .at = event->at};
    if (record->kind == RECORD_LEAVE) {
        overlap_detector_left(seen.detector, &visit);
        struct visit *left = visit_find(event);
        assert_non_null(left);
        left->has_left = true;
        return;
    }
    overlap_detector_entered(seen.detector, &visit);
    assert_true(seen.visit_count < VISITS_MAX);
    struct visit *entered = &seen.visits[seen.visit_count++];
    *entered = (struct visit){.process = number, .token = event->token};
    snprintf(entered->jid, sizeof entered->jid, "%s", event->jid);
}

static void ended(void *context, const struct workforce_exit *end)
{
    (void)context, (void)end;
}

static bool look(void)
{
    while (workforce_read(workforce, 1000, take, NULL) > 0)
        continue;
    workforce_reap(workforce, ended, NULL);
    return true;
}

/* The last that entered, when it is inside. */
static struct visit *holder(void)
{
    struct visit *last = seen.visit_count > 0 ? &seen.visits[seen.visit_count - 1] : NULL;
    return look() && last != NULL && !last->has_left ? last : NULL;
}

static bool is_stopped(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT | WNOHANG) == 0 && info.si_pid == pid;
}

/* Freezes who is inside, and looks whether it still was when it stood still: its lock may have ended by itself. */
static struct visit *holder_freeze(void)
{
    for (;;) {
        struct visit *frozen;
        test_await((frozen = holder()) != NULL);
        assert_true(workforce_signal(workforce, frozen->process, SIGSTOP));
        test_await(is_stopped(workforce_pid(workforce, frozen->process)));
        look();
        if (!frozen->has_left)
            return frozen;
        assert_true(workforce_signal(workforce, frozen->process, SIGCONT));
    }
}

static bool has_other(const struct visit *visit)
{
    for (unsigned i = 0; i < seen.visit_count; i++)
        if (seen.visits[i].process != visit->process && seen.visits[i].token > visit->token)
            return true;
    return false;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    static const struct overlap_told told = {.overlap = overlap_seen, .refusal = refusal_seen};
    dry_nodes_start(LOCK_NODES);
    plan_begin(PROCESSES, 1, 1, (struct distribution){.kind = DISTRIBUTION_FIXED, .mean_s = 600});
    plan.for_ns = 3600 * NS_PER_S;
    seen.detector = overlap_detector_create(&told);
    config_make();
    config->lock.ttl_ns = TTL_NS;
    workforce_make();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    plan_end();
    overlap_detector_destroy(seen.detector);
    dry_nodes_stop();
    return 0;
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

TEST(who_is_frozen_beyond_the_ttl_is_overtaken_and_fenced_off)
{
    push(4);
    workforce_go(workforce);
    struct visit *frozen = holder_freeze();
    test_await(look() && has_other(frozen));
    assert_false(frozen->has_left); /* so both are inside */
    unsigned refusals = seen.refusals;
    assert_true(workforce_signal(workforce, frozen->process, SIGCONT));
    test_await(look() && frozen->has_left);
    assert_true(seen.refusals > refusals);
    workforce_stop(workforce);
    test_await(look() && workforce_alive(workforce) == 0);
    look();
    assert_true(seen.overlaps > 0);
    assert_int_equal(seen.unfenced, 0);
    assert_int_equal(workforce_records_lost(workforce), 0);
}

RUN_TESTS_WITH(set_up, tear_down)
