#include "tests/support/one_server.h"

#include <stddef.h>

struct redis_server *server;

int one_server_set_up(void **state)
{
    (void)state;
    server = redis_server_start(NULL);
    return 0;
}

int one_server_tear_down(void **state)
{
    (void)state;
    redis_server_destroy(server);
    return 0;
}
