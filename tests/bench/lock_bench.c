/* Lock cycles per second: acquire, hold, release, over and over, by many users at once.
 *
 * Three ways to use the library, chosen by --mode:
 *   loop                the asynchronous group; a user is a small state machine on the loop, its release is awaited
 *   threads             the blocking client; a user is a thread, its release is awaited
 *   threads-background  the same, but the release is acknowledged behind the user's back
 *
 * A refused user tries again after --retry-ms and up to as much more at random, without end: the library does it, with
 * as many tries as it allows. `fails` counts the refused passes, so (cycles + fails) / cycles is the tries per hold.
 * Times are taken from before the acquire: acq_* until it was had, the others until the cycle is over. Only cycles
 * that end within the measured time count, and only the CPU time spent in it.
 *
 * One JSON line goes to standard output; everything for people goes to standard error. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"
#include "redlock/redlock_loop.h"
#include "tests/bench/lock_figures.h"
#include "tests/support/cpu_time.h"
#include "tests/support/loop_until.h"
#include "tests/support/zipf.h"

enum { USERS_MAX = 4096, RESOURCES_MAX = 1000000, NAME_MAX_LENGTH = 32, EXIT_USAGE = 2 };
enum mode { MODE_LOOP, MODE_THREADS, MODE_BACKGROUND };

#define TRIES_MAX    1000
#define NODE_TIMEOUT (2 * NS_PER_S) /* a saturated machine is no failed node */
#define GRACE_NS     (20 * NS_PER_S)

static const char *const mode_names[] = {"loop", "threads", "threads-background"};

struct settings {
    enum mode mode;
    const char *host;
    unsigned ports[REDLOCK_NODES_MAX];
    size_t port_count;
    unsigned users, resources, fenced;
    unsigned row; /* hand-overs within the process before others get their turn; 0 = as usual */
    int64_t wait_ns;
    double seconds, zipf;
    int64_t hold_ns, retry_ns, ttl_ns;
};

struct user {
    uint64_t noise;
    char name[NAME_MAX_LENGTH]; /* of its owner text, and of its resource when each user has one of its own */
    struct redlock_lock *lock;
    struct loop_timer hold;
    bool waits; /* on the loop: for its lock */
    pthread_t thread;
    struct instant asked, had, gave_back;
    struct figures *figures; /* of the loop, or its own */
};

static struct settings settings = {
    .host = "127.0.0.1", .users = 64, .fenced = 1, .seconds = 2, .retry_ns = 5 * NS_PER_MS, .ttl_ns = 10 * NS_PER_S};
static struct redlock_node nodes[REDLOCK_NODES_MAX];
static struct redlock_options options;
static struct redlock_terms terms;
static struct zipf zipf;
static char (*resources)[NAME_MAX_LENGTH]; /* NULL: one a user */
static struct instant started, ends;
static struct figures total;

/* --- the command line ----------------------------------------------------------------------------------------- */

static void usage(FILE *out)
{
    fputs("usage: lock-bench --ports P,P,... [options]\n"
          "Takes and releases Redlocks over the nodes on these ports, and prints one line of JSON.\n"
          "  --host H        host of all nodes (127.0.0.1)\n"
          "  --conc C        users at once, 1 to 4096 (64)\n"
          "  --secs S        how long, in seconds (2)\n"
          "  --resources R   how many resources the users share; 0: each has its own (0)\n"
          "  --zipf Z        how uneven they are asked for: 0 all alike, 1 the n-th 1/n as often (0)\n"
          "  --hold-us H     how long a lock is held, in microseconds (0)\n"
          "  --retry-ms M    a refused user waits this long, and up to as much more (5)\n"
          "  --ttl-ms T      ttl of the locks, 500 to 60000 (10000)\n"
          "  --mode M        loop, threads or threads-background (loop)\n"
          "  --wait-ms W     wait for a lock so long, woken by its release, and do not count tries (0)\n"
          "  --row T         hand a lock over so often in a row, for at most 1 s; 0: as often as usual (0)\n"
          "  --fenced F      locks with fencing tokens (1) or without (0)\n"
          "  --help          this text\n",
          out);
}

