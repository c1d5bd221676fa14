/* A fleet is upgraded while it works: its workers, one after the other, from one build to another of the same scheme.
 * Meanwhile workers of both are killed, a lock node loses all that it has, and another stands still. No task is lost,
 * none runs again unless its process was killed, no two run at once under one lock, and the tokens of each resource
 * rise all the time.
 *
 * HOLDFAST_FORMER names a folder with the program of the release before, and in plugins the ledger (tests/plugins),
 * built with its headers. Without it the first workers are of the other build of this tree, the core.
 *
 * The ledger of the handlers says when tasks ran and under which tokens; account.h explains those that ran again. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/chaos/account.h"
#include "tests/support/one_fleet.h"

enum {
    BUSY = 7,  /* resources that tasks lock all the time */
    QUIET = 3, /* and those that are locked now and then */
    RESOURCES = BUSY + QUIET,
    TASK_MS = 15,
    WAITING = 60, /* tasks, all the time */
    A_SLICE = 10,
    WORKERS_MAX = 16,
    MAX_TTL_MS = 5000,
};

/* Far above the clocks of the nodes, which new tokens begin with: only what the nodes remember keeps them in order. */
#define FIRST_TOKEN 4000000000000000ULL

struct run {
    unsigned worker; /* whose */
    char jid[16];    /* "" = none: the resource is free */
};

static unsigned pushed;

/* What the ledger has said so far. */
static struct ledger {
    size_t read;
    unsigned ended, ended_by[WORKERS_MAX];
    struct run holds[RESOURCES];
    unsigned long long tokens[RESOURCES];
} ledger;

/* --- the ledger --------------------------------------------------------------------------------------------------- */

static void run_began(const char *jid, unsigned worker, unsigned resource, unsigned long long token)
{
    struct run *hold = &ledger.holds[resource];
    if (hold->jid[0] != '\0')
        fail_msg("r%u: %s begins at host%u while %s runs at host%u", resource, jid, worker, hold->jid, hold->worker);
    if (token <= ledger.tokens[resource])
        fail_msg("r%u: token %llu of %s comes after %llu", resource, token, jid, ledger.tokens[resource]);
    ledger.tokens[resource] = token;
    hold->worker = worker;
    snprintf(hold->jid, sizeof hold->jid, "%s", jid);
}

static void run_ended(const char *jid, unsigned worker)
{
    ledger.ended++;
    ledger.ended_by[worker]++;
    for (unsigned i = 0; i < RESOURCES; i++)
        if (ledger.holds[i].worker == worker && strcmp(ledger.holds[i].jid, jid) == 0)
            ledger.holds[i].jid[0] = '\0';
}

static void line_read(const char *line)
{
    char what[16], jid[16];
    unsigned worker = 0, resource = 0;
    unsigned long long token = 0;
    int words = sscanf(line, "%15s %15s host%u %llu r%u", what, jid, &worker, &token, &resource);
    bool begins = words == 5 && strcmp(what, "begin") == 0;
    if (!begins && (words != 3 || strcmp(what, "ok") != 0))
        fail_msg("the ledger says: %s", line);
    assert_true(worker < WORKERS_MAX && resource < RESOURCES);
    if (begins)
        run_began(jid, worker, resource, token);
    else
        run_ended(jid, worker);
}

/* Reads on, as far as there are whole lines. */
static void ledger_read(void)
{
    char path[PRIVATE_DIRECTORY_MAX + 16], line[256];
    snprintf(path, sizeof path, "%s/journal", fleet.directory);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    assert_int_equal(fseek(file, (long)ledger.read, SEEK_SET), 0);
    while (fgets(line, sizeof line, file) != NULL && strchr(line, '\n') != NULL) {
        ledger.read += strlen(line);
        line_read(line);
    }
    fclose(file);
}

static unsigned ended(void)
{
    ledger_read();
    return ledger.ended;
}

static unsigned ended_by(unsigned worker)
{
    ledger_read();
    return ledger.ended_by[worker];
}

