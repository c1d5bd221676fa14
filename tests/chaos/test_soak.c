/* No task is lost, and none runs twice without a record, whatever happens to the workers and the queue node: tasks from
 * several producers, and workers that are killed, stopped, ended and started again at random while they work.
 * Afterwards every task is accounted for (account.h). A short one by default; `make soak` runs the long one, by the
 * environment: HOLDFAST_SOAK=TASKS:WORKERS:MS:SECONDS:SEED.
 *
 * Half of the tasks come through `holdfast push`, most others by LPUSH of minimal payloads, some are scheduled. Most
 * succeed, some fail once, are buried, discarded, locked, or run at most once. Once all are pushed, the queue node is
 * stopped and killed now and then, too. Everything is drawn from the seed, but what the processes make of it is up to
 * the machine. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "tests/chaos/account.h"

#define LEASE_NS   NS_PER_S
#define RETRIES_NS (300 * NS_PER_MS)

enum { WORKERS_MAX = 16, TASKS_A_PUSH = 50, RESOURCES = 300, TICK_MS = 5 };

struct soak_options {
    unsigned tasks, workers;
    unsigned ms;      /* how long most tasks run, on the average; a few take longer than the lease */
    unsigned seconds; /* after which the faults end, if work is left */
    unsigned long seed;
};

struct soak_faults {
    unsigned kills, stops, long_stops, ends, stopped_kills, node_stops, node_kills;
};

struct soak_result {
    struct account_sums sums;
    struct soak_faults faults;
    unsigned starts;
    double seconds;
};

enum seat_state { SEAT_EMPTY, SEAT_WORKS, SEAT_STOPPED, SEAT_ENDING };

/* A place in the fleet: one process after the other. */
struct seat {
    enum seat_state state;
    unsigned worker;
    bool kill_stopped;
    struct instant until; /* SEAT_STOPPED, SEAT_EMPTY */
};

struct soak {
    struct fleet *fleet;
    const struct soak_options *options;
    struct account *account;
    struct soak_result result;
    struct seat seats[WORKERS_MAX];
    unsigned short random[3];
    unsigned pushed; /* tasks that are pushed from here, or were left to the stream */
    pid_t stream;    /* `holdfast push`; 0 when it has ended */
    struct buffer line;
    struct instant started, next_fault, next_retries, node_until;
    bool node_stopped;
};

static const struct fleet_setup worker_setup = {.plugin = "ledger", .threads = 8, .worker = "lease = \"1s\";"};

static unsigned draw(struct soak *soak, unsigned below)
{
    return (unsigned)((unsigned long)nrand48(soak->random) % below);
}