__attribute__((format(printf, 2, 3))) _Noreturn static void fail(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("lock-bench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs(status == EXIT_USAGE ? " (see --help)\n" : "\n", stderr);
    va_end(arguments);
    exit(status);
}

/* Where an option that takes a number goes: to the one of the three that is set. */
struct number {
    const char *name;
    double low, high;
    unsigned *count;
    double *real;
    int64_t *ns;
    int64_t unit_ns;
};

static const struct number numbers[] = {
    {"conc", 1, USERS_MAX, .count = &settings.users},
    {"secs", 0.01, 3600, .real = &settings.seconds},
    {"resources", 0, RESOURCES_MAX, .count = &settings.resources},
    {"zipf", 0, 10, .real = &settings.zipf},
    {"hold-us", 0, 1e9, .ns = &settings.hold_ns, .unit_ns = NS_PER_US},
    {"fenced", 0, 1, .count = &settings.fenced},
    {"row", 0, 1e6, .count = &settings.row},
    {"wait-ms", 0, 3600000, .ns = &settings.wait_ns, .unit_ns = NS_PER_MS},
    {"retry-ms", 0, 60000, .ns = &settings.retry_ns, .unit_ns = NS_PER_MS},
    {"ttl-ms", 500, 60000, .ns = &settings.ttl_ns, .unit_ns = NS_PER_MS},
};

enum {
    NUMBERS = sizeof numbers / sizeof numbers[0],
    OPTION_PORTS = NUMBERS,
    OPTION_HOST,
    OPTION_MODE,
    OPTION_UNFENCED,
    OPTION_HELP
};

static void number_take(const struct number *number, const char *text)
{
    char *end = NULL;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !(value >= number->low && value <= number->high) ||
        (number->count != NULL && value != floor(value)))
        fail(EXIT_USAGE, "--%s takes a %s from %g to %g, not '%s'", number->name,
             number->count != NULL ? "whole number" : "number", number->low, number->high, text);
    if (number->count != NULL)
        *number->count = (unsigned)value;
    else if (number->real != NULL)
        *number->real = value;
    else
        *number->ns = (int64_t)(value * (double)number->unit_ns);
}

static void ports_take(char *text)
{
    char *word = NULL;
    while ((word = strsep(&text, ",")) != NULL) {
        if (settings.port_count == REDLOCK_NODES_MAX)
            fail(EXIT_USAGE, "--ports takes at most %d ports", REDLOCK_NODES_MAX);
        number_take(&(struct number){"ports", 1, 65535, .count = &settings.ports[settings.port_count++]}, word);
    }
}

static void mode_take(const char *text)
{
    for (settings.mode = MODE_LOOP; settings.mode <= MODE_BACKGROUND; settings.mode++)
        if (strcmp(text, mode_names[settings.mode]) == 0)
            return;
    fail(EXIT_USAGE, "--mode takes loop, threads or threads-background, not '%s'", text);
}

static void option_take(int option, char *text)
{
    if (option < NUMBERS) {
        number_take(&numbers[option], text);
    } else if (option == OPTION_PORTS) {
        ports_take(text);
    } else if (option == OPTION_HOST) {
        settings.host = text;
    } else if (option == OPTION_MODE) {
        mode_take(text);
    } else if (option == OPTION_HELP) {
        usage(stdout);
        exit(0);
    } else {
        exit(EXIT_USAGE); /* getopt has said why */
    }
}

static void command_line_take(int count, char **words)
{
    struct option known[NUMBERS + 5] = {[NUMBERS] = {"ports", required_argument, NULL, OPTION_PORTS},
                                        {"host", required_argument, NULL, OPTION_HOST},
                                        {"mode", required_argument, NULL, OPTION_MODE},
                                        {"help", no_argument, NULL, OPTION_HELP}};
    for (int i = 0; i < NUMBERS; i++)
        known[i] = (struct option){numbers[i].name, required_argument, NULL, i};
    int option = 0;
    while ((option = getopt_long(count, words, "", known, NULL)) != -1)
        option_take(option, optarg);
    if (optind < count)
        fail(EXIT_USAGE, "unexpected argument '%s'", words[optind]);
    if (settings.port_count == 0)
        fail(EXIT_USAGE, "--ports is missing: which nodes?");
}

/* --- what is asked for ---------------------------------------------------------------------------------------- */

static void resources_make(void)
{
    if (settings.resources == 0)
        return;
    zipf_init(&zipf, settings.resources, settings.zipf);
    resources = memory_zeroed(settings.resources, sizeof *resources);
    for (unsigned i = 0; i < settings.resources; i++)
        snprintf(resources[i], sizeof resources[i], "resource%u", i);
}

static const char *resource_draw(struct user *user)
{
    return settings.resources == 0 ? user->name : resources[zipf_draw(&zipf, &user->noise)];
}

