#include "tests/support/private_network.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/memory.h"

enum { FIRST_ADDRESS = 11, ADDRESS_MAX = 24, HARDWARE_MAX = 32, NOBODY = 0xffff };

struct private_network {
    unsigned hosts;
    bool is_real;
    char reason[128];
    int outside, bridge; /* namespaces: where the process came from; where it is while it is in no host */
    int inside[PRIVATE_NETWORK_HOSTS_MAX];
    unsigned owner[PRIVATE_NETWORK_HOSTS_MAX]; /* of each address */
    char addresses[PRIVATE_NETWORK_HOSTS_MAX][ADDRESS_MAX];
};

_Noreturn static void give_up(const char *what)
{
    fprintf(stderr, "private_network: %s: %s\n", what, strerror(errno));
    abort();
}

/* --- ip ----------------------------------------------------------------------------------------------------------- */

/* It need not be on the path of a user. */
_Noreturn static void ip_exec(int commands)
{
    char *const arguments[] = {"ip", "-batch", "-", NULL};
    dup2(commands, STDIN_FILENO);
    execvp("ip", arguments);
    execv("/usr/sbin/ip", arguments);
    execv("/sbin/ip", arguments);
    _exit(127);
}

/* Runs commands, one a line, in the namespace where the thread is. They are few, so that the pipe holds them, and its
 * other end stays open here in case that nobody reads. */
static bool ip_run(const char *commands)
{
    int ends[2], status = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        give_up("pipe");
    pid_t child = fork();
    if (child < 0)
        give_up("fork");
    if (child == 0)
        ip_exec(ends[0]);
    bool is_written = write(ends[1], commands, strlen(commands)) == (ssize_t)strlen(commands);
    close(ends[1]);
    close(ends[0]);
    if (waitpid(child, &status, 0) != child)
        give_up("waitpid");
    return is_written && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void ip_must(struct buffer *commands)
{
    if (!ip_run(buffer_text(commands))) {
        fprintf(stderr, "%s", buffer_text(commands));
        give_up("ip failed");
    }
    buffer_fini(commands);
}

/* --- namespaces --------------------------------------------------------------------------------------------------- */

static void file_write(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text))
        give_up(path);
    close(file);
}

