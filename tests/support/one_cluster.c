#include "tests/support/one_cluster.h"

struct lock_cluster cluster;

int one_cluster_set_up(void **state)
{
    (void)state;
    lock_cluster_start(&cluster, NODES);
    return 0;
}

int one_cluster_tear_down(void **state)
{
    (void)state;
    lock_cluster_stop(&cluster);
    return 0;
}

void pause_first(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        redis_server_pause(cluster.servers[i]);
}

void resume_first(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        redis_server_resume(cluster.servers[i]);
}

void kill_first(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        redis_server_kill(cluster.servers[i]);
}

void ask_first(unsigned count, const char *command)
{
    for (unsigned i = 0; i < count; i++)
        lock_cluster_ask(&cluster, i, "%s", command);
}
