/* Many processes wait for one lock, as many shells do: how long it is free between two holds, and how many attempts at
 * the nodes that costs. Each is a client of its own, with its connections and subscriptions; that they share a thread
 * shows nowhere. All ask at the same moment at first, as from cron. Messages take up to 20 ms, as on a busy machine, so
 * that votes split easily.
 *
 *     HF_WAITERS=1000 build/tests/sim/test_waiters       measures another number of them */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "redlock/group_private.h"
#include "redlock/redlock_nodes.h"
#include "tests/sim/world/node.h"

#define HOLD_NS (50 * NS_PER_MS)
#define REST_NS (500 * NS_PER_MS)
enum { NODES = 5, TTL_MS = 8000, HOLDS = 40 };

struct waiter {
    struct redlock_group *group;
    struct redlock_lock *lock;
    struct loop_timer timer;
};

static struct {
    struct node *nodes[NODES];
    struct loop *loop;
    struct waiter *waiters;
    unsigned count, holds;
    bool is_held;
    struct instant settled, freed;
    int64_t free_ns, longest_ns;
    uint64_t attempts_at_first, attempts;
} crowd;

static uint64_t attempts(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < crowd.count; i++)
        sum += redlock_group_counters(crowd.waiters[i].group)->attempts;
    return sum;
}

static void waiter_acts(struct loop_timer *timer)
{
    struct waiter *waiter = list_owner(timer, struct waiter, timer);
    const char *resource = "r";
    if (redlock_lock_is_free(waiter->lock)) {
        assert_true(redlock_lock_acquire(
            waiter->lock, &(struct redlock_request){.resources = &resource, .resource_count = 1, .owner = "w"}));
        return;
    }
    crowd.is_held = false;
    crowd.freed = loop_now(crowd.loop);
    redlock_lock_release(waiter->lock);
}

static void acquired(void)
{
    int64_t ns = instant_since(crowd.freed, loop_now(crowd.loop));
    assert_false(crowd.is_held);
    crowd.is_held = true;
    if (instant_before(loop_now(crowd.loop), crowd.settled)) {
        crowd.attempts_at_first = attempts();
        return;
    }
    crowd.free_ns += ns;
    crowd.longest_ns = ns > crowd.longest_ns ? ns : crowd.longest_ns;
    if (++crowd.holds == HOLDS)
        world_stop();
}

static void told(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    struct waiter *waiter = context;
    (void)lock;
    if (event->kind == REDLOCK_EVENT_RELEASED) {
        loop_timer_set(crowd.loop, &waiter->timer, loop_after(crowd.loop, REST_NS));
    } else if (event->kind == REDLOCK_EVENT_ANSWER) {
        assert_int_equal(event->answer, REDLOCK_ACQUIRED);
        loop_timer_set(crowd.loop, &waiter->timer, loop_after(crowd.loop, HOLD_NS));
        acquired();
    }
}

static const struct redlock_options *options(void)
{
    static struct redlock_node list[NODES];
    static const struct redlock_options all = {.nodes = list, .node_count = NODES};
    for (unsigned i = 0; i < NODES; i++)
        list[i] = (struct redlock_node){.name = crowd.nodes[i]->name, .host = crowd.nodes[i]->name, .port = 6379};
    return &all;
}

static void clients_main(void *argument)
{
    struct redlock_group_terms group_terms = {.max_ttl_ms = TTL_MS};
    struct redlock_terms terms = {.ttl_ms = TTL_MS, .wait_ms = 3600 * 1000};
    struct redlock_nodes *session = redlock_nodes_open(options(), NULL, 0);
    (void)argument;
    assert_int_equal(redlock_nodes_init(session, &group_terms), REDLOCK_NODES_DONE);
    redlock_nodes_close(session);
    crowd.loop = loop_create(NULL);
    crowd.waiters = memory_zeroed(crowd.count, sizeof *crowd.waiters);
    assert_true(redlock_terms_check(&terms, options(), NULL, 0));
    for (unsigned i = 0; i < crowd.count; i++) {
        struct waiter *waiter = &crowd.waiters[i];
        waiter->group = redlock_group_create(crowd.loop, options(), NULL, 0);
        waiter->lock = redlock_lock_create(waiter->group, &terms, told, waiter);
        loop_timer_init(&waiter->timer, waiter_acts);
        loop_timer_set(crowd.loop, &waiter->timer, loop_after(crowd.loop, NS_PER_S));
    }
    /* By then all have been refused, and listen. */
    crowd.settled = loop_after(crowd.loop, 10 * NS_PER_S);
    loop_run(crowd.loop);
}

static void watch(unsigned count)
{
    static const char *const names[NODES] = {"lock1", "lock2", "lock3", "lock4", "lock5"};
    memset(&crowd, 0, sizeof crowd);
    crowd.count = count;
    world_begin(1);
    network_begin();
    struct host *host = host_create("clients");
    for (unsigned i = 0; i < NODES; i++) {
        crowd.nodes[i] = node_create(names[i]);
        network_path(host, crowd.nodes[i]->host)->most_ns = 20 * NS_PER_MS;
        network_path(crowd.nodes[i]->host, host)->most_ns = 20 * NS_PER_MS;
    }
    process_start(host, "clients", clients_main, NULL);
    world_run(instant_after(world_time(), 600 * NS_PER_S));
    crowd.attempts = attempts() - crowd.attempts_at_first;
    print_message("%u waiters: %.1f attempts each at first; then free for %.1f ms in the mean, and at most %.1f ms; "
                  "%.1f attempts a hold\n",
                  count, (double)crowd.attempts_at_first / count, (double)crowd.free_ns / HOLDS / 1e6,
                  (double)crowd.longest_ns / 1e6, (double)crowd.attempts / HOLDS);
}

TEST(a_lock_is_had_soon_after_its_release_however_many_wait)
{
    static const unsigned counts[] = {10, 100};
    const char *wanted = getenv("HF_WAITERS");
    for (unsigned i = 0; i < (wanted != NULL ? 1 : sizeof counts / sizeof counts[0]); i++) {
        watch(wanted != NULL ? (unsigned)strtoul(wanted, NULL, 10) : counts[i]);
        assert_int_equal(crowd.holds, HOLDS);
        assert_in_range(crowd.free_ns / HOLDS, 0, 60 * NS_PER_MS);
        assert_in_range(crowd.longest_ns, 0, 250 * NS_PER_MS);
        assert_in_range(crowd.attempts, HOLDS - 1, 2 * HOLDS + HOLDS / 4);
        assert_true(wanted != NULL || crowd.count < 100 || crowd.attempts_at_first < 7 * crowd.count);
    }
}

RUN_TESTS
