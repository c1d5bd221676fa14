#include "tests/support/fleet.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "tests/support/stepped_clock.h"
#include "tests/support/test.h"

/* A machine that stands still for a moment must neither end locks and rows of hand-overs nor make nodes silent. A lock
 * node may take a quarter of the ttl. */
#define PATIENT_NODE    "host = \"127.0.0.1\"; port = %u; connect_timeout = \"5s\"; "
#define USUAL_LOCK_NODE "timeout = \"1s\";"
#define OTHER_LOCK_NODE "timeout = \"250ms\";"
#define USUAL_LOCK                                                                                                     \
    "ttl = \"5s\"; tries = 20; retry_delay = \"2ms\"; retry_jitter = \"4ms\"; park_delay = \"100ms\"; "                \
    "prefix = \"lock:\"; hand_over_time = \"1m\";"

enum { ARGUMENTS_MAX = 16 };

/* Of what is printed when a test fails. */
enum { TOLD_MAX = 16 * 1024, TOLD_WORKERS_MAX = 16 };

static const char *or_nothing(const char *text)
{
    return text != NULL ? text : "";
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static char *path_of(const struct fleet *fleet, const char *name, const char *ending)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s%s", fleet->directory, name, ending) < 0)
        abort();
    return path;
}

/* Empty when there is no such file. */
static char *file_read(char *path)
{
    struct buffer text = {0};
    char bytes[4096];
    size_t got;
    FILE *file = fopen(path, "re");
    free(path);
    while (file != NULL && (got = fread(bytes, 1, sizeof bytes, file)) > 0)
        buffer_append(&text, bytes, got);
    if (file != NULL)
        fclose(file);
    char *copy = memory_text(buffer_text(&text));
    buffer_fini(&text);
    return copy;
}

static int entry_remove(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type;
    return place->level > 0 ? remove(path) : 0;
}

