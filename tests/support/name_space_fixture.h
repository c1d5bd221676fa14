/* What tests of the name space share: a queue node and lock nodes with keys of others on them, and what is there before
 * and after. Its state is in the header, because a test program is one file. */
#ifndef SUPPORT_NAME_SPACE_FIXTURE_H
#define SUPPORT_NAME_SPACE_FIXTURE_H

#include "worker/dry_run/nodes/name_space.h"

#include <stdio.h>
#include <time.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "tests/support/config_place.h"
#include "tests/support/lock_cluster.h"
#include "tests/support/loop_until.h"
#include "tests/support/queue_probe.h"
#include "tests/support/test.h"

#define RUN   "0123456789ab"
#define DEAD  "deadbeef0000"
#define ALIVE "a11fe0000000"

enum { LOCK_NODES = 3 };

static struct redis_server *node_of_queues;
static struct lock_cluster cluster;
static struct loop *loop;
static struct config *config;

static int group_setup(void **state)
{
    (void)state;
    node_of_queues = redis_server_start(NULL);
    lock_cluster_start(&cluster, LOCK_NODES);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    redis_server_destroy(node_of_queues);
    lock_cluster_stop(&cluster);
    return 0;
}

static struct config *config_make(const char *prefix, const char *queue_user)
{
    struct buffer text = {0};
    buffer_format(&text, "queue_node = { host = \"127.0.0.1\"; port = %u; %s };\nlock = { prefix = \"%s\"; };\n",
                  redis_server_port(node_of_queues), queue_user, prefix);
    buffer_append_text(&text, "lock_nodes = (");
    for (unsigned i = 0; i < LOCK_NODES; i++)
        buffer_format(&text, "%s{ name = \"lock%u\"; host = \"127.0.0.1\"; port = %u; }", i > 0 ? ", " : "", i + 1,
                      redis_server_port(cluster.servers[i]));
    buffer_append_text(&text, ");\n");
    struct config *made = config_place_read_good(buffer_text(&text));
    buffer_fini(&text);
    return made;
}

static int set_up(void **state)
{
    redis_server_heal(node_of_queues);
    lock_cluster_heal(&cluster);
    int code = config_place_enter(state);
    loop = loop_create(NULL);
    config = config_make("lock:", "");
    return code;
}

static int tear_down(void **state)
{
    loop_destroy(loop);
    return config_place_leave(state);
}

/* --- what is on a server ------------------------------------------------------------------------------------------ */

/* A digest of every key, its ttl and its bytes, but for those that have this in their name. */
static char *picture(struct redis_server *server, const char *without)
{
    return redis_server_command(
        server,
        "EVAL \"local all = {} for _, key in ipairs(redis.call('KEYS', '*')) do if not string.find(key, ARGV[1], 1, "
        "true) then all[#all + 1] = key .. redis.call('DUMP', key) .. redis.call('PTTL', key) end end "
        "table.sort(all) return #all .. ' ' .. redis.sha1hex(table.concat(all))\" 0 %s",
        without);
}

static long long keys_like(struct redis_server *server, const char *pattern)
{
    char command[256];
    snprintf(command, sizeof command, "EVAL \"return #redis.call('KEYS', ARGV[1])\" 0 %s", pattern);
    return queue_probe_number(server, command);
}

/* Everything that workers, producers and the clock may leave without a ttl of its own, under the names of a space. */
static void queue_fill(const char *space)
{
    static const char *const commands[] = {
        "SADD %squeues one two:three",
        "LPUSH %squeue:one task",
        "LPUSH %squeue:two:three task",
        "ZADD %sschedule 1 task",
        "ZADD %sretry 1 task",
        "ZADD %sdead 1 task",
        "SADD %spaused two:three",
        "SADD %sprocesses host:1:aa",
        "INCR %sstat:processed",
        "INCR %sstat:failed",
        "ZADD %shf:2:processes 1 host:1:aa 1 host:2:bb",
        "HSET %shf:2:process:host:1:aa 0 claim",
        "HSET %shf:2:process:host:2:bb 0 claim",
        "LPUSH %shf:2:bell:host:1:aa:one task",
        "LPUSH %shf:2:bell:host:2:bb:two:three task",
        "ZADD %shf:2:cancels 1 jid",
        "HSET %shf:2:periodic some 1",
        "ZADD %shf:2:contended 1 resource:a 1 class:b",
        "ZADD %shf:2:waiting:resource:a 1 jid",
        "HSET %shf:2:waiters:resource:a jid waiter",
        "ZADD %shf:2:waiting:class:b 1 jid",
        "HSET %shf:2:waiters:class:b jid waiter",
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        struct buffer command = {0};
        const char *gap = strstr(commands[i], "%s");
        buffer_format(&command, "%.*s%s%s", (int)(gap - commands[i]), commands[i], space, gap + 2);
        free(redis_server_command(node_of_queues, "%s", buffer_text(&command)));
        buffer_fini(&command);
    }
}

static void locks_fill(const char *prefix, unsigned count)
{
    for (unsigned node = 0; node < LOCK_NODES; node++)
        free(
            redis_server_command(cluster.servers[node],
                                 "EVAL \"for i = 1, %u do redis.call('SET', ARGV[1] .. 'r' .. i, 'value', 'PX', 60000) "
                                 "redis.call('ZADD', 'hf:fences', i, ARGV[1] .. 'r' .. i) end\" 0 %s",
                                 count, prefix));
}

#endif
