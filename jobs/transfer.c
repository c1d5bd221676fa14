/* transfer: moves money between two accounts of an SQLite ledger. Class: transfer. The lock is for correctness: without
 * it, money is lost. With a fence the ledger is right even if two workers believe that they hold the lock.
 *
 * Arguments: [FROM, TO, AMOUNT] or [FROM, TO, AMOUNT, THINK_US]. Accounts are texts of 1 to 64 bytes or integers, the
 * amount is a whole number from 1 to 10^12, and THINK_US (up to a minute) simulates the work between reading and
 * writing. A task that names no resources locks both accounts, as "account:NAME".
 *
 * How it works. One transaction reads both balances; then the job waits; another transaction writes both *absolute*
 * balances, computed from those it read, and records the jid. That is right only if no other task writes one of the
 * accounts in between, which the lock ensures. The job deliberately works like programs that read a record, change it
 * and save it.
 *
 * The fence. If the lock has a token, both transactions begin with the fence of jobs/fence/fence.h. The first advances
 * the fence of every locked resource before it reads. The second is refused if a later holder has advanced it
 * meanwhile. Such a task has written nothing; it fails as HF::FencedOff and is retried under a new token. Without a
 * token, safety depends on the lock alone, and on no writer exceeding it: a worker configured without tokens starts
 * only if the class has another mode than correctness.
 *
 * Repeats. `done` has one row for every jid, so a task that runs again (its worker died after the commit) changes
 * nothing and succeeds.
 *
 * Accounts may become negative, and a new account has the opening balance. So transfers succeed in any order, and a
 * test can compute the final balances by adding up the input.
 *
 * Cancellation. The last check before COMMIT is whether the lock is still certain, with the ledger's write lock already
 * held: nothing that can block is between the check and the commit. With when_lost = "go_on" there is no check, as in a
 * program that is in the middle of a call; it shows what a fence is good for (make demo-correctness). Never use that
 * for a ledger that matters.
 *
 * Failures of the ledger (busy for too long, disk full, read-only) are HF_FAIL with SQLite's own text: the task is
 * retried later.
 *
 * Threads: each has its own connection, opened on first use and closed when the thread ends or the plugin is closed.
 *
 * Settings: ledger (path, default "ledger.db"), journal ("wal", "delete" or "truncate"; default "wal"), synchronous
 * ("off", "normal" or "full"; default "normal"), busy_timeout (milliseconds, default "5000"), opening_balance
 * (default "0"), think_us (for tasks without one, default "0"), when_lost ("stop" or "go_on"; default "stop"). */
#include <sqlite3.h>

#include "jobs/arguments/arguments.h"
#include "jobs/fence/fence.h"
#include "jobs/kit.h"
#include "jobs/per_thread.h"

enum { ACCOUNT_MAX = 64, ERROR_MAX = 320 };
#define AMOUNT_MAX   INT64_C(1000000000000)
#define THINK_US_MAX INT64_C(60000000)
#define NS_PER_US    INT64_C(1000)

struct ledger {
    struct kit kit;
    char *path;
    const char *journal, *synchronous, *when_lost; /* one of the words above */
    int64_t busy_timeout_ms, opening_balance, think_us;
    struct per_thread connections;
};

enum statement { BEGIN_READ, BEGIN_WRITE, COMMIT, ROLLBACK, IS_DONE, RECORD, READ, WRITE, STATEMENTS };

