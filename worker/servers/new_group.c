#include "worker/servers/new_group.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/invariant.h"
#include "base/log.h"
#include "redlock/redlock_nodes.h"

enum { REASON_BYTES_MAX = 400 };
static const int64_t GROUP_LIMIT_NS = 15 * NS_PER_S;

/* What fails is written for the parent. */
_Noreturn static void child_make(const struct redlock_options *options, int64_t max_ttl_ns, int out)
{
    char reason[REASON_BYTES_MAX] = "";
    log_set_level(LOG_NOTHING);
    struct redlock_nodes *session = redlock_nodes_open(options, reason, sizeof reason);
    enum redlock_nodes_end end = REDLOCK_NODES_REFUSED;
    if (session != NULL)
        end = redlock_nodes_init(session, &(struct redlock_group_terms){.max_ttl_ns = max_ttl_ns});
    if (session != NULL && end != REDLOCK_NODES_DONE)
        snprintf(reason, sizeof reason, "%s", redlock_nodes_reason(session));
    bool is_told = end == REDLOCK_NODES_DONE || write(out, reason, strlen(reason)) >= 0;
    _exit(end == REDLOCK_NODES_DONE && is_told ? 0 : 1);
}

/* How the child ended: killed when it takes too long. */
static bool child_await(pid_t pid, int in, struct error *error)
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
    return error_set(error, "the lock nodes could not be made a group: %s",
                     is_late ? "they do not answer" : log_defuse(reason));
}

bool new_group_make(const struct private_server *servers, unsigned count, int64_t max_ttl_ns, struct error *error)
{
    struct redlock_node nodes[REDLOCK_NODES_MAX];
    const struct redlock_options options = {
        .nodes = nodes, .node_count = count, .key_prefix = "", .client_name = "holdfast-new-group"};
    int ends[2];
    invariant(count <= REDLOCK_NODES_MAX);
    for (unsigned i = 0; i < count; i++)
        nodes[i] = (struct redlock_node){.name = servers[i].name,
                                         .host = "127.0.0.1",
                                         .port = servers[i].port,
                                         .password = servers[i].password,
                                         .timeout_ns = 2 * NS_PER_S,
                                         .connect_timeout_ns = 2 * NS_PER_S};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_set(error, "no pipe: %s", strerror(errno));
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
            _exit(1);
        close(ends[0]);
        child_make(&options, max_ttl_ns, ends[1]);
    }
    int reason = errno;
    close(ends[1]);
    bool is_made = pid > 0 && child_await(pid, ends[0], error);
    close(ends[0]);
    return pid > 0 ? is_made : error_set(error, "no process can be started: %s", strerror(reason));
}