static void options_make(void)
{
    char reason[256];
    int64_t timeout_ns = settings.ttl_ns / 10 < NODE_TIMEOUT ? settings.ttl_ns / 10 : NODE_TIMEOUT;
    for (size_t i = 0; i < settings.port_count; i++)
        nodes[i] = (struct redlock_node){
            .host = settings.host, .port = settings.ports[i], .timeout_ms = timeout_ns / NS_PER_MS};
    options = (struct redlock_options){
        .nodes = nodes, .node_count = settings.port_count, .key_prefix = "lock:", .client_name = "lock-bench"};
    int64_t retry_ms = settings.retry_ns > 0 ? ms_from_ns(settings.retry_ns) : 1; /* 0 is the default */
    terms = (struct redlock_terms){.ttl_ms = settings.ttl_ns / NS_PER_MS,
                                   .tries = TRIES_MAX,
                                   .retry_delay_ms = retry_ms,
                                   .retry_jitter_ms = retry_ms,
                                   .wait_ms = settings.wait_ns / NS_PER_MS,
                                   .hand_over_tasks = settings.row,
                                   .unfenced = settings.fenced == 0};
    if (!redlock_terms_check(&terms, &options, reason, sizeof reason))
        fail(EXIT_USAGE, "%s", reason);
}

static struct user *users_make(void)
{
    struct user *made = memory_zeroed(settings.users, sizeof *made);
    for (unsigned i = 0; i < settings.users; i++) {
        made[i].noise = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        snprintf(made[i].name, sizeof made[i].name, "user%u", i);
    }
    return made;
}

/* --- measuring ------------------------------------------------------------------------------------------------ */

static int64_t cpu_used_us;

static void measuring_begins(void)
{
    started = instant_now();
    ends = instant_after(started, (int64_t)(settings.seconds * (double)NS_PER_S));
    cpu_used_us = -cpu_time_us();
}

static void cycle_count(struct user *user, struct instant now)
{
    if (instant_reached(now, ends))
        return;
    figures_count(user->figures, user->asked, user->had, user->gave_back, now);
}

/* --- users on the loop ---------------------------------------------------------------------------------------- */

static struct loop *loop;
static struct user *users;
static unsigned busy_users;
static struct loop_timer end_timer;

static void user_begin(struct user *user)
{
    user->asked = instant_now();
    if (instant_reached(user->asked, ends)) {
        if (--busy_users == 0)
            loop_stop(loop);
        return;
    }
    const char *resource = resource_draw(user);
    user->waits = true;
    invariant(redlock_lock_acquire(
        user->lock, &(struct redlock_request){.resources = &resource, .resource_count = 1, .owner = user->name}));
}

static void give_back(struct user *user)
{
    user->gave_back = instant_now();
    redlock_lock_release(user->lock);
}

static void hold_over(struct loop_timer *timer)
{
    give_back(list_owner(timer, struct user, hold));
}

static void user_answered(struct user *user, const struct redlock_event *event)
{
    user->waits = false;
    if (event->answer != REDLOCK_ACQUIRED) {
        total.fails += event->answer == REDLOCK_CANCELLED ? 0 : event->attempts;
        user_begin(user);
        return;
    }
    total.fails += event->attempts - 1;
    user->had = instant_now();
    if (settings.hold_ns == 0)
        give_back(user);
    else
        loop_timer_set(loop, &user->hold, instant_after(user->had, settings.hold_ns));
}

static void user_event(struct redlock_lock *lock, void *context, const struct redlock_event *event)
{
    (void)lock;
    struct user *user = context;
    if (event->kind == REDLOCK_EVENT_ANSWER) {
        user_answered(user, event);
    } else if (event->kind == REDLOCK_EVENT_RELEASED) {
        cycle_count(user, instant_now());
        user_begin(user);
    }
}

/* Who waits for a resource now waits no longer. */
static void time_over(struct loop_timer *timer)
{
    (void)timer;
    cpu_used_us += cpu_time_us();
    for (unsigned i = 0; i < settings.users; i++)
        if (users[i].waits)
            redlock_lock_release(users[i].lock);
}

static bool is_settled(void *group)
{
    return redlock_group_is_settled(group);
}

static bool is_idle(void *group)
{
    return redlock_group_busy(group) == 0;
}

static struct redlock_group *group_open(void)
{
    char reason[256];
    struct error error = ERROR_NONE;
    loop = loop_create(&error);
    if (loop == NULL)
        fail(1, "%s", error.text);
    struct redlock_group *group = redlock_group_create(loop, &options, reason, sizeof reason);
    if (group == NULL)
        fail(EXIT_USAGE, "%s", reason);
    (void)loop_until(loop, is_settled, group, GRACE_NS);
    if (redlock_group_nodes_up(group) < settings.port_count / 2 + 1)
        fail(1, "only %u of the %zu nodes can be reached: no majority", redlock_group_nodes_up(group),
             settings.port_count);
    return group;
}

