/* A plain Redlock client as others have written it, by raw bytes and plain sockets: SET NX PX on all nodes, a majority
 * within its time, and deletion by a script that compares. It does not extend. We exclude it, and it excludes us. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/sim/lock/schedule.h"

#define PATIENCE_NS (50 * NS_PER_MS)
#define LOOK_NS     (NS_PER_MS)

static const char deletion[] = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) end "
                               "return 0";

/* A socket to each node; -1 = none. */
struct plain {
    struct lock_user *user;
    int fds[LOCK_NODES_MAX];
};

static void connection_end(struct plain *plain, unsigned node)
{
    if (plain->fds[node] >= 0)
        close(plain->fds[node]);
    plain->fds[node] = -1;
}

/* A new connection for each question, so a late answer reaches no other question. */
static void send_all(struct plain *plain, const char *bytes, int length)
{
    for (unsigned i = 0; i < lock_schedule.node_count; i++) {
        struct sockaddr_in address;
        connection_end(plain, i);
        if (!network_resolve(lock_schedule.names[i], 6379, &address))
            continue;
        plain->fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (plain->fds[i] >= 0 && connect(plain->fds[i], (struct sockaddr *)&address, sizeof address) != 0 &&
            errno != EINPROGRESS)
            connection_end(plain, i);
    }
    process_sleep(2 * LOOK_NS);
    for (unsigned i = 0; i < lock_schedule.node_count; i++)
        if (plain->fds[i] >= 0 && send(plain->fds[i], bytes, (size_t)length, MSG_NOSIGNAL) != length)
            connection_end(plain, i);
}

/* The number of nodes that answer with this in time. */
static unsigned answers_count(struct plain *plain, const char *wanted)
{
    struct instant until = instant_after(instant_now(), PATIENCE_NS);
    unsigned count = 0, open = lock_schedule.node_count;
    while (open > 0 && instant_before(instant_now(), until)) {
        process_sleep(LOOK_NS);
        open = 0;
        for (unsigned i = 0; i < lock_schedule.node_count; i++) {
            char bytes[64] = "";
            if (plain->fds[i] < 0)
                continue;
            ssize_t got = recv(plain->fds[i], bytes, sizeof bytes - 1, 0);
            if (got < 0 && errno == EAGAIN) {
                open++;
                continue;
            }
            /* Short reads are no answers: it is a simple client. */
            count += got > 0 && strncmp(bytes, wanted, strlen(wanted)) == 0;
            connection_end(plain, i);
        }
    }
    return count;
}

static void give_back(struct plain *plain, const char *resource, const char *value)
{
    char bytes[512];
    int length =
        snprintf(bytes, sizeof bytes, "*5\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n1\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
                 strlen(deletion), deletion, strlen(resource), resource, strlen(value), value);
    send_all(plain, bytes, length);
    answers_count(plain, ":1");
}

static void take(struct plain *plain)
{
    struct lock_user *user = plain->user;
    struct redlock_request request;
    char bytes[256], value[48];
    int64_t ttl_ns = user->client->terms.ttl_ms * NS_PER_MS;
    lock_user_wants(user, &request);
    user->resources = 1u << (unsigned)(request.resources[0][0] - 'a');
    snprintf(value, sizeof value, "plain:%s", user->owner);
    int length = snprintf(bytes, sizeof bytes,
                          "*6\r\n$3\r\nSET\r\n$1\r\n%s\r\n$%zu\r\n%s\r\n$2\r\nNX\r\n$2\r\nPX\r\n"
                          "$4\r\n%04d\r\n",
                          request.resources[0], strlen(value), value, (int)(ttl_ns / NS_PER_MS));
    struct instant begun = instant_now();
    send_all(plain, bytes, length);
    unsigned granted = answers_count(plain, "+OK");
    struct instant until = instant_after(begun, ttl_ns - ttl_ns / 50 - 10 * NS_PER_MS);
    if (granted > lock_schedule.node_count / 2 && instant_before(instant_now(), until)) {
        user->believes_until = until;
        play_count("acquired by a plain client", 1);
        lock_judge_acquired(user);
        while (chance_pick(&user->chance, 4) != 0 && lock_judge_belief_ns(user) > 0) {
            process_sleep(chance_below(&user->chance, ttl_ns / 3));
            lock_judge_holds(user);
        }
    }
    user->believes_until = (struct instant){0};
    give_back(plain, request.resources[0], value);
    user->resources = 0;
}

static void user_main(struct lock_user *user)
{
    struct plain plain = {.user = user};
    for (unsigned i = 0; i < lock_schedule.node_count; i++)
        plain.fds[i] = -1;
    while (!lock_schedule.is_quitting) {
        process_sleep(lock_user_rest_ns(user));
        take(&plain);
    }
    for (unsigned i = 0; i < lock_schedule.node_count; i++)
        connection_end(&plain, i);
}

/* One user: it has one thread. */
void lock_foreign_main(void *argument)
{
    struct lock_client *client = argument;
    user_main(&client->users[0]);
}