static unsigned runs_of(unsigned worker)
{
    unsigned runs = 0;
    for (unsigned i = 0; i < RESOURCES; i++)
        runs += ledger.holds[i].worker == worker && ledger.holds[i].jid[0] != '\0';
    return runs;
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

static void task_push(unsigned resource)
{
    fleet_push(&fleet, "{\"class\":\"work\",\"args\":[%u,\"ok\"],\"jid\":\"k%u\",\"resource\":\"r%u\"}", TASK_MS,
               pushed++, resource);
}

/* The fleet keeps up with it: enough is waiting all the time, and not more and more. */
static void load(void)
{
    if (pushed < ended() + WAITING)
        for (unsigned i = 0; i < A_SLICE; i++)
            task_push(pushed % BUSY);
    poll(NULL, 0, 5);
}

#define LOAD_UNTIL(condition) test_await((load(), condition))

static void load_until_ended(unsigned more)
{
    unsigned enough = ended() + more;
    LOAD_UNTIL(ledger.ended >= enough);
}

static void quiet_run(void)
{
    for (unsigned resource = BUSY; resource < RESOURCES; resource++) {
        unsigned long long before = ledger.tokens[resource];
        task_push(resource);
        LOAD_UNTIL(ledger.tokens[resource] > before && ledger.holds[resource].jid[0] == '\0');
    }
}

/* --- workers ------------------------------------------------------------------------------------------------------ */

static unsigned work(void)
{
    return fleet_work(&fleet, &(struct fleet_setup){.plugin = "ledger", .worker = "lease = \"5s\";"});
}

static unsigned former_work(void)
{
    const char *release = getenv("HOLDFAST_FORMER");
    char program[4096], plugins[4096];
    struct fleet_setup setup = {.plugin = "ledger", .worker = "lease = \"5s\";", .program = program};
    if (release != NULL) {
        snprintf(program, sizeof program, "%s/holdfast", release);
        snprintf(plugins, sizeof plugins, "%s/plugins", release);
        setup.jobs = plugins;
    } else {
        snprintf(program, sizeof program, "%s/core/holdfast", test_build());
    }
    return fleet_work(&fleet, &setup);
}

/* Stands still with a task that runs under a lock, else goes on. */
static bool is_caught(unsigned worker)
{
    int status = 0;
    fleet_signal(&fleet, worker, SIGSTOP);
    assert_int_equal(waitpid(fleet.workers[worker].pid, &status, WUNTRACED), fleet.workers[worker].pid);
    assert_true(WIFSTOPPED(status));
    ledger_read();
    if (runs_of(worker) > 0)
        return true;
    fleet_signal(&fleet, worker, SIGCONT);
    return false;
}

/* Kills it while tasks run, which end with it. */
static void kill_in_runs(unsigned worker)
{
    LOAD_UNTIL(is_caught(worker));
    one_fleet_kill(worker);
    for (unsigned i = 0; i < RESOURCES; i++)
        if (ledger.holds[i].worker == worker)
            ledger.holds[i].jid[0] = '\0';
}

/* --- lock nodes --------------------------------------------------------------------------------------------------- */

/* Whether a majority has recorded the run of the server, so that it votes. */
static bool is_recorded(unsigned node)
{
    char run[64] = "", *info = redis_server_command(fleet.locks.servers[node], "INFO server");
    const char *at = strstr(info, "run_id:");
    assert_non_null(at);
    sscanf(at, "run_id:%63[0-9a-f]", run);
    free(info);
    return strstr(lock_cluster_ask(&fleet.locks, node, "GET " MARKER_KEY), run) != NULL;
}

/* --- the test ----------------------------------------------------------------------------------------------------- */

/* Workers of both versions take each other's tasks, also those of the killed. */
static void workers_upgrade(unsigned *workers)
{
    unsigned olds[] = {former_work(), former_work()};
    load_until_ended(100);
    quiet_run();
    for (unsigned i = 0; i < 3; i++)
        workers[i] = work();
    LOAD_UNTIL(ended_by(workers[0]) > 0 && ended_by(workers[1]) > 0 && ended_by(workers[2]) > 0);
    redis_server_restart(fleet.locks.servers[0]);
    assert_string_equal(lock_cluster_ask(&fleet.locks, 0, "DBSIZE"), "0");
    kill_in_runs(olds[0]);
    kill_in_runs(workers[0]);
    LOAD_UNTIL(is_recorded(0));
    redis_server_pause(fleet.locks.servers[1]); /* so the node that forgot its fences has to count them again */
    load_until_ended(200);
    quiet_run();
    redis_server_resume(fleet.locks.servers[1]);
    one_fleet_stop(olds[1]);
    workers[0] = work();
    LOAD_UNTIL(ended_by(workers[0]) > 0);
}

static void expect_all_accounted_for(unsigned kills)
{
    struct account *account = account_create(0, pushed);
    struct account_sums sums = account_settle(account, &fleet, stderr);
    account_free(account);
    assert_true(account_is_settled(&sums));
    assert_int_equal(sums.ended, pushed);
    assert_true(sums.recoveries >= kills);
}

TEST(a_rolling_upgrade_loses_and_doubles_nothing)
{
    unsigned workers[3];
    for (unsigned i = 0; i < fleet.locks.count; i++)
        for (unsigned resource = 0; resource < RESOURCES; resource++)
            lock_cluster_ask(&fleet.locks, i, "ZADD hf:fences %llu lock:r%u", FIRST_TOKEN, resource);
    workers_upgrade(workers);
    load_until_ended(100);
    quiet_run();
    test_await(ended() >= pushed && fleet_left(&fleet) == 0);
    for (unsigned i = 0; i < 3; i++)
        one_fleet_stop(workers[i]);
    for (unsigned resource = 0; resource < RESOURCES; resource++)
        assert_true(ledger.tokens[resource] > FIRST_TOKEN);
    expect_all_accounted_for(2);
}

static int set_up(void **state)
{
    (void)state;
    fleet_start(&fleet, &(struct redis_server_options){.config = ACCOUNT_NODE}, 3);
    fleet.locks.max_ttl_ms = MAX_TTL_MS;
    lock_cluster_heal(&fleet.locks);
    return 0;
}

RUN_GROUP(set_up, one_fleet_tear_down, NULL, one_fleet_clean)
