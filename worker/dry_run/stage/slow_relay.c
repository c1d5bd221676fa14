#include "worker/dry_run/stage/slow_relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"
#include "worker/dry_run/stage/relay_loop.h"

static struct sockaddr_in address_of(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* Listens from here on, so nobody has to wait for the process. -1, with errno. */
static int listener_open(unsigned *port)
{
    struct sockaddr_in address = address_of(0);
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof address) == 0 &&
        listen(listener, SOMAXCONN) == 0 && getsockname(listener, (struct sockaddr *)&address, &length) == 0) {
        *port = ntohs(address.sin_port);
        return listener;
    }
    int reason = errno;
    if (listener >= 0)
        close(listener);
    errno = reason;
    return -1;
}

_Noreturn static void relay_become(int listener, unsigned server_port, const _Atomic int64_t *delay_ns, pid_t parent)
{
    enum { OWN = STDERR_FILENO + 1 };
    struct error error = ERROR_NONE;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(127);
    setsid();
    prctl(PR_SET_NAME, "hf-slow-relay");
    if ((listener != OWN && dup2(listener, OWN) < 0) || close_range(OWN + 1, ~0U, 0) != 0)
        _exit(127);
    if (!relay_loop_run(OWN, server_port, delay_ns, &error))
        log_event(LOG_ERROR, "slow_relay_failed", "reason=%s", log_quote(error.text, (char[LOG_QUOTE_MAX]){0}));
    _exit(1);
}

bool slow_relay_start(struct slow_relay *relay, unsigned server_port, struct error *error)
{
    *relay = (struct slow_relay){.port = 0};
    unsigned port = 0;
    int listener = listener_open(&port);
    if (listener < 0)
        return error_set(error, "a relay that slows a node down cannot listen: %s", strerror(errno));
    void *shared = mmap(NULL, sizeof *relay->delay_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t parent = getpid();
    pid_t pid = shared != MAP_FAILED ? fork() : -1;
    if (pid == 0)
        relay_become(listener, server_port, shared, parent);
    int reason = errno;
    close(listener);
    if (pid > 0) {
        *relay = (struct slow_relay){.port = port, .pid = pid, .delay_ns = shared};
        return true;
    }
    if (shared != MAP_FAILED)
        munmap(shared, sizeof *relay->delay_ns);
    return error_set(error, "a relay that slows a node down cannot be started: %s", strerror(reason));
}

void slow_relay_set(struct slow_relay *relay, int64_t delay_ns)
{
    atomic_store(relay->delay_ns, delay_ns);
}

void slow_relay_end(struct slow_relay *relay)
{
    if (relay->pid > 0) {
        kill(relay->pid, SIGKILL);
        while (waitpid(relay->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        munmap((void *)(uintptr_t)relay->delay_ns, sizeof *relay->delay_ns);
    }
    *relay = (struct slow_relay){.port = 0};
}
