/* For tests of runs in processes: a run table, a zygote, a loop, a launcher, a pool, the plugin `restless`, and
 * trips, which are runs that remember what was reported of them. */
#ifndef TESTS_SUPPORT_PROCESS_POOL_FIXTURE_H
#define TESTS_SUPPORT_PROCESS_POOL_FIXTURE_H

#include "base/buffer.h"
#include "tests/support/launcher_fixture.h"
#include "worker/isolation/process_pool.h"

enum { TRIPS = 8 };

struct trip {
    struct hf_job job;
    struct task_rules rules;
    struct isolated_run run;
    char args[512];
    int64_t kill_after_ns; /* since it began; 0 = it is not killed */
    bool is_deaf;          /* gets no lines of the log */
    unsigned begun;
    bool has_ended;
    int code;
    struct buffer said; /* through its link: "log LEVEL TEXT\n", "event LEVEL NAME KEY=VALUE\n", "progress JSON\n" */
};

extern struct loop *loop;
extern struct process_pool *pool;
extern struct config *process_pool_config; /* two threads; it may be changed before a process is made */
extern struct trip trips[TRIPS];           /* each with the run entry of its number */

/* The zygote of all tests of a program: before other threads or loops are there, and before the plugin is loaded, which
 * its children load themselves. */
void process_pool_zygote_start(void);
void process_pool_zygote_use(struct loop *on);
void process_pool_zygote_end(void);
/* Of each test. */
void process_pool_begin(struct loop *on);
void process_pool_end(void);

/* The same with one loop for all. */
int process_pool_group_set_up(void **state);
int process_pool_group_tear_down(void **state);
int process_pool_set_up(void **state);
int process_pool_tear_down(void **state);

/* One setting of the plugin. */
void restless_set(const char *key, const char *value);
/* Its arguments as JSON. */
void trip_start(struct trip *trip, const char *args);
int trip_await(struct trip *trip);
void trip_await_begin(struct trip *trip);
/* All of it, with the first trip: its code. */
int trip_run(const char *args);
/* What the first trip said as its result, and a number in it. */
const char *trip_result(void);
int64_t trip_number(const struct trip *trip, const char *name);

#endif