static const char *const statement_texts[STATEMENTS] = {
    [BEGIN_READ] = "BEGIN DEFERRED",
    [BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [IS_DONE] = "SELECT 1 FROM done WHERE jid = ?1",
    [RECORD] = "INSERT OR IGNORE INTO done (jid) VALUES (?1)",
    [READ] = "SELECT balance FROM accounts WHERE name = ?1",
    [WRITE] = "INSERT INTO accounts (name, balance) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET balance = ?2",
};

struct connection {
    struct ledger *ledger;
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    struct hf_fence_sqlite *fence;
};

struct order {
    char from[ACCOUNT_MAX + 1], to[ACCOUNT_MAX + 1];
    const char *jid;
    const char *const *resources; /* the locked resources */
    unsigned resource_count;
    const char *token; /* of the lock; "" = none */
    int64_t amount, think_us;
    int64_t from_balance, to_balance; /* as read, then as to be written */
};

/* --- SQLite ------------------------------------------------------------------------------------------------- */

/* Runs one statement that returns at most one row; SQLITE_ROW, SQLITE_DONE or an error. */
static int step(struct connection *connection, enum statement which, const char *text, int64_t number, int64_t *result)
{
    sqlite3_stmt *statement = connection->statements[which];
    int parameters = sqlite3_bind_parameter_count(statement);
    if (parameters >= 1)
        sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC);
    if (parameters >= 2)
        sqlite3_bind_int64(statement, 2, number);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW && result != NULL)
        *result = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return code;
}

static int step_is_done(struct connection *connection, enum statement which)
{
    return step(connection, which, NULL, 0, NULL) == SQLITE_DONE;
}

static void roll_back(struct connection *connection)
{
    if (!sqlite3_get_autocommit(connection->db))
        step(connection, ROLLBACK, NULL, 0, NULL);
}

static int execute(sqlite3 *db, const char *text)
{
    return sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK;
}

/* open() checked the words, so the text is safe. A small cache, because there may be a hundred connections. */
static int settings_apply(const struct ledger *ledger, sqlite3 *db)
{
    char text[160];
    sqlite3_busy_timeout(db, (int)ledger->busy_timeout_ms);
    snprintf(text, sizeof text, "PRAGMA journal_mode = %s; PRAGMA synchronous = %s; PRAGMA cache_size = -128",
             ledger->journal, ledger->synchronous);
    return execute(db, text);
}

/* The ledger has its own table of done tasks, which also exists without a fence. */
static int schema_create(sqlite3 *db)
{
    char reason[ERROR_MAX];
    return execute(db, "BEGIN IMMEDIATE;"
                       "CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, balance INTEGER NOT NULL);"
                       "CREATE TABLE IF NOT EXISTS done (jid TEXT PRIMARY KEY) WITHOUT ROWID;"
                       "COMMIT") &&
           hf_fence_sqlite_install(db, reason, sizeof reason);
}

static int statements_prepare(struct connection *connection)
{
    char reason[ERROR_MAX];
    for (int i = 0; i < STATEMENTS; i++)
        if (sqlite3_prepare_v3(connection->db, statement_texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &connection->statements[i], NULL) != SQLITE_OK)
            return 0;
    connection->fence = hf_fence_sqlite_create(connection->db, reason, sizeof reason);
    return connection->fence != NULL;
}

static void connection_free(void *value)
{
    struct connection *connection = value;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(connection->statements[i]);
    hf_fence_sqlite_destroy(connection->fence);
    sqlite3_close(connection->db);
    free(connection);
}

/* Returns SQLite's code; SQLITE_OK if the connection is usable. */
static int connection_open(struct connection *connection, int is_first)
{
    struct ledger *ledger = connection->ledger;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(ledger->path, &connection->db, flags, NULL) == SQLITE_OK &&
        settings_apply(ledger, connection->db) && (!is_first || schema_create(connection->db)) &&
        statements_prepare(connection))
        return SQLITE_OK;
    int code = sqlite3_errcode(connection->db);
    return code != SQLITE_OK ? code : SQLITE_NOMEM;
}

/* NULL with a reason. Waits here, because SQLite applies the busy timeout neither to entering WAL mode nor to
 * leaving it when another process closes its last connection. */
