#include "tests/support/one_fleet.h"

struct fleet fleet;

/* The queue node may be killed and must come back as it was. */
int one_fleet_set_up(void **state)
{
    (void)state;
    fleet_start(&fleet, &(struct redis_server_options){.config = "appendonly yes\nappendfsync no\n"}, 3);
    return 0;
}

int one_fleet_tear_down(void **state)
{
    (void)state;
    fleet_stop(&fleet);
    return 0;
}

int one_fleet_clean(void **state)
{
    (void)state;
    fleet_clean(&fleet);
    return 0;
}
