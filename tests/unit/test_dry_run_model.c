/* The queueing formulas are put beside closed forms where there are some, and beside simulations of the same systems
 * that know nothing of formulas. The simulations draw from a seed, so they come out the same every time. */
#include "tests/support/test.h"

#include <math.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/memory.h"
#include "worker/dry_run/count/model.h"
#include "worker/dry_run/plan/distribution.h"

#define assert_near(value, wanted, share)                                                                              \
    do {                                                                                                               \
        double is = (value), should = (wanted);                                                                        \
        if (!(fabs(is - should) <= (share)*fabs(should) + 1e-12))                                                      \
            fail_msg("%s is %g and not %g (%+.1f %%)", #value, is, should, 100 * (is / should - 1));                   \
    } while (0)

/* --- chance ------------------------------------------------------------------------------------------------------- */

static uint64_t chance = 1;

static double uniform(void)
{
    chance += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t mixed = (chance ^ (chance >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((mixed ^ (mixed >> 31)) >> 11) * 0x1p-53;
}

static double draw(const struct distribution *time)
{
    return time->mean_s > 0 ? distribution_at(time, uniform()) : 0;
}

static struct model_time moments(const struct distribution *time)
{
    return (struct model_time){distribution_mean(time), distribution_second_moment(time)};
}

static const struct distribution nothing = {.kind = DISTRIBUTION_FIXED, .mean_s = 0};
static const struct distribution exponential = {.kind = DISTRIBUTION_EXPONENTIAL, .mean_s = 0.005};
static const struct distribution fixed = {.kind = DISTRIBUTION_FIXED, .mean_s = 0.005};
static const struct distribution lognormal = {.kind = DISTRIBUTION_LOGNORMAL, .mean_s = 0.005, .sigma = 1};

/* What a resource is like. */
struct nature {
    const struct distribution *hold, *base, *changeover;
    const struct distribution *lone; /* a changeover to the only one that waits; NULL = as any */
};

static struct model_service service_of(const struct nature *nature)
{
    const struct distribution *lone = nature->lone != NULL ? nature->lone : nature->changeover;
    return (struct model_service){moments(nature->hold), moments(nature->base), moments(nature->changeover),
                                  moments(lone)};
}

/* --- one resource, open ------------------------------------------------------------------------------------------- */

/* Mean wait of so many tasks that come by chance. */
static double simulate_resource(const struct nature *nature, double rate, unsigned tasks)
{
    const struct distribution *lone = nature->lone != NULL ? nature->lone : nature->changeover;
    double now = 0, after = -log1p(-uniform()) / rate, left = 0, waits = 0;
    for (unsigned i = 0; i < tasks; i++) {
        now = after;
        after -= log1p(-uniform()) / rate;
        double locked = now >= left ? now + draw(nature->base) : left + draw(after < left ? nature->changeover : lone);
        left = locked + draw(nature->hold);
        waits += locked - now;
    }
    return waits / tasks;
}

TEST(exponential_holds_are_the_closed_form)
{
    struct nature nature = {&exponential, &nothing, &nothing, NULL};
    struct model_service service = service_of(&nature);
    for (double full = 0.1; full < 0.95; full += 0.1) {
        struct model_outcome outcome = model_resource(&service, full / 0.005);
        assert_near(outcome.wait, full / (1 - full) * 0.005, 1e-9);
        assert_near(outcome.utilisation, full, 1e-9);
        assert_near(outcome.throughput, full / 0.005, 1e-9);
    }
}

TEST(fixed_holds_wait_half_as_long)
{
    struct nature nature = {&fixed, &nothing, &nothing, NULL};
    struct model_service service = service_of(&nature);
    assert_near(model_resource(&service, 160).wait, 0.8 / 0.2 * 0.005 / 2, 1e-9);
}

TEST(a_base_latency_is_a_setup_and_nothing_else)
{
    struct nature nature = {&exponential, &fixed, &nothing, NULL};
    struct model_service service = service_of(&nature);
    double rate = 100, setup = 0.005; /* M/G/1 with a setup D: + (2 E[D] + rate E[D^2]) / (2 (1 + rate E[D])) */
    double wanted = 0.005 + (2 * setup + rate * setup * setup) / (2 * (1 + rate * setup));
    assert_near(model_resource(&service, rate).wait, wanted, 1e-9);
    assert_near(model_resource(&service, 1e-6).wait, setup, 1e-6);
}

TEST(what_is_full_does_what_it_can_and_its_wait_grows)
{
    struct nature nature = {&exponential, &fixed, &fixed, NULL};
    struct model_service service = service_of(&nature);
    struct model_outcome outcome = model_resource(&service, 150);
    assert_near(outcome.utilisation, 1.5, 1e-9);
    assert_near(outcome.throughput, 100, 1e-9);
    assert_true(outcome.wait == MODEL_GROWS);
    assert_true(model_resource(&service, 100).wait == MODEL_GROWS);
}

TEST(every_kind_of_hold_waits_as_it_does_in_a_simulation)
{
    const struct distribution latency = {.kind = DISTRIBUTION_LOGNORMAL, .mean_s = 0.0012, .sigma = 0.5};
    const struct distribution changeover = {.kind = DISTRIBUTION_EXPONENTIAL, .mean_s = 0.0006};
    const struct distribution *holds[] = {&exponential, &fixed, &lognormal};
    for (unsigned i = 0; i < 3; i++) {
        struct nature nature = {holds[i], &latency, &changeover, NULL};
        struct model_service service = service_of(&nature);
        for (double full = 0.3; full < 0.85; full += 0.25) {
            double rate = full / 0.0056;
            assert_near(model_resource(&service, rate).wait, simulate_resource(&nature, rate, 200000), 0.05);
        }
    }
}

TEST(who_waits_alone_may_have_another_changeover)
{
    const struct distribution latency = {.kind = DISTRIBUTION_LOGNORMAL, .mean_s = 0.0012, .sigma = 0.5};
    const struct distribution changeover = {.kind = DISTRIBUTION_FIXED, .mean_s = 0.0003};
    const struct distribution lone = {.kind = DISTRIBUTION_LOGNORMAL, .mean_s = 0.012, .sigma = 0.7};
    const struct distribution *holds[] = {&exponential, &fixed, &lognormal};
    for (unsigned i = 0; i < 3; i++) {
        struct nature nature = {holds[i], &latency, &changeover, &lone};
        struct model_service service = service_of(&nature);
        for (double full = 0.2; full < 0.85; full += 0.2)
            assert_near(model_resource(&service, full / 0.0053).wait, simulate_resource(&nature, full / 0.0053, 200000),
                        0.05);
    }
}

/* --- runners ------------------------------------------------------------------------------------------------------ */

TEST(erlang_c_is_as_in_the_tables)
{
    assert_near(model_erlang_c(1, 0.7), 0.7, 1e-12);
    assert_near(model_erlang_c(2, 1), 1.0 / 3, 1e-12);
    assert_near(model_erlang_c(10, 8), 0.409180, 1e-4);
    assert_true(model_erlang_c(1000, 500) < 1e-9);
}

/* Mean wait for one of `servers` (Kiefer and Wolfowitz). */
static double simulate_runners(unsigned servers, const struct distribution *taken, double rate, unsigned tasks)
{
    double free_at[64] = {0}, now = 0, waits = 0;
    assert_true(servers <= 64);
    for (unsigned i = 0; i < tasks; i++) {
        now -= log1p(-uniform()) / rate;
        unsigned first = 0;
        for (unsigned j = 1; j < servers; j++)
            if (free_at[j] < free_at[first])
                first = j;
        double start = fmax(now, free_at[first]);
        waits += start - now;
        free_at[first] = start + draw(taken);
    }
    return waits / tasks;
}

TEST(runners_wait_as_in_a_simulation)
{
    for (unsigned servers = 1; servers <= 16; servers *= 4) {
        double rate = 0.8 * servers / 0.005;
        double exact = model_runners(servers, moments(&exponential), rate).wait;
        assert_near(exact, simulate_runners(servers, &exponential, rate, 1000000), 0.05);
        assert_near(model_runners(servers, moments(&fixed), rate).wait, simulate_runners(servers, &fixed, rate, 100000),
                    0.15);
        assert_near(model_runners(servers, moments(&lognormal), rate).wait,
                    simulate_runners(servers, &lognormal, rate, 200000), 0.25);
    }
}

TEST(full_runners_do_what_they_can)
{
    struct model_outcome outcome = model_runners(4, moments(&fixed), 1000);
    assert_near(outcome.throughput, 800, 1e-9);
    assert_near(outcome.utilisation, 1.25, 1e-9);
    assert_true(outcome.wait == MODEL_GROWS);
    outcome = model_runners(4, moments(&fixed), 0);
    assert_true(outcome.wait == 0 && outcome.utilisation == 0);
}

/* --- closed loops ------------------------------------------------------------------------------------------------- */

/* A loop of tasks over resources, with a limit of runners: a task that finds its resource taken stands in its line and
 * takes no runner; who leaves hands its runner to the first of the line, or else to the first of the queue. */
struct task {
    struct heap_item due;
    struct list link;
    unsigned resource;
    double pushed, locked;
    bool is_pushed;
};

struct loop {
    const struct nature *nature;
    const struct model_loop *shape;
    struct heap events;
    struct list queue, *lines;
    bool *is_taken;
    unsigned runners;
    double now, waits;
    uint64_t ended;
};

static void event_at(struct loop *loop, struct task *task, double at)
{
    heap_set(&loop->events, &task->due, (struct instant){(int64_t)(at * 1e12)});
}

static unsigned draw_resource(const struct model_loop *shape)
{
    double total = 0, at;
    for (size_t i = 0; i < shape->station_count; i++)
        total += shape->stations[i].visits * shape->stations[i].count;
    at = uniform() * total;
    unsigned first = 0;
    for (size_t i = 0; i < shape->station_count; i++) {
        double all = shape->stations[i].visits * shape->stations[i].count;
        if (at < all)
            return first + (unsigned)(at / shape->stations[i].visits);
        at -= all;
        first += (unsigned)shape->stations[i].count;
    }
    return first - 1;
}

static void hold_begins(struct loop *loop, struct task *task, double delay)
{
    loop->is_taken[task->resource] = true;
    task->locked = loop->now + delay;
    event_at(loop, task, task->locked + draw(loop->nature->hold));
}

/* A runner is free: the first of the queue whose resource is free; those before it stand in line from now on. */
static void runner_go_on(struct loop *loop)
{
    while (loop->runners > 0 && !list_is_empty(&loop->queue)) {
        struct task *task = list_owner(list_take_first(&loop->queue), struct task, link);
        if (loop->is_taken[task->resource]) {
            list_append(&loop->lines[task->resource], &task->link);
            continue;
        }
        loop->runners--;
        hold_begins(loop, task, draw(loop->nature->base));
    }
}

static void task_leaves(struct loop *loop, struct task *task)
{
    loop->waits += task->locked - task->pushed;
    loop->ended++;
    loop->is_taken[task->resource] = false;
    struct list *next = list_take_first(&loop->lines[task->resource]);
    if (next != NULL)
        hold_begins(loop, list_owner(next, struct task, link), draw(loop->nature->changeover));
    else
        loop->runners++;
    task->is_pushed = false;
    event_at(loop, task, loop->now + loop->shape->pause);
}

static void task_is_pushed(struct loop *loop, struct task *task)
{
    task->is_pushed = true;
    task->pushed = loop->now;
    task->resource = draw_resource(loop->shape);
    list_append(&loop->queue, &task->link);
}

static struct model_outcome simulate_loop(const struct nature *nature, const struct model_loop *shape, uint64_t ends)
{
    unsigned resources = 0;
    for (size_t i = 0; i < shape->station_count; i++)
        resources += (unsigned)shape->stations[i].count;
    struct loop loop = {.nature = nature, .shape = shape, .runners = shape->runners > 0 ? shape->runners : UINT32_MAX};
    loop.lines = memory_zeroed(resources, sizeof loop.lines[0]);
    loop.is_taken = memory_zeroed(resources, sizeof loop.is_taken[0]);
    list_init(&loop.queue);
    for (unsigned i = 0; i < resources; i++)
        list_init(&loop.lines[i]);
    struct task *tasks = memory_zeroed(shape->population, sizeof tasks[0]);
    for (unsigned i = 0; i < shape->population; i++) {
        list_init(&tasks[i].link);
        event_at(&loop, &tasks[i], 0);
    }
    while (loop.ended < ends) {
        struct task *task = list_owner(heap_first(&loop.events), struct task, due);
        loop.now = (double)task->due.at.ns / 1e12;
        heap_remove(&loop.events, &task->due);
        if (task->is_pushed)
            task_leaves(&loop, task);
        else
            task_is_pushed(&loop, task);
        runner_go_on(&loop);
    }
    struct model_outcome outcome = {.throughput = (double)ends / loop.now, .wait = loop.waits / (double)ends};
    heap_fini(&loop.events);
    free(loop.lines);
    free(loop.is_taken);
    free(tasks);
    return outcome;
}

TEST(equal_exponential_stations_are_the_closed_form)
{
    struct nature nature = {&exponential, &nothing, &nothing, NULL};
    struct model_stations ten = {.visits = 0.1, .count = 10};
    for (unsigned population = 1; population < 100; population *= 3) {
        struct model_loop shape = {
            .service = service_of(&nature), .stations = &ten, .station_count = 1, .population = population};
        struct model_outcome each, outcome = model_closed_loop(&shape, &each);
        double wanted = 10 / 0.005 * population / (population + 9.0);
        assert_near(outcome.throughput, wanted, 1e-9);
        assert_near(outcome.wait, population / wanted - 0.005, 1e-9);
        assert_near(each.utilisation, wanted * 0.0005, 1e-9);
        assert_near(each.wait, outcome.wait, 1e-9);
    }
}

TEST(a_loop_is_as_in_a_simulation)
{
    const struct distribution latency = {.kind = DISTRIBUTION_FIXED, .mean_s = 0.0012};
    const struct distribution changeover = {.kind = DISTRIBUTION_EXPONENTIAL, .mean_s = 0.0006};
    const struct distribution *holds[] = {&exponential, &fixed, &lognormal};
    static const struct model_stations stations[] = {
        {.visits = 0.3, .count = 1}, {.visits = 0.1, .count = 3}, {.visits = 0.02, .count = 20}};
    for (unsigned i = 0; i < 3; i++) {
        struct nature nature = {holds[i], &latency, &changeover, NULL};
        for (unsigned population = 2; population <= 64; population *= 2) {
            struct model_loop shape = {.service = service_of(&nature),
                                       .stations = stations,
                                       .station_count = 3,
                                       .population = population,
                                       .pause = 0.0003};
            struct model_outcome found = simulate_loop(&nature, &shape, 100000);
            struct model_outcome outcome = model_closed_loop(&shape, NULL);
            assert_near(outcome.throughput, found.throughput, 0.03);
            assert_near(outcome.wait, found.wait, 0.08);
        }
    }
}

TEST(a_full_resource_limits_a_loop)
{
    const struct distribution changeover = {.kind = DISTRIBUTION_FIXED, .mean_s = 0.001};
    struct nature nature = {&exponential, &changeover, &changeover, NULL};
    struct model_stations one = {.visits = 1, .count = 1};
    struct model_loop shape = {
        .service = service_of(&nature), .stations = &one, .station_count = 1, .population = 20, .runners = 8};
    assert_near(model_closed_loop(&shape, NULL).throughput, 1 / 0.006, 1e-3);
    assert_near(simulate_loop(&nature, &shape, 100000).throughput, 1 / 0.006, 0.01);
}

TEST(full_runners_limit_a_loop)
{
    struct nature nature = {&exponential, &nothing, &nothing, NULL};
    struct model_stations many = {.visits = 0.001, .count = 1000};
    for (unsigned runners = 4; runners <= 64; runners *= 2) {
        struct model_loop shape = {.service = service_of(&nature),
                                   .stations = &many,
                                   .station_count = 1,
                                   .population = 40,
                                   .runners = runners,
                                   .taken = 0.005};
        struct model_outcome found = simulate_loop(&nature, &shape, 100000);
        struct model_outcome outcome = model_closed_loop(&shape, NULL);
        assert_near(outcome.throughput, found.throughput, 0.05);
        if (runners < 32) {
            assert_near(outcome.wait, found.wait, 0.05);
            assert_near(outcome.utilisation, 1, 1e-9);
        }
    }
}

/* --- times -------------------------------------------------------------------------------------------------------- */

TEST(times_are_added_scaled_and_moved)
{
    struct model_time sum = model_time_sum(moments(&fixed), moments(&exponential));
    assert_near(sum.mean, 0.01, 1e-12);
    assert_near(sum.second_moment, 25e-6 + 50e-6 + 50e-6, 1e-9);
    struct model_time half = model_time_scaled(moments(&exponential), 0.5);
    assert_near(half.mean, 0.0025, 1e-12);
    assert_near(half.second_moment, 2 * 0.0025 * 0.0025, 1e-9);
    struct model_time moved = model_time_moved(moments(&exponential), 0.007);
    assert_near(moved.second_moment, 25e-6 + 49e-6, 1e-9);
}

RUN_TESTS
