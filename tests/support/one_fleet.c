#include "tests/support/one_fleet.h"

#include "tests/support/test.h"

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
    one_fleet_tell();
    fleet_clean(&fleet);
    return 0;
}

void one_fleet_tell(void)
{
    if (!group_test_has_passed())
        fleet_tell(&fleet);
}

void one_fleet_stop(unsigned worker)
{
    fleet_signal(&fleet, worker, SIGTERM);
    assert_int_equal(fleet_wait(&fleet, worker), 0);
}

void one_fleet_kill(unsigned worker)
{
    fleet_signal(&fleet, worker, SIGKILL);
    assert_int_equal(fleet_wait(&fleet, worker), -SIGKILL);
}