static void directory_empty(const struct fleet *fleet)
{
    assert_int_equal(nftw(fleet->directory, entry_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

void fleet_start(struct fleet *fleet, const struct redis_server_options *queue, unsigned lock_nodes)
{
    *fleet = (struct fleet){.worker_count = 0};
    private_directory_create(fleet->directory);
    fleet->queue = redis_server_start(queue);
    lock_cluster_start(&fleet->locks, lock_nodes);
}

void fleet_stop(struct fleet *fleet)
{
    redis_server_destroy(fleet->queue);
    lock_cluster_stop(&fleet->locks);
    directory_empty(fleet);
    rmdir(fleet->directory);
}

/* --- workers ------------------------------------------------------------------------------------------------------ */

/* Whether the plugin is one of tests/plugins, which get a file to write to. */
static bool plugin_is_ours(const char *home, const char *plugin)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/tests/plugins/%s.so", home, plugin);
    return access(path, R_OK) == 0;
}

static void plugin_write(const struct fleet *fleet, const char *name, const struct fleet_setup *setup, FILE *file)
{
    char *home = realpath(test_build(), NULL);
    const char *plugin = setup->plugin != NULL ? setup->plugin : "witness";
    bool is_ours = plugin_is_ours(home, plugin);
    if (setup->jobs != NULL)
        fprintf(file, "jobs_directory = \"%s\";\n", setup->jobs);
    else
        fprintf(file, "jobs_directory = \"%s/%s\"; jobs = [\"%s\"];\n", home, is_ours ? "tests/plugins" : "jobs",
                plugin);
    fprintf(file, "%s };\n", or_nothing(setup->worker));
    if (is_ours || setup->jobs != NULL)
        fprintf(file,
                "plugin_settings = ({ plugin = \"%s\"; settings = { journal = \"%s/journal\"; "
                "directory = \"%s\"; process = \"%s\"; %s }; });\n",
                plugin, fleet->directory, fleet->directory, name, or_nothing(setup->settings));
    free(home);
}

static void configuration_write(const struct fleet *fleet, const char *name, const struct fleet_setup *setup)
{
    char *path = path_of(fleet, name, ".conf");
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "worker = { host = \"%s\"; threads = %u; queues = [%s]; allow_root = %s;\n", name,
            setup->threads > 0 ? setup->threads : 4, setup->queues != NULL ? setup->queues : "\"jobs\"",
            setup->forbid_root ? "false" : "true");
    plugin_write(fleet, name, setup, file);
    const char *lock_node = setup->lock == NULL ? USUAL_LOCK_NODE : OTHER_LOCK_NODE;
    fprintf(file, "queue_node = { %s ", or_nothing(setup->queue_at));
    if (setup->queue_at == NULL)
        fprintf(file, PATIENT_NODE, redis_server_port(fleet->queue));
    fprintf(file, "%s };\n", or_nothing(setup->queue_node));
    fprintf(file, "lock_nodes = (%s", or_nothing(setup->lock_nodes));
    for (unsigned i = 0; setup->lock_nodes == NULL && i < fleet->locks.count; i++)
        fprintf(file, "%s{ " PATIENT_NODE "%s }", i > 0 ? ", " : "", redis_server_port(fleet->locks.servers[i]),
                setup->lock_node != NULL ? setup->lock_node : lock_node);
    fprintf(file, ");\nlock = { %s };\n", setup->lock != NULL ? setup->lock : USUAL_LOCK);
    fprintf(file, "classes = (%s);\n", or_nothing(setup->classes));
    fprintf(file, "%s\n", or_nothing(setup->sections));
    assert_int_equal(fclose(file), 0);
    free(path);
}

/* In the child. */
static void clock_set(const struct fleet *fleet, const char *name, int64_t ahead_ns)
{
    char *path = path_of(fleet, name, ".clock");
    FILE *file = fopen(path, "we");
    if (file == NULL || fwrite(&ahead_ns, sizeof ahead_ns, 1, file) != 1 || fclose(file) != 0)
        _exit(127);
    stepped_clock_enter(path);
    free(path);
}

/* In the child. */
_Noreturn static void worker_exec(const struct fleet *fleet, const char *name, const struct fleet_setup *setup,
                                  pid_t parent)
{
    char program[4096], *rest = memory_text(or_nothing(setup->arguments)), *argument;
    char *config = path_of(fleet, name, ".conf"), *log = path_of(fleet, name, ".log");
    char *arguments[ARGUMENTS_MAX + 6] = {program, "work", "-c", config};
    int count = 4, file = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    snprintf(program, sizeof program, "%s%s/holdfast", test_build(), setup->fault != NULL ? "/faults" : "");
    if (setup->fault != NULL)
        setenv("HOLDFAST_FAULT", setup->fault, 1);
    if (setup->ahead_ns != 0)
        clock_set(fleet, name, setup->ahead_ns);
    while ((argument = strsep(&rest, " ")) != NULL && count < ARGUMENTS_MAX + 4)
        if (argument[0] != '\0')
            arguments[count++] = argument;
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(127);
    execv(setup->program != NULL ? setup->program : program, arguments);
    _exit(127);
}

unsigned fleet_work(struct fleet *fleet, const struct fleet_setup *setup)
{
    static const struct fleet_setup defaults = {0};
    unsigned number = fleet->worker_count++;
    assert_true(number < FLEET_WORKERS_MAX);
    struct fleet_worker *worker = &fleet->workers[number];
    setup = setup != NULL ? setup : &defaults;
    snprintf(worker->name, sizeof worker->name, "host%u", number);
    worker->crashes = setup->crashes;
    configuration_write(fleet, worker->name, setup);
    pid_t parent = getpid();
    worker->pid = fork();
    assert_true(worker->pid >= 0);
    if (worker->pid == 0)
        worker_exec(fleet, worker->name, setup, parent);
    return number;
}

void fleet_configure(struct fleet *fleet, unsigned worker, const struct fleet_setup *setup)
{
    configuration_write(fleet, fleet->workers[worker].name, setup);
}

void fleet_signal(struct fleet *fleet, unsigned worker, int number)
{
    assert_true(fleet->workers[worker].pid > 0);
    assert_int_equal(kill(fleet->workers[worker].pid, number), 0);
}

static bool has_ended(struct fleet_worker *worker, int *status)
{
    return waitpid(worker->pid, status, WNOHANG) == worker->pid;
}

/* Until its end; how that was. */
static int worker_await(struct fleet_worker *worker)
{
    int status = 0;
    assert_true(worker->pid > 0);
    test_await(has_ended(worker, &status));
    worker->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Whether a sanitizer found something in it: its exit code may be one that a test expects for another reason. Processes
 * that it started are none of it, as they may run handlers that are wrong on purpose. */
static bool is_reported(const struct fleet *fleet, unsigned number, pid_t pid)
{
    char address[64], thread[64];
    if (fleet->workers[number].crashes)
        return false;
    char *log = fleet_log(fleet, number);
    snprintf(address, sizeof address, "==%d==ERROR: ", (int)pid);
    snprintf(thread, sizeof thread, " (pid=%d)\n", (int)pid);
    bool found = strstr(log, address) != NULL ||
                 (strstr(log, "WARNING: ThreadSanitizer: ") != NULL && strstr(log, thread) != NULL);
    free(log);
    return found;
}

int fleet_wait(struct fleet *fleet, unsigned number)
{
    pid_t pid = fleet->workers[number].pid;
    int code = worker_await(&fleet->workers[number]);
    if (is_reported(fleet, number, pid))
        fail_msg("a sanitizer found something in %s, which ended with %d", fleet->workers[number].name, code);
    return code;
}

void fleet_clean(struct fleet *fleet)
{
    unsigned reports = 0;
    for (unsigned i = 0; i < fleet->worker_count; i++) {
        pid_t pid = fleet->workers[i].pid;
        if (pid == 0)
            continue;
        kill(pid, SIGKILL);
        worker_await(&fleet->workers[i]);
        reports += is_reported(fleet, i, pid);
    }
    if (reports > 0)
        fleet_tell(fleet);
    fleet->worker_count = 0;
    lock_cluster_heal(&fleet->locks);
    redis_server_heal(fleet->queue);
    directory_empty(fleet);
    assert_int_equal(reports, 0);
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 0))) static char *ask(struct fleet *fleet, const char *format, va_list arguments)
{
    char *command = NULL;
    if (vasprintf(&command, format, arguments) < 0)
        abort();
    char *reply = redis_server_command(fleet->queue, "%s", command);
    if (reply[0] == '-')
        fail_msg("%s: %s", command, reply);
    free(command);
    return reply;
}

