#include "tests/chaos/trial.h"

#include <stdlib.h>

#include "base/random.h"
#include "tests/support/test.h"

enum { RESOURCES = 16, PUSH_EVERY_MS = 40, PUSH_AT_ONCE = 2, HASTEN_EVERY_MS = 100 };

#define LOCK                                                                                                           \
    "ttl = \"1s\"; tries = 5; retry_delay = \"5ms\"; retry_jitter = \"10ms\"; park_delay = \"100ms\"; "                \
    "prefix = \"lock:\";"

/* --- life --------------------------------------------------------------------------------------------------------- */

static void workers_start(struct trial *trial, const char *lease)
{
    char worker[64];
    snprintf(worker, sizeof worker, "lease = \"%s\";", lease);
    struct fleet_setup setup = {.plugin = "fenced_witness", .threads = 8, .worker = worker, .lock = LOCK};
    for (unsigned i = 0; i < TRIAL_WORKERS; i++)
        trial->workers[i] = hosts_work(&trial->hosts, i, &setup);
    for (unsigned i = 0; i < TRIAL_WORKERS; i++)
        test_await(fleet_logged(&trial->hosts.fleet, trial->workers[i], "node_up node=queue address"));
}

void trial_start(struct trial *trial, const char *lease)
{
    char path[100];
    trial->witness = NULL;
    trial->pushed = 0;
    trial->long_every = 30;
    hosts_start(&trial->hosts, TRIAL_WORKERS, TRIAL_NODES, "timeout = \"150ms\";");
    if (!hosts_can_cut(&trial->hosts))
        print_message("hosts are addresses of this machine, nothing is cut: %s\n",
                      private_network_reason(trial->hosts.network));
    hosts_form_group(&trial->hosts, TRIAL_MAX_TTL_MS);
    snprintf(path, sizeof path, "%s/witness", trial->hosts.fleet.directory);
    trial->witness = fenced_witness_start(path);
    workers_start(trial, lease);
}

void trial_stop(struct trial *trial)
{
    fenced_witness_destroy(trial->witness);
    hosts_stop(&trial->hosts);
}

/* --- work --------------------------------------------------------------------------------------------------------- */

/* One in ten is short, but not so short that its lock needs no extension. */
static unsigned think_ms(const struct trial *trial, unsigned number)
{
    if (number % trial->long_every == 7)
        return TRIAL_HOLD_MS - 100;
    return (unsigned)random_between(20, 80) * (number % 10 == 3 ? 10 : 1);
}

static void push(struct trial *trial)
{
    unsigned number = trial->pushed++;
    fleet_push(&trial->hosts.fleet, "{\"class\":\"add\",\"args\":[%u],\"jid\":\"k%u\",\"resource\":\"r%u\"}",
               think_ms(trial, number), number, number % RESOURCES);
}

void trial_load(struct trial *trial, int64_t ms)
{
    struct instant end = instant_after(instant_now(), ms * NS_PER_MS);
    while (!instant_reached(instant_now(), end)) {
        for (unsigned i = 0; i < PUSH_AT_ONCE; i++)
            push(trial);
        poll(NULL, 0, PUSH_EVERY_MS);
    }
}

unsigned trial_done(struct trial *trial)
{
    return fleet_noted_all(&trial->hosts.fleet, "ok ");
}

unsigned trial_running(struct trial *trial, unsigned worker)
{
    struct fleet *fleet = &trial->hosts.fleet;
    char *journal = fleet_journal(fleet), *rest = journal, *line, what[16], process[16];
    unsigned begun = 0, ended = 0;
    while ((line = strsep(&rest, "\n")) != NULL)
        if (sscanf(line, "%15s %*s %15s", what, process) == 2 &&
            strcmp(process, fleet->workers[trial->workers[worker]].name) == 0) {
            begun += strcmp(what, "begin") == 0;
            ended += strcmp(what, "begin") != 0;
        }
    free(journal);
    return begun - ended;
}

unsigned trial_logged(struct trial *trial, const char *format, ...)
{
    unsigned count = 0;
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (unsigned i = 0; i < TRIAL_WORKERS; i++)
        count += fleet_logged(&trial->hosts.fleet, trial->workers[i], text);
    return count;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* A task whose lock was lost waits for its retry, which takes longer than a test may. */
static bool is_drained(struct trial *trial)
{
    account_hasten(&trial->hosts.fleet);
    poll(NULL, 0, HASTEN_EVERY_MS);
    return fleet_left(&trial->hosts.fleet) == 0;
}

static void workers_end(struct trial *trial)
{
    for (unsigned i = 0; i < TRIAL_WORKERS; i++) {
        fleet_signal(&trial->hosts.fleet, trial->workers[i], SIGTERM);
        assert_int_equal(fleet_wait(&trial->hosts.fleet, trial->workers[i]), 0);
    }
}

static void result_print(const struct trial_result *result, const char *name)
{
    const struct account_sums *sums = &result->sums;
    fenced_verdict_print(&result->verdict, name, stdout);
    printf("%s: %u tasks, %u runs, %u recovered, %u retried, %u dead, %u lost, %u doubled\n", name, sums->tasks,
           sums->runs, sums->recoveries, sums->retries, sums->dead, sums->lost, sums->doubled);
    fflush(stdout);
}

struct trial_result trial_judge(struct trial *trial, const char *name)
{
    struct trial_result result;
    hosts_heal(&trial->hosts);
    test_await(is_drained(trial));
    workers_end(trial);
    struct account *account = account_create(0, trial->pushed);
    result.sums = account_settle(account, &trial->hosts.fleet, stdout);
    result.verdict = fenced_witness_judge(trial->witness, stdout);
    account_free(account);
    result_print(&result, name);
    assert_true(account_is_settled(&result.sums));
    assert_int_equal(result.sums.dead, 0);
    assert_int_equal(result.verdict.unfenced, 0);
    assert_int_equal(result.verdict.miscounted, 0);
    assert_int_equal(result.verdict.applied, trial->pushed);
    assert_int_equal(result.verdict.disorder, 0);
    return result;
}