static struct connection *connection_create(struct ledger *ledger, int is_first, char *reason, size_t reason_size)
{
    int64_t until = kit_now_ns() + ledger->busy_timeout_ms * NS_PER_MS;
    for (;;) {
        struct connection *connection = calloc(1, sizeof *connection);
        if (connection == NULL)
            return NULL;
        connection->ledger = ledger;
        int code = connection_open(connection, is_first);
        if (code == SQLITE_OK)
            return connection;
        snprintf(reason, reason_size, "ledger %.128s: %s", ledger->path,
                 code == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(connection->db));
        connection_free(connection);
        if (code != SQLITE_BUSY || kit_now_ns() >= until)
            return NULL;
        sqlite3_sleep(5);
    }
}

static struct connection *connection_of_thread(struct ledger *ledger, char *reason, size_t reason_size)
{
    struct connection *connection = per_thread_get(&ledger->connections);
    if (connection != NULL)
        return connection;
    connection = connection_create(ledger, 0, reason, reason_size);
    if (connection == NULL || per_thread_set(&ledger->connections, connection) == 0)
        return connection;
    snprintf(reason, reason_size, "no memory for a thread's connection");
    connection_free(connection);
    return NULL;
}

/* --- the transfer ------------------------------------------------------------------------------------------- */

static int ledger_error(const struct ledger *ledger, hf_job *job, const char *error_class, const char *text)
{
    ledger->kit.job->error(job, error_class, "ledger %.128s: %s", ledger->path, text);
    return HF_FAIL;
}

static int fail(const struct ledger *ledger, struct connection *connection, hf_job *job)
{
    char text[ERROR_MAX]; /* ROLLBACK would replace it */
    snprintf(text, sizeof text, "%s", sqlite3_errmsg(connection->db));
    roll_back(connection);
    return ledger_error(ledger, job, "LedgerError", text);
}

/* HF_OK, or the code for run(). */
static int transaction_begin(const struct ledger *ledger, struct connection *connection, hf_job *job,
                             const struct order *order, enum statement unfenced)
{
    char reason[ERROR_MAX];
    if (order->token[0] == '\0')
        return step_is_done(connection, unfenced) ? HF_OK : fail(ledger, connection, job);
    enum hf_fence_outcome outcome = hf_fence_sqlite_begin(connection->fence, order->resources, order->resource_count,
                                                          order->token, reason, sizeof reason);
    if (outcome == HF_FENCE_ACCEPTED)
        return HF_OK;
    return ledger_error(ledger, job, outcome == HF_FENCE_STALE ? HF_FENCED_OFF : "LedgerError", reason);
}

static int balance_read(const struct ledger *ledger, struct connection *connection, const char *name, int64_t *balance)
{
    *balance = ledger->opening_balance;
    int code = step(connection, READ, name, 0, balance);
    return code == SQLITE_ROW || code == SQLITE_DONE;
}

/* The first transaction. Sets `*is_repeat` if the task was done before. */
static int balances_read(const struct ledger *ledger, struct connection *connection, hf_job *job, struct order *order,
                         int *is_repeat)
{
    int result = transaction_begin(ledger, connection, job, order, BEGIN_READ);
    if (result != HF_OK)
        return result;
    int code = step(connection, IS_DONE, order->jid, 0, NULL);
    *is_repeat = code == SQLITE_ROW;
    int is_good = (code == SQLITE_ROW || code == SQLITE_DONE) &&
                  balance_read(ledger, connection, order->from, &order->from_balance) &&
                  balance_read(ledger, connection, order->to, &order->to_balance) && step_is_done(connection, COMMIT);
    return is_good ? HF_OK : fail(ledger, connection, job);
}

static int must_stop(const struct ledger *ledger, const hf_job *job)
{
    return strcmp(ledger->when_lost, "stop") == 0 && ledger->kit.cancel->cancelled(job);
}