/* Users may be granted to be root among namespaces of their own. */
static void become_root(unsigned user, unsigned group)
{
    char map[64];
    file_write("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "0 %u 1\n", user);
    file_write("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "0 %u 1\n", group);
    file_write("/proc/self/gid_map", map);
}

static bool namespace_leave(void)
{
    unsigned user = geteuid(), group = getegid();
    if (unshare(CLONE_NEWNET) == 0)
        return true;
    if (errno != EPERM || unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return false;
    become_root(user, group);
    return true;
}

static int namespace_here(void)
{
    int file = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        give_up("/proc/thread-self/ns/net");
    return file;
}

static void namespace_enter(int file)
{
    if (setns(file, CLONE_NEWNET) != 0)
        give_up("setns");
}

/* Makes in a child what the network is made of, for there is no way back from half of it. */
static int attempt(void)
{
    if (!namespace_leave())
        return 1;
    return ip_run("link add bridge0 type bridge\nlink add e0 type veth peer name e1\nlink set e1 master bridge0\n"
                  "link set lo up\n")
               ? 0
               : 2;
}

static const char *what_is_missing(void)
{
    int status = 0;
    if (getenv("HOLDFAST_NO_PRIVATE_NETWORK") != NULL)
        return "HOLDFAST_NO_PRIVATE_NETWORK is set";
    pid_t child = fork();
    if (child < 0)
        give_up("fork");
    if (child == 0)
        _exit(attempt());
    if (waitpid(child, &status, 0) != child)
        give_up("waitpid");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return NULL;
    return WIFEXITED(status) && WEXITSTATUS(status) == 1 ? "no right to make network namespaces"
                                                         : "ip (package iproute2) is missing, or cannot make bridges";
}

/* --- the wires ---------------------------------------------------------------------------------------------------- */

static void hardware_address(unsigned host, char text[HARDWARE_MAX])
{
    unsigned number = host == NOBODY ? NOBODY : host + 1;
    snprintf(text, HARDWARE_MAX, "02:00:00:00:%02x:%02x", number >> 8, number & 0xff);
}

/* What the host sends to the address goes to this hardware. */
static void neighbour_set(const struct private_network *network, unsigned address, unsigned hardware,
                          struct buffer *commands)
{
    char text[HARDWARE_MAX];
    hardware_address(hardware, text);
    buffer_format(commands, "neigh replace %s lladdr %s dev e0 nud permanent\n", network->addresses[address], text);
}

static void neighbours_set(const struct private_network *network, unsigned host, struct buffer *commands)
{
    for (unsigned address = 0; address < network->hosts; address++)
        if (network->owner[address] != host)
            neighbour_set(network, address, network->owner[address], commands);
}

static void host_make(struct private_network *network, unsigned host)
{
    struct buffer commands = {0};
    char hardware[HARDWARE_MAX];
    hardware_address(host, hardware);
    if (unshare(CLONE_NEWNET) != 0)
        give_up("unshare");
    network->inside[host] = namespace_here();
    buffer_format(&commands, "link set lo up\nlink add e0 address %s type veth peer name v%u netns /proc/%ld/fd/%d\n",
                  hardware, host, (long)getpid(), network->bridge);
    buffer_format(&commands, "addr add %s/24 dev e0\nlink set e0 up\n", network->addresses[host]);
    neighbours_set(network, host, &commands);
    ip_must(&commands);
    namespace_enter(network->bridge);
    buffer_format(&commands, "link set v%u master bridge0\nlink set v%u up\n", host, host);
    ip_must(&commands);
}

static void network_make(struct private_network *network)
{
    struct buffer commands = {0};
    network->outside = namespace_here();
    if (!namespace_leave())
        give_up("unshare");
    network->bridge = namespace_here();
    buffer_append_text(&commands, "link set lo up\nlink add bridge0 type bridge\nlink set bridge0 up\n");
    ip_must(&commands);
    for (unsigned host = 0; host < network->hosts; host++)
        host_make(network, host);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct private_network *private_network_create(unsigned hosts)
{
    struct private_network *network = memory_new(struct private_network);
    const char *missing = what_is_missing();
    *network = (struct private_network){.hosts = hosts, .is_real = missing == NULL};
    for (unsigned host = 0; host < hosts; host++) {
        network->owner[host] = host;
        snprintf(network->addresses[host], ADDRESS_MAX, "%s.%u", missing == NULL ? "10.77.0" : "127.0.0",
                 FIRST_ADDRESS + host);
    }
    if (missing == NULL)
        network_make(network);
    else
        snprintf(network->reason, sizeof network->reason, "%s", missing);
    return network;
}

void private_network_destroy(struct private_network *network)
{
    if (network != NULL && network->is_real) {
        /* A user who became root stays in the bridge's namespace: the way back is not theirs. */
        (void)!setns(network->outside, CLONE_NEWNET);
        close(network->outside);
        close(network->bridge);
        for (unsigned host = 0; host < network->hosts; host++)
            close(network->inside[host]);
    }
    free(network);
}

bool private_network_is_real(const struct private_network *network)
{
    return network->is_real;
}

const char *private_network_reason(const struct private_network *network)
{
    return network->reason;
}

const char *private_network_address(const struct private_network *network, unsigned host)
{
    return network->addresses[host];
}

/* --- moving about ------------------------------------------------------------------------------------------------- */

void private_network_enter(struct private_network *network, unsigned host)
{
    if (network->is_real)
        namespace_enter(network->inside[host]);
}

void private_network_leave(struct private_network *network)
{
    if (network->is_real)
        namespace_enter(network->bridge);
}

void private_network_cut(struct private_network *network, unsigned from, unsigned to)
{
    struct buffer commands = {0};
    private_network_enter(network, from);
    for (unsigned address = 0; address < network->hosts; address++)
        if (network->owner[address] == to)
            neighbour_set(network, address, NOBODY, &commands);
    ip_must(&commands);
    private_network_leave(network);
}

void private_network_mend(struct private_network *network)
{
    struct buffer commands = {0};
    for (unsigned host = 0; host < network->hosts; host++) {
        private_network_enter(network, host);
        neighbours_set(network, host, &commands);
        ip_must(&commands);
    }
    private_network_leave(network);
}

void private_network_move_address(struct private_network *network, unsigned from, unsigned to)
{
    struct buffer commands = {0};
    private_network_enter(network, from);
    buffer_format(&commands, "addr del %s/24 dev e0\n", network->addresses[from]);
    ip_must(&commands);
    private_network_enter(network, to);
    buffer_format(&commands, "addr add %s/24 dev e0\n", network->addresses[from]);
    ip_must(&commands);
    network->owner[from] = to;
    private_network_mend(network);
}