char *fleet_ask(struct fleet *fleet, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *reply = ask(fleet, format, arguments);
    va_end(arguments);
    return reply;
}

long long fleet_number(struct fleet *fleet, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *reply = ask(fleet, format, arguments);
    va_end(arguments);
    long long number = strtoll(reply, NULL, 10);
    free(reply);
    return number;
}

char *fleet_script(struct fleet *fleet, const char *path)
{
    struct buffer text = {0};
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    for (int byte; (byte = getc(file)) != EOF;)
        if (byte == '\n')
            buffer_append_text(&text, "\\n");
        else
            buffer_format(&text, byte == '"' || byte == '\\' ? "\\%c" : "%c", byte);
    fclose(file);
    char *digest = fleet_ask(fleet, "SCRIPT LOAD \"%s\"", buffer_text(&text));
    buffer_fini(&text);
    return digest;
}

void fleet_push(struct fleet *fleet, const char *format, ...)
{
    char *task = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&task, format, arguments) < 0)
        abort();
    va_end(arguments);
    free(fleet_ask(fleet, "LPUSH queue:jobs '%s'", task));
    free(task);
}

#define PUSH_MANY                                                                                                      \
    "for i = 1, tonumber(ARGV[2]) do "                                                                                 \
    "  local task = {class = ARGV[1], args = {tonumber(ARGV[3])}, jid = 't' .. i} "                                    \
    "  if ARGV[4] ~= '0' then "                                                                                        \
    "    task.resource = 'r' .. (i % tonumber(ARGV[4]) + 1) "                                                          \
    "    task.args[2] = task.resource "                                                                                \
    "  end "                                                                                                           \
    "  redis.call('LPUSH', KEYS[1], cjson.encode(task)) "                                                              \
    "end"

void fleet_push_many(struct fleet *fleet, const char *class_name, unsigned count, unsigned milliseconds,
                     unsigned resources)
{
    free(fleet_ask(fleet, "EVAL \"%s\" 1 queue:jobs %s %u %u %u", PUSH_MANY, class_name, count, milliseconds,
                   resources));
}

/* What processes have is in the places of their slots, which hold 16 bytes when they hold no task, and in the lists of
 * blocking claims. */
#define LEFT                                                                                                           \
    "local left = redis.call('ZCARD', 'schedule') + redis.call('ZCARD', 'retry') + redis.call('ZCARD', 'dead') "       \
    "for _, keys in ipairs({'queue:*', 'hf:*:bell:*'}) do "                                                            \
    "  for _, key in ipairs(redis.call('KEYS', keys)) do "                                                             \
    "    local length = redis.pcall('LLEN', key) "                                                                     \
    "    if type(length) == 'number' then left = left + length end "                                                   \
    "  end "                                                                                                           \
    "end "                                                                                                             \
    "for _, key in ipairs(redis.call('KEYS', 'hf:*:process:*')) do "                                                   \
    "  for _, field in ipairs(redis.call('HKEYS', key)) do "                                                           \
    "    if tonumber(field) and redis.call('HSTRLEN', key, field) > 16 then left = left + 1 end "                      \
    "  end "                                                                                                           \
    "end "                                                                                                             \
    "return left"