/* The second transaction. */
static int balances_write(const struct ledger *ledger, struct connection *connection, hf_job *job,
                          const struct order *order)
{
    int result = transaction_begin(ledger, connection, job, order, BEGIN_WRITE);
    if (result != HF_OK)
        return result;
    if (step(connection, RECORD, order->jid, 0, NULL) != SQLITE_DONE)
        return fail(ledger, connection, job);
    if (sqlite3_changes(connection->db) == 0) { /* another run of this task was done meanwhile */
        roll_back(connection);
        return HF_OK;
    }
    if (step(connection, WRITE, order->from, order->from_balance, NULL) != SQLITE_DONE ||
        step(connection, WRITE, order->to, order->to_balance, NULL) != SQLITE_DONE)
        return fail(ledger, connection, job);
    if (must_stop(ledger, job)) {
        roll_back(connection);
        return HF_CANCELLED;
    }
    return step_is_done(connection, COMMIT) ? HF_OK : fail(ledger, connection, job);
}

static int order_run(struct ledger *ledger, struct connection *connection, hf_job *job, struct order *order)
{
    int is_repeat = 0;
    int result = balances_read(ledger, connection, job, order, &is_repeat);
    if (result != HF_OK)
        return result;
    if (is_repeat) {
        ledger->kit.job->event(job, HF_LOG_WARN, "task_seen_before", NULL, 0);
        return HF_OK;
    }
    if (__builtin_sub_overflow(order->from_balance, order->amount, &order->from_balance) ||
        __builtin_add_overflow(order->to_balance, order->amount, &order->to_balance))
        return kit_bury(&ledger->kit, job, "HF::BadArguments", "a balance would leave the range of 64 bits");
    if (!kit_pause(&ledger->kit, job, order->think_us * NS_PER_US) && must_stop(ledger, job))
        return HF_CANCELLED;
    return balances_write(ledger, connection, job, order);
}

/* An account is a text, or an integer, which is read as its digits. */
static int account_read(struct argument args, unsigned index, char name[ACCOUNT_MAX + 1])
{
    struct argument element;
    int64_t number;
    if (!argument_element(args, index, &element))
        return 0;
    if (argument_whole(element, &number))
        return snprintf(name, ACCOUNT_MAX + 1, "%lld", (long long)number) > 0;
    char *text = argument_text(element);
    size_t length = text != NULL ? strlen(text) : 0;
    int is_good = length > 0 && length <= ACCOUNT_MAX;
    if (is_good)
        memcpy(name, text, length + 1);
    free(text);
    return is_good;
}

static int number_read(struct argument args, unsigned index, int64_t *number)
{
    struct argument element;
    return argument_element(args, index, &element) && argument_whole(element, number);
}

static int order_read(struct order *order, const char *text, size_t length, char *reason, size_t reason_size)
{
    struct argument args = argument_of(text, length), fourth;
    if (!account_read(args, 0, order->from) || !account_read(args, 1, order->to) ||
        !number_read(args, 2, &order->amount))
        return kit_refuse(reason, reason_size, "expected [FROM, TO, AMOUNT] or [FROM, TO, AMOUNT, THINK_US]");
    if (strcmp(order->from, order->to) == 0)
        return kit_refuse(reason, reason_size, "both accounts are the same");
    if (order->amount < 1 || order->amount > AMOUNT_MAX)
        return kit_refuse(reason, reason_size, "the amount is to be from 1 to 10^12");
    if (argument_element(args, 3, &fourth) &&
        (!argument_whole(fourth, &order->think_us) || order->think_us < 0 || order->think_us > THINK_US_MAX))
        return kit_refuse(reason, reason_size, "THINK_US is to be from 0 to 60000000");
    return 1;
}

static int check(const char *args, size_t length, char *reason, size_t reason_size)
{
    struct order order = {0};
    return order_read(&order, args, length, reason, reason_size);
}

