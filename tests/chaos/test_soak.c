/* No task is lost, and none runs twice without a record, whatever happens to the workers and the queue node. A short
 * one by default; `make soak` runs the long one, by the environment: HOLDFAST_SOAK=TASKS:WORKERS:MS:SECONDS:SEED. */
#include "tests/chaos/soak.h"
#include "tests/support/test.h"

#include <stdio.h>

static void every_task_is_accounted_for(void **state)
{
    (void)state;
    struct soak_options options = {.tasks = 3000, .workers = 4, .ms = 60, .seconds = 25, .seed = 1};
    const char *text = getenv("HOLDFAST_SOAK");
    if (text != NULL)
        assert_int_equal(sscanf(text, "%u:%u:%u:%u:%lu", &options.tasks, &options.workers, &options.ms,
                                &options.seconds, &options.seed),
                         5);
    struct fleet fleet;
    fleet_start(&fleet, &(struct redis_server_options){.config = ACCOUNT_NODE}, 3);
    struct soak_result result = soak_run(&fleet, &options);
    soak_print(&result, stdout);
    assert_true(account_is_settled(&result.sums));
    /* Else it proves nothing. */
    assert_int_equal(result.sums.tasks, options.tasks);
    assert_true(result.sums.recoveries > 0 && result.sums.retries > 0 && result.faults.long_stops > 0);
    fleet_clean(&fleet);
    fleet_stop(&fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_task_is_accounted_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
