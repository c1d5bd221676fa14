/* The plugin that was built against version 1.0 of the interface, in a worker of today: it uses every function that 1.0
 * has, and buries its task when one is not as it was. In a thread, and in a process. */
#include "tests/support/test.h"

#include <stdio.h>
#include <sys/stat.h>

#include "tests/support/one_fleet.h"
#include "tests/support/private_directory.h"

static char jobs[128];

/* A checkout may have a mask of its own, and a worker refuses what others may write. */
static void install(const char *from)
{
    char to[160];
    snprintf(jobs, sizeof jobs, "%s/jobs", fleet.directory);
    snprintf(to, sizeof to, "%s/abi.so", jobs);
    assert_int_equal(mkdir(jobs, 0755), 0);
    assert_int_equal(chmod(jobs, 0755), 0);
    private_file_copy(from, to);
}

/* It fails once, on purpose, and finds in its second run what the first has saved. */
static void runs(const char *isolation)
{
    char classes[400];
    snprintf(classes, sizeof classes,
             "{ class = \"abi.all\"; isolation = \"%s\"; }, { class = \"abi.follower\"; isolation = \"%s\"; "
             "lock = \"none\"; }",
             isolation, isolation);
    struct fleet_setup setup = {.jobs = jobs,
                                .classes = classes,
                                .plugin = "abi_1_0",
                                .settings = "word = \"seven\";",
                                .worker = "log_level = \"debug\";"};
    unsigned worker = fleet_work(&fleet, &setup);
    fleet_push(&fleet, "{\"class\":\"abi.all\",\"args\":[7,\"seven\"],\"jid\":\"whole\"}");
    test_await(fleet_logged(&fleet, worker, "text=followed") || fleet_number(&fleet, "ZCARD dead") > 0);
    if (fleet_number(&fleet, "ZCARD dead") > 0)
        fail_msg("buried: %s", fleet_ask(&fleet, "ZRANGE dead 0 -1"));
    assert_true(fleet_logged(&fleet, worker, "event=abi_event"));
    char *kept = fleet_ask(&fleet, "GET hf:2:result:whole");
    assert_contains(kept, "{\"abi\":\"1.0\"}");
    free(kept);
    test_await(fleet_left(&fleet) == 0);
    one_fleet_stop(worker);
}

static void anew(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/plugins/abi_1_0/plugin.so", test_build());
    install(path);
}

TEST(a_plugin_of_1_0_runs_in_a_thread)
{
    anew();
    runs("thread");
}

TEST(a_plugin_of_1_0_runs_in_a_process)
{
    anew();
    runs("process");
}

TEST(a_plugin_that_was_built_then_runs)
{
#ifdef __x86_64__
    install("tests/plugins/abi_1_0/x86_64.so");
    runs("thread");
#else
    test_skip("the plugin of 1.0 is for x86-64");
#endif
}

RUN_FLEET_TESTS