static int run(hf_job *job, void *state)
{
    struct ledger *ledger = state;
    const struct kit *kit = &ledger->kit;
    struct order order = {.jid = kit->job->jid(job), .think_us = ledger->think_us};
    char reason[ERROR_MAX] = "no memory";
    size_t length;
    const char *args = kit->job->args(job, &length);
    order.resource_count = kit->lock->resources(job, &order.resources);
    order.token = order.resource_count > 0 ? kit->lock->fence(job, 0) : "";
    if (!order_read(&order, args, length, reason, sizeof reason))
        return kit_bury(kit, job, "HF::BadArguments", reason);
    if (order.jid == NULL || order.jid[0] == '\0')
        return kit_bury(kit, job, "HF::BadArguments", "the task has no jid, so a repeat could not be noticed");
    struct connection *connection = connection_of_thread(ledger, reason, sizeof reason);
    if (connection != NULL)
        return order_run(ledger, connection, job, &order);
    kit->job->error(job, "LedgerError", "%s", reason);
    return HF_FAIL;
}

/* --- opening ------------------------------------------------------------------------------------------------ */

static int choose(const hf_host *host, const char *key, const char *const *words, const char **chosen, char *reason,
                  size_t reason_size)
{
    const char *wanted = kit_setting(host, key, words[0]);
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(wanted, words[i]) == 0) {
            *chosen = words[i];
            return 0;
        }
    }
    snprintf(reason, reason_size, "the setting %s is none of those that jobs/transfer.c names: %.64s", key, wanted);
    return -1;
}

static int settings_read(struct ledger *ledger, const hf_host *host, char *reason, size_t reason_size)
{
    static const char *const journals[] = {"wal", "delete", "truncate", NULL};
    static const char *const synchronous[] = {"normal", "off", "full", NULL};
    static const char *const when_lost[] = {"stop", "go_on", NULL};
    ledger->busy_timeout_ms = 5000;
    ledger->path = strdup(kit_setting(host, "ledger", "ledger.db"));
    return ledger->path == NULL || choose(host, "journal", journals, &ledger->journal, reason, reason_size) ||
           choose(host, "synchronous", synchronous, &ledger->synchronous, reason, reason_size) ||
           choose(host, "when_lost", when_lost, &ledger->when_lost, reason, reason_size) ||
           kit_setting_number(host, "busy_timeout", 600000, &ledger->busy_timeout_ms, reason, reason_size) ||
           kit_setting_number(host, "opening_balance", AMOUNT_MAX, &ledger->opening_balance, reason, reason_size) ||
           kit_setting_number(host, "think_us", THINK_US_MAX, &ledger->think_us, reason, reason_size);
}

static int open_ledger(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    struct ledger *ledger = kit_state(sizeof *ledger, host, reason, reason_size);
    if (ledger == NULL)
        return -1;
    if (settings_read(ledger, host, reason, reason_size) == 0) {
        struct connection *first = connection_create(ledger, 1, reason, reason_size);
        if (first != NULL)
            connection_free(first);
        if (first != NULL && per_thread_init(&ledger->connections, connection_free) == 0) {
            *state = ledger;
            return 0;
        }
    }
    free(ledger->path);
    free(ledger);
    return -1;
}

/* All runner threads have ended or are idle; closes the connections of the idle ones. */
static void close_ledger(void *state)
{
    struct ledger *ledger = state;
    per_thread_fini(&ledger->connections);
    free(ledger->path);
    free(ledger);
}

static const char *const resources[] = {"account:{0}", "account:{1}", NULL};

static const hf_handler handler = {
    .size = sizeof handler,
    .name = "transfer",
    .about = "moves money between two accounts; arguments: [FROM, TO, AMOUNT] or [FROM, TO, AMOUNT, THINK_US]",
    .flags = HF_LOCK_REQUIRED,
    .run = run,
    .check = check,
    .isolation = HF_ISOLATION_THREAD,
    .mode = HF_CORRECTNESS,
    .resources = resources,
};
static const hf_handler *const handlers[] = {&handler, NULL};

const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("transfer", "1.0"), .open = open_ledger, .close = close_ledger,
                                   .handlers = handlers};
