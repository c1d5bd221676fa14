#include "worker/dry_run/stage/private_nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/invariant.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "redlock/redlock_nodes.h"
#include "worker/dry_run/stage/clock_library.h"
#include "worker/dry_run/stage/private_server.h"
#include "worker/dry_run/stage/server_program.h"
#include "worker/dry_run/stage/slow_relay.h"
#include "worker/dry_run/stage/temporary_directory.h"

#define HOST "127.0.0.1"
enum { PASSWORD_DIGITS = 32, DIRECTORY_DIGITS = 12, REASON_BYTES_MAX = 400 };
static const int64_t START_LIMIT_NS = 15 * NS_PER_S, GROUP_LIMIT_NS = 15 * NS_PER_S;

struct private_nodes {
    unsigned count; /* servers, the queue node is the first */
    struct private_server servers[PRIVATE_NODES_MAX];
    struct slow_relay relays[PRIVATE_NODES_MAX];
    struct server_program program;
    char *directory; /* NULL = not yet */
    char password[PASSWORD_DIGITS + 1];
};

/* --- the lock group ----------------------------------------------------------------------------------------------- */

/* In a child: what `holdfast nodes init` does wants a loop. What fails is written for the parent. */
_Noreturn static void group_child(const struct private_nodes *nodes, int64_t max_ttl_ns, int out)
{
    struct redlock_node list[REDLOCK_NODES_MAX];
    struct redlock_options options = {
        .nodes = list, .node_count = nodes->count - 1, .key_prefix = "", .client_name = "holdfast-dry-run"};
    for (unsigned i = 1; i < nodes->count; i++)
        list[i - 1] = (struct redlock_node){.name = nodes->servers[i].name,
                                            .host = HOST,
                                            .port = nodes->servers[i].port,
                                            .password = nodes->password,
                                            .timeout_ns = 2 * NS_PER_S,
                                            .connect_timeout_ns = 2 * NS_PER_S};
    char reason[REASON_BYTES_MAX] = "";
    log_set_level(LOG_NOTHING);
    struct redlock_nodes *session = redlock_nodes_open(&options, reason, sizeof reason);
    enum redlock_nodes_end end = REDLOCK_NODES_REFUSED;
    if (session != NULL)
        end = redlock_nodes_init(session, &(struct redlock_group_terms){.max_ttl_ns = max_ttl_ns});
    if (session != NULL && end != REDLOCK_NODES_DONE)
        snprintf(reason, sizeof reason, "%s", redlock_nodes_reason(session));
    bool is_told = end == REDLOCK_NODES_DONE || write(out, reason, strlen(reason)) >= 0;
    _exit(end == REDLOCK_NODES_DONE && is_told ? 0 : 1);
}

/* How the child ended: killed when it takes too long. */
static bool group_child_await(pid_t pid, int in, struct error *error)
{
    char reason[REASON_BYTES_MAX + 1] = "";
    struct pollfd readable = {.fd = in, .events = POLLIN};
    bool is_late = poll(&readable, 1, (int)(GROUP_LIMIT_NS / NS_PER_MS)) <= 0;
    ssize_t got = is_late ? 0 : read(in, reason, REASON_BYTES_MAX);
    if (got > 0)
        reason[got] = '\0';
    if (is_late)
        kill(pid, SIGKILL);
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status == 0)
        return true;
    return error_set(error, "the lock nodes of the dry run could not be made a group: %s",
                     is_late ? "they do not answer" : log_defuse(reason));
}

static bool group_make(const struct private_nodes *nodes, int64_t max_ttl_ns, struct error *error)
{
    int ends[2];
    if (nodes->count <= 2) /* one lock node alone needs no group */
        return true;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_set(error, "no pipe: %s", strerror(errno));
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
            _exit(1);
        close(ends[0]);
        group_child(nodes, max_ttl_ns, ends[1]);
    }
    int reason = errno;
    close(ends[1]);
    bool is_made = pid > 0 && group_child_await(pid, ends[0], error);
    close(ends[0]);
    return pid > 0 ? is_made : error_set(error, "no process can be started: %s", strerror(reason));
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static bool server_prepare(struct private_nodes *nodes, unsigned number, const struct private_nodes_options *options,
                           struct error *error)
{
    struct private_server *server = &nodes->servers[number];
    char name[16], library[4096];
    if (number == PRIVATE_QUEUE_NODE)
        snprintf(name, sizeof name, "queue");
    else
        snprintf(name, sizeof name, "lock%u", number);
    private_server_init(server, name, nodes->directory, nodes->password);
    nodes->count = number + 1;
    if (!private_server_reserve(server, error))
        return false;
    if (options->has_clock[number] && (!clock_library_find(options->clock_library, library, sizeof library, error) ||
                                       !private_server_give_clock(server, library, error)))
        return false;
    return !options->is_slowed[number] || slow_relay_start(&nodes->relays[number], server->port, error);
}