static void loop_measure(void)
{
    struct redlock_group *group = group_open();
    for (unsigned i = 0; i < settings.users; i++) {
        users[i].lock = redlock_lock_create(group, &terms, user_event, &users[i]);
        users[i].figures = &total;
        loop_timer_init(&users[i].hold, hold_over);
    }
    measuring_begins();
    loop_timer_init(&end_timer, time_over);
    loop_timer_set(loop, &end_timer, ends);
    busy_users = settings.users;
    for (unsigned i = 0; i < settings.users; i++)
        user_begin(&users[i]);
    loop_run(loop);
    (void)loop_until(loop, is_idle, group, GRACE_NS);
    redlock_group_destroy(group);
    loop_destroy(loop);
}

/* --- users with a thread each --------------------------------------------------------------------------------- */

static struct redlock_client *client;
static pthread_barrier_t ready;

static void cycle_run(struct user *user)
{
    char reason[256];
    const char *resource = resource_draw(user);
    struct redlock_request request = {.resources = &resource, .resource_count = 1, .owner = user->name};
    struct redlock_held *held = NULL;
    user->asked = instant_now();
    enum redlock_answer answer = redlock_client_acquire(client, &terms, &request, &held, reason, sizeof reason);
    if (answer != REDLOCK_ACQUIRED)
        return;
    user->had = instant_now();
    if (settings.hold_ns > 0)
        nanosleep(&(struct timespec){.tv_sec = settings.hold_ns / NS_PER_S, .tv_nsec = settings.hold_ns % NS_PER_S},
                  NULL);
    user->gave_back = instant_now();
    (void)redlock_client_release(held, settings.mode == MODE_BACKGROUND ? REDLOCK_BACKGROUND : REDLOCK_AWAIT);
    cycle_count(user, instant_now());
}

static void *user_run(void *argument)
{
    struct user *user = argument;
    pthread_barrier_wait(&ready); /* all are there */
    pthread_barrier_wait(&ready); /* the time was taken */
    while (!instant_reached(instant_now(), ends))
        cycle_run(user);
    return NULL;
}

static void client_open(void)
{
    char reason[256];
    client = redlock_client_open(&options, reason, sizeof reason);
    if (client == NULL)
        fail(1, "%s", reason);
    const char *resource = "lock-bench";
    struct redlock_request request = {.resources = &resource, .resource_count = 1};
    struct redlock_terms once = terms;
    struct redlock_held *held = NULL;
    once.tries = 1;
    enum redlock_answer answer = redlock_client_acquire(client, &once, &request, &held, reason, sizeof reason);
    if (answer == REDLOCK_NO_QUORUM)
        fail(1, "%s", reason);
    if (answer == REDLOCK_ACQUIRED)
        (void)redlock_client_release(held, REDLOCK_AWAIT);
}

static void users_join(void)
{
    for (unsigned i = 0; i < settings.users; i++) {
        pthread_join(users[i].thread, NULL);
        figures_merge(&total, users[i].figures);
        free(users[i].figures);
    }
}

static void threads_measure(void)
{
    struct redlock_counters counters;
    client_open();
    pthread_barrier_init(&ready, NULL, settings.users + 1);
    for (unsigned i = 0; i < settings.users; i++) {
        users[i].figures = memory_new(struct figures);
        if (pthread_create(&users[i].thread, NULL, user_run, &users[i]) != 0)
            fail(1, "thread %u of %u cannot be started", i + 1, settings.users);
    }
    pthread_barrier_wait(&ready);
    measuring_begins();
    pthread_barrier_wait(&ready);
    struct timespec until = {.tv_sec = ends.ns / NS_PER_S, .tv_nsec = ends.ns % NS_PER_S};
    clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, NULL);
    cpu_used_us += cpu_time_us();
    users_join();
    redlock_client_counters(client, &counters);
    total.fails = counters.attempts - counters.acquired;
    redlock_client_close(client);
}

int main(int count, char **words)
{
    command_line_take(count, words);
    log_set_level(LOG_WARN);
    options_make();
    resources_make();
    users = users_make();
    if (settings.mode == MODE_LOOP)
        loop_measure();
    else
        threads_measure();
    printf("{\"mode\": \"%s\", \"nodes\": %zu, \"conc\": %u, ", mode_names[settings.mode], settings.port_count,
           settings.users);
    figures_print(&total, settings.seconds, cpu_used_us);
    free(users);
    zipf_fini(&zipf);
    free(resources);
    return 0;
}
