/* Tests that run in the world: a group of them is the main thread of a process there, so that time passes while they
 * wait, and what they start and stop are simulated servers. */
#include "tests/support/group_run.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "tests/sim/world/network.h"
#include "tests/sim/world/world.h"
#include "tests/sim/world/wrapped.h"

enum { SEED = 1 };

struct group {
    const char *name;
    const struct CMUnitTest *tests;
    size_t count;
    CMFixtureFunction set_up, tear_down;
    int failed;
};

WRAPPED(int, group_run, const char *name, const struct CMUnitTest *tests, size_t count, CMFixtureFunction set_up,
        CMFixtureFunction tear_down);

static void group_main(void *argument)
{
    struct group *group = argument;
    group->failed = __real_group_run(group->name, group->tests, group->count, group->set_up, group->tear_down);
    world_stop();
}

int __wrap_group_run(const char *name, const struct CMUnitTest *tests, size_t count, CMFixtureFunction set_up,
                     CMFixtureFunction tear_down)
{
    struct group group = {
        .name = name, .tests = tests, .count = count, .set_up = set_up, .tear_down = tear_down, .failed = -1};
    const char *seed = getenv("HF_SEED");
    world_begin(seed != NULL ? strtoull(seed, NULL, 10) : SEED);
    network_begin();
    hosts_set_apart(0); /* all are one machine, to the tests */
    world_tell_to_stderr(getenv("HF_TRACE") != NULL);
    log_set_level(world_is_told() ? LOG_DEBUG : LOG_NOTHING);
    process_start(host_create("test"), "test", group_main, &group);
    world_run(INSTANT_NEVER);
    if (group.failed < 0)
        printf("nothing happens in the world any more, and the tests have not ended\n");
    return group.failed;
}