static struct instant from_now(int64_t ms)
{
    return instant_after(instant_now(), ms * NS_PER_MS);
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

enum { SCHEDULED = 9 };

/* Of ten tasks, five come through the stream, one is scheduled. */
static bool is_streamed(unsigned number)
{
    return number % 10 < 5;
}

static unsigned draw_ms(struct soak *soak)
{
    return draw(soak, 1000) < 2 ? 1500 : draw(soak, 2 * soak->options->ms + 1);
}

static void task_write(struct soak *soak, unsigned number, struct buffer *out)
{
    static const char *const fates[] = {"fail", "fail", "fail", "fail", "bury", "discard"};
    unsigned kind = draw(soak, 100);
    const char *fate = kind < 6 ? fates[kind] : "ok";
    bool is_once = kind >= 6 && kind < 8;
    if (is_once || kind == 4)
        account_expect(soak->account, number, is_once ? ACCOUNT_ONCE : ACCOUNT_DIES);
    buffer_format(out, "{\"class\":\"%s\",\"args\":[%u,\"%s\"],\"jid\":\"k%u\"", is_once ? "once" : "work",
                  draw_ms(soak), fate, number);
    if (kind >= 80)
        buffer_format(out, ",\"resource\":\"r%u\"", draw(soak, RESOURCES));
    if (number % 3 == 0 || number % 10 == SCHEDULED)
        buffer_format(out, ",\"queue\":\"jobs\",\"created_at\":%lld", (long long)(wall_now().us / US_PER_S));
    buffer_append_text(out, "}");
}

/* --- producers ---------------------------------------------------------------------------------------------------- */

static void stream_start(struct soak *soak)
{
    char path[256], program[4096], port[16];
    snprintf(path, sizeof path, "%s/stream", soak->fleet->directory);
    snprintf(program, sizeof program, "%s/holdfast", test_build());
    snprintf(port, sizeof port, "%u", redis_server_port(soak->fleet->queue));
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    for (unsigned i = 0; i < soak->options->tasks; i++) {
        if (!is_streamed(i))
            continue;
        buffer_clear(&soak->line);
        task_write(soak, i, &soak->line);
        fprintf(file, "%s\n", buffer_text(&soak->line));
    }
    assert_int_equal(fclose(file), 0);
    soak->stream = fork();
    assert_true(soak->stream >= 0);
    if (soak->stream == 0) {
        dup2(open(path, O_RDONLY | O_CLOEXEC), STDIN_FILENO);
        execl(program, program, "push", "-p", port, "-q", "jobs", "--stdin", (char *)NULL);
        _exit(127);
    }
}

static void stream_look(struct soak *soak)
{
    int status = 0;
    if (soak->stream == 0 || waitpid(soak->stream, &status, WNOHANG) != soak->stream)
        return;
    soak->stream = 0;
    assert_int_equal(status, 0);
}

/* Some at a time: waiting ones with one LPUSH, scheduled ones one by one. */
static void tasks_push(struct soak *soak)
{
    struct buffer push = {0}, *line = &soak->line;
    unsigned gathered = 0;
    buffer_append_text(&push, "LPUSH queue:jobs");
    for (; soak->pushed < soak->options->tasks && gathered < TASKS_A_PUSH; soak->pushed++) {
        if (is_streamed(soak->pushed))
            continue;
        buffer_clear(line);
        task_write(soak, soak->pushed, line);
        if (soak->pushed % 10 == SCHEDULED) {
            long long at = wall_now().us / US_PER_S + draw(soak, 10);
            free(fleet_ask(soak->fleet, "ZADD schedule %lld '%s'", at, buffer_text(line)));
            continue;
        }
        buffer_format(&push, " '%s'", buffer_text(line));
        gathered++;
    }
    if (gathered > 0)
        free(fleet_ask(soak->fleet, "%s", buffer_text(&push)));
    buffer_fini(&push);
}

static bool all_is_pushed(const struct soak *soak)
{
    return soak->stream == 0 && soak->pushed == soak->options->tasks;
}

static void retries_hasten(struct soak *soak)
{
    if (soak->node_stopped || !instant_reached(instant_now(), soak->next_retries))
        return;
    soak->next_retries = instant_after(instant_now(), RETRIES_NS);
    account_hasten(soak->fleet);
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

static void seat_fill(struct soak *soak, struct seat *seat)
{
    seat->worker = fleet_work(soak->fleet, &worker_setup);
    seat->state = SEAT_WORKS;
    soak->result.starts++;
}

static void seat_kill(struct soak *soak, struct seat *seat)
{
    fleet_signal(soak->fleet, seat->worker, SIGKILL);
    assert_int_equal(fleet_wait(soak->fleet, seat->worker), -SIGKILL);
    seat->state = SEAT_EMPTY;
    seat->until = from_now(draw(soak, 500));
}

static void seat_stop(struct soak *soak, struct seat *seat, bool kill_stopped)
{
    unsigned ms = 50 + draw(soak, 3000);
    fleet_signal(soak->fleet, seat->worker, SIGSTOP);
    seat->state = SEAT_STOPPED;
    seat->kill_stopped = kill_stopped;
    seat->until = from_now(ms);
    soak->result.faults.stops++;
    soak->result.faults.long_stops += ms * NS_PER_MS > LEASE_NS;
    soak->result.faults.stopped_kills += kill_stopped;
}

static void node_fault(struct soak *soak, bool kills)
{
    if (soak->node_stopped || !all_is_pushed(soak))
        return;
    soak->node_stopped = true;
    soak->node_until = from_now(50 + draw(soak, 3000));
    if (kills)
        redis_server_kill(soak->fleet->queue);
    else
        redis_server_pause(soak->fleet->queue);
    soak->result.faults.node_kills += kills;
    soak->result.faults.node_stops += !kills;
}

static void node_look(struct soak *soak)
{
    if (!soak->node_stopped || !instant_reached(instant_now(), soak->node_until))
        return;
    soak->node_stopped = false;
    if (redis_server_pid(soak->fleet->queue) == 0)
        redis_server_restart(soak->fleet->queue);
    else
        redis_server_resume(soak->fleet->queue);
}

static void fault_make(struct soak *soak)
{
    struct seat *seat = &soak->seats[draw(soak, soak->options->workers)];
    unsigned kind = draw(soak, 100);
    if (!instant_reached(instant_now(), soak->next_fault))
        return;
    soak->next_fault = from_now(20 + draw(soak, 400));
    if (kind >= 92) {
        node_fault(soak, kind >= 96);
    } else if (seat->state != SEAT_WORKS) {
        return;
    } else if (kind < 45) {
        soak->result.faults.kills++;
        seat_kill(soak, seat);
    } else if (kind < 75) {
        seat_stop(soak, seat, kind < 50);
    } else {
        soak->result.faults.ends++;
        fleet_signal(soak->fleet, seat->worker, SIGTERM);
        seat->state = SEAT_ENDING;
    }
}

static void seat_continue(struct soak *soak, struct seat *seat)
{
    if (seat->kill_stopped) {
        seat_kill(soak, seat);
        return;
    }
    fleet_signal(soak->fleet, seat->worker, SIGCONT);
    seat->state = SEAT_WORKS;
}

/* A signal that comes before the worker listens to any ends it too, before it has claimed anything. */
static void assert_ended(struct fleet *in, unsigned worker, int most)
{
    int code = fleet_wait(in, worker);
    if (code != -SIGTERM || fleet_logged(in, worker, "worker_started"))
        assert_in_range(code, 0, most);
}

static void seat_look(struct soak *soak, struct seat *seat)
{
    bool is_due = instant_reached(instant_now(), seat->until);
    siginfo_t ended = {.si_pid = 0};
    switch (seat->state) {
    case SEAT_WORKS:
        break;
    case SEAT_STOPPED:
        if (is_due)
            seat_continue(soak, seat);
        break;
    case SEAT_ENDING:
        waitid(P_PID, (id_t)soak->fleet->workers[seat->worker].pid, &ended, WEXITED | WNOHANG | WNOWAIT);
        if (ended.si_pid == 0)
            break;
        assert_ended(soak->fleet, seat->worker, 1); /* 1: the node was down for too long to leave */
        seat->state = SEAT_EMPTY;
        seat->until = from_now(draw(soak, 300));
        break;
    case SEAT_EMPTY:
        if (is_due)
            seat_fill(soak, seat);
        break;
    }
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static bool is_done(struct soak *soak)
{
    return all_is_pushed(soak) && !soak->node_stopped &&
           fleet_number(soak->fleet,
                        "EVAL \"return redis.call('LLEN', 'queue:jobs') + redis.call('ZCARD', 'schedule') + "
                        "redis.call('ZCARD', 'retry')\" 0") == 0;
}

static void tick(struct soak *soak)
{
    stream_look(soak);
    if (!soak->node_stopped)
        tasks_push(soak);
    retries_hasten(soak);
    node_look(soak);
    for (unsigned i = 0; i < soak->options->workers; i++)
        seat_look(soak, &soak->seats[i]);
    poll(NULL, 0, TICK_MS);
}

static bool all_seats_work(const struct soak *soak)
{
    for (unsigned i = 0; i < soak->options->workers; i++)
        if (soak->seats[i].state != SEAT_WORKS)
            return false;
    return true;
}

/* A worker that found a fault in itself may have been killed before its exit code was read. */
static void logs_look(const struct soak *soak)
{
    for (unsigned i = 0; i < soak->fleet->worker_count; i++)
        if (fleet_logged(soak->fleet, i, "Sanitizer") || fleet_logged(soak->fleet, i, "runtime error"))
            fail_msg("%s", fleet_log(soak->fleet, i));
}

/* No more faults: what is left must be done, and every worker must leave in peace. */
static void soak_end(struct soak *soak)
{
    struct instant limit = instant_after(instant_now(), TEST_PATIENCE_NS + soak->options->seconds * NS_PER_S);
    while (soak->node_stopped || !all_seats_work(soak) || !is_done(soak) ||
           fleet_left(soak->fleet) > fleet_number(soak->fleet, "ZCARD dead")) {
        if (instant_reached(instant_now(), limit))
            fail_msg("the work does not end: %u tasks are left, %lld of them dead", fleet_left(soak->fleet),
                     fleet_number(soak->fleet, "ZCARD dead"));
        tick(soak);
    }
    for (unsigned i = 0; i < soak->options->workers; i++)
        fleet_signal(soak->fleet, soak->seats[i].worker, SIGTERM);
    for (unsigned i = 0; i < soak->options->workers; i++)
        assert_ended(soak->fleet, soak->seats[i].worker, 0);
    logs_look(soak);
}

/* The fleet must be fresh, its queue node configured with ACCOUNT_NODE. Fails the test when the work does not end. */
static struct soak_result soak_run(struct fleet *fleet, const struct soak_options *options)
{
    struct soak soak = {.fleet = fleet, .options = options, .started = instant_now()};
    assert_in_range(options->workers, 1, WORKERS_MAX);
    soak.account = account_create(0, options->tasks);
    for (unsigned i = 0; i < 3; i++)
        soak.random[i] = (unsigned short)(options->seed >> (16 * i));
    stream_start(&soak);
    struct instant limit = instant_after(soak.started, options->seconds * NS_PER_S);
    while (!is_done(&soak) && !instant_reached(instant_now(), limit)) {
        fault_make(&soak);
        tick(&soak);
    }
    soak_end(&soak);
    soak.result.seconds = (double)instant_since(soak.started, instant_now()) / (double)NS_PER_S;
    soak.result.sums = account_settle(soak.account, fleet, stdout);
    account_free(soak.account);
    buffer_fini(&soak.line);
    return soak.result;
}

static void soak_print(const struct soak_result *result, FILE *out)
{
    const struct account_sums *sums = &result->sums;
    const struct soak_faults *faults = &result->faults;
    fprintf(out,
            "%.0f s, %u processes: %u killed, %u stopped (%u for longer than the lease, %u killed while stopped), "
            "%u ended; queue node: %u times stopped, %u times killed\n",
            result->seconds, result->starts, faults->kills, faults->stops, faults->long_stops, faults->stopped_kills,
            faults->ends, faults->node_stops, faults->node_kills);
    fprintf(out,
            "%u tasks: %u ended, %u dead (%u of them poisonous), %u of those that run at most once gone with their "
            "process; %u runs, %u tasks ran again; records: %u recoveries, %u retries; LOST %u, RUN AGAIN WITHOUT A "
            "RECORD %u\n",
            sums->tasks, sums->ended, sums->dead, sums->poisoned, sums->once_lost, sums->runs, sums->rerun,
            sums->recoveries, sums->retries, sums->lost, sums->doubled);
}

/* --- the test ----------------------------------------------------------------------------------------------------- */

TEST(every_task_is_accounted_for)
{
    struct soak_options options = {.tasks = 3000, .workers = 4, .ms = 60, .seconds = 25, .seed = 1};
    const char *text = getenv("HOLDFAST_SOAK");
    if (text != NULL)
        assert_int_equal(sscanf(text, "%u:%u:%u:%u:%lu", &options.tasks, &options.workers, &options.ms,
                                &options.seconds, &options.seed),
                         5);
    struct fleet fleet;
    fleet_start(&fleet, &(struct redis_server_options){.config = ACCOUNT_NODE}, 3);
    struct soak_result result = soak_run(&fleet, &options);
    soak_print(&result, stdout);
    assert_true(account_is_settled(&result.sums));
    /* Else it proves nothing. */
    assert_int_equal(result.sums.tasks, options.tasks);
    assert_true(result.sums.recoveries > 0 && result.sums.retries > 0 && result.faults.long_stops > 0);
    fleet_clean(&fleet);
    fleet_stop(&fleet);
}

RUN_TESTS