unsigned fleet_keys(struct fleet *fleet)
{
    return (unsigned)fleet_number(fleet,
                                  "EVAL \"local count = 0 for _, key in ipairs(redis.call('KEYS', '*')) do if not "
                                  "(key:find('^stat:') or key:find('^[jh]|') or key:find('-%%d%%d%%-%%d%%d:%%d+$') or "
                                  "key:find('^hf:2:locks:') or key == 'hf:2:walked') then "
                                  "count = count + 1 end end return count\" 0");
}

void fleet_assert_due(struct fleet *fleet, const char *set, struct wall_time since, double least_s, double most_s)
{
    char *score = fleet_ask(fleet, "EVAL \"return redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]\" 1 %s", set);
    const double rounding_s = 0.001;
    double due_s = strtod(score, NULL), began_s = (double)since.us / (double)US_PER_S;
    free(score);
    if (due_s < began_s + least_s - rounding_s)
        fail_msg("the first entry of %s is due after %.3f s: too early", set, due_s - began_s);
    double left_s = due_s - (double)wall_now().us / (double)US_PER_S;
    if (left_s > most_s + rounding_s)
        fail_msg("the first entry of %s is due in %.3f s: too late", set, left_s);
}

unsigned fleet_left(struct fleet *fleet)
{
    return (unsigned)fleet_number(fleet, "EVAL \"%s\" 0", LEFT);
}

/* --- what happened ------------------------------------------------------------------------------------------------ */

char *fleet_journal(const struct fleet *fleet)
{
    return file_read(path_of(fleet, "journal", ""));
}

/* Counts the lines that are `text`, or begin with it. */
static unsigned lines_like(struct fleet *fleet, const char *text, bool whole)
{
    char *journal = fleet_journal(fleet), *rest = journal, *line;
    size_t length = strlen(text);
    unsigned count = 0;
    while ((line = strsep(&rest, "\n")) != NULL)
        count += strncmp(line, text, length) == 0 && (!whole || line[length] == '\0');
    free(journal);
    return count;
}

unsigned fleet_noted(struct fleet *fleet, const char *line)
{
    return lines_like(fleet, line, true);
}

unsigned fleet_noted_all(struct fleet *fleet, const char *what)
{
    return lines_like(fleet, what, false);
}

char *fleet_log(const struct fleet *fleet, unsigned worker)
{
    return file_read(path_of(fleet, fleet->workers[worker].name, ".log"));
}

unsigned fleet_logged_times(struct fleet *fleet, unsigned worker, const char *text)
{
    char *log = fleet_log(fleet, worker);
    unsigned count = 0;
    for (const char *at = log; (at = strstr(at, text)) != NULL; at++)
        count++;
    free(log);
    return count;
}

static unsigned reloads(struct fleet *fleet, unsigned worker)
{
    return fleet_logged_times(fleet, worker, " reloaded ") + fleet_logged_times(fleet, worker, " reload_refused ");
}

void fleet_reload(struct fleet *fleet, unsigned worker)
{
    unsigned before = reloads(fleet, worker);
    fleet_signal(fleet, worker, SIGHUP);
    test_await(reloads(fleet, worker) > before);
}

bool fleet_logged(struct fleet *fleet, unsigned worker, const char *text)
{
    return fleet_logged_times(fleet, worker, text) > 0;
}

/* From the start of a line. */
static void text_tell(const char *name, char *text)
{
    size_t length = strlen(text);
    char *from = length > TOLD_MAX ? text + length - TOLD_MAX : text, *line = from > text ? strchr(from, '\n') : NULL;
    fprintf(stderr, "--- %s%s\n%s", name, from > text ? ", the end of it" : "", line != NULL ? line + 1 : from);
    free(text);
}

void fleet_tell(const struct fleet *fleet)
{
    unsigned first = fleet->worker_count > TOLD_WORKERS_MAX ? fleet->worker_count - TOLD_WORKERS_MAX : 0;
    for (unsigned i = first; i < fleet->worker_count; i++)
        text_tell(fleet->workers[i].name, fleet_log(fleet, i));
    text_tell("journal", fleet_journal(fleet));
    fputs("---\n", stderr);
}