static bool servers_start(struct private_nodes *nodes, struct error *error)
{
    struct instant deadline = instant_after(instant_now(), START_LIMIT_NS);
    for (unsigned i = 0; i < nodes->count; i++)
        if (!private_server_start(&nodes->servers[i], nodes->program.path, error))
            return false;
    for (unsigned i = 0; i < nodes->count; i++)
        if (!private_server_await(&nodes->servers[i], deadline, error))
            return false;
    return true;
}

static bool directory_make(struct private_nodes *nodes, const char *path, struct error *error)
{
    char name[DIRECTORY_DIGITS + 1];
    random_digits(name, DIRECTORY_DIGITS);
    char *wanted = path != NULL ? memory_text(path) : temporary_directory_path(name);
    if (temporary_directory_make(wanted, error))
        nodes->directory = wanted;
    else
        free(wanted);
    return nodes->directory != NULL;
}

static bool all_start(struct private_nodes *nodes, const struct private_nodes_options *options, struct error *error)
{
    if (!server_program_find(&nodes->program, error) || !directory_make(nodes, options->directory, error))
        return false;
    random_digits(nodes->password, PASSWORD_DIGITS);
    for (unsigned i = 0; i <= options->lock_nodes; i++)
        if (!server_prepare(nodes, i, options, error))
            return false;
    return servers_start(nodes, error) && group_make(nodes, options->max_ttl_ns, error);
}

struct private_nodes *private_nodes_start(const struct private_nodes_options *options, struct error *error)
{
    invariant(options->lock_nodes >= 1 && options->lock_nodes < PRIVATE_NODES_MAX && options->lock_nodes % 2 == 1);
    struct private_nodes *nodes = memory_new(struct private_nodes);
    if (all_start(nodes, options, error))
        return nodes;
    private_nodes_end(nodes);
    return NULL;
}

void private_nodes_end(struct private_nodes *nodes)
{
    if (nodes == NULL)
        return;
    for (unsigned i = 0; i < nodes->count; i++) {
        slow_relay_end(&nodes->relays[i]);
        private_server_kill(&nodes->servers[i]);
        private_server_fini(&nodes->servers[i]);
    }
    if (nodes->directory != NULL)
        (void)temporary_directory_remove(nodes->directory);
    free(nodes->directory);
    memory_wipe(nodes->password, sizeof nodes->password);
    free(nodes);
}

/* --- what is known of them ---------------------------------------------------------------------------------------- */

unsigned private_nodes_count(const struct private_nodes *nodes)
{
    return nodes->count - 1;
}

const char *private_nodes_host(const struct private_nodes *nodes)
{
    (void)nodes;
    return HOST;
}

static const struct private_server *server_of(const struct private_nodes *nodes, unsigned number)
{
    invariant(number < nodes->count);
    return &nodes->servers[number];
}

unsigned private_nodes_port(const struct private_nodes *nodes, unsigned number)
{
    const struct private_server *server = server_of(nodes, number);
    return nodes->relays[number].port != 0 ? nodes->relays[number].port : server->port;
}

unsigned private_nodes_server_port(const struct private_nodes *nodes, unsigned number)
{
    return server_of(nodes, number)->port;
}

const char *private_nodes_password(const struct private_nodes *nodes)
{
    return nodes->password;
}

const char *private_nodes_name(const struct private_nodes *nodes, unsigned number)
{
    return server_of(nodes, number)->name;
}

const char *private_nodes_directory(const struct private_nodes *nodes)
{
    return nodes->directory;
}

pid_t private_nodes_pid(const struct private_nodes *nodes, unsigned number)
{
    return server_of(nodes, number)->pid;
}

/* --- what faults do ----------------------------------------------------------------------------------------------- */

static void server_signal(struct private_nodes *nodes, unsigned number, int signal_number)
{
    invariant(number < nodes->count);
    if (private_server_lives(&nodes->servers[number]))
        kill(nodes->servers[number].pid, signal_number);
}

void private_nodes_stop(struct private_nodes *nodes, unsigned number)
{
    server_signal(nodes, number, SIGSTOP);
}

void private_nodes_continue(struct private_nodes *nodes, unsigned number)
{
    server_signal(nodes, number, SIGCONT);
}

void private_nodes_kill(struct private_nodes *nodes, unsigned number)
{
    invariant(number < nodes->count);
    private_server_kill(&nodes->servers[number]);
}

bool private_nodes_restart(struct private_nodes *nodes, unsigned number, struct error *error)
{
    invariant(number < nodes->count);
    return private_server_start(&nodes->servers[number], nodes->program.path, error);
}

void private_nodes_step_clock(struct private_nodes *nodes, unsigned number, int64_t offset_ns)
{
    invariant(server_of(nodes, number)->clock_offset_ns != NULL);
    *nodes->servers[number].clock_offset_ns = offset_ns;
}

void private_nodes_delay(struct private_nodes *nodes, unsigned number, int64_t delay_ns)
{
    invariant(number < nodes->count && nodes->relays[number].port != 0);
    slow_relay_set(&nodes->relays[number], delay_ns);
}
