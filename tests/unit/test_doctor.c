/* What the doctor makes of INFO and CONFIG: no server. */
#include "tests/support/test.h"

#include "worker/commands/doctor.h"

#define INFO_OF(more)                                                                                                  \
    "redis_version:7.0.15\r\nrun_id:0123\r\nrole:master\r\ncluster_enabled:0\r\nmaxmemory_policy:noeviction\r\n" more

/* The ids of what is found, with blanks between. */
static const char *found(const char *info, const struct doctor_settings *settings)
{
    static char ids[256];
    struct doctor doctor = {.count = 0};
    ids[0] = '\0';
    doctor_judge_node(&doctor, info, strlen(info), settings);
    for (size_t i = 0; i < doctor.count; i++)
        snprintf(ids + strlen(ids), sizeof ids - strlen(ids), i > 0 ? " %s" : "%s", doctor.items[i].kind->id);
    doctor_end(&doctor);
    return ids;
}

TEST(what_may_lose_tasks_is_found)
{
    const struct doctor_settings none = {.is_known = true, .min_replicas = "0"};
    const struct doctor_settings saves = {.is_known = true, .save = "900 1", .min_replicas = "0"};
    const struct doctor_settings lazy = {.is_known = true, .fsync = "no"}, unknown = {.is_known = false};
    assert_string_equal(found(INFO_OF("aof_enabled:1\r\n"), &none), "");
    assert_string_equal(found(INFO_OF("aof_enabled:0\r\n"), &none), "persistence-off");
    assert_string_equal(found(INFO_OF("aof_enabled:0\r\n"), &saves), "snapshots-only");
    assert_string_equal(found(INFO_OF("aof_enabled:0\r\n"), &unknown), "snapshots-only settings-unknown");
    assert_string_equal(found(INFO_OF("aof_enabled:1\r\n"), &lazy), "fsync-off");
    assert_string_equal(found(INFO_OF("aof_enabled:1\r\naof_last_write_status:err\r\n"), &none), "persistence-failing");
    assert_string_equal(found(INFO_OF("aof_enabled:1\r\nrdb_last_bgsave_status:err\r\n"), &none),
                        "persistence-failing");
    assert_string_equal(found(INFO_OF("aof_enabled:1\r\nconnected_slaves:2\r\n"), &none), "replicas-not-waited-for");
    assert_string_equal(found(INFO_OF("aof_enabled:1\r\nused_memory:91\r\nmaxmemory:100\r\n"), &none),
                        "memory-nearly-full");
    assert_string_equal(found(INFO_OF("aof_enabled:1\r\nused_memory:101\r\nmaxmemory:100\r\n"), &none), "memory-full");
    assert_string_equal(found(INFO_OF("aof_enabled:1\r\nused_memory:90\r\nmaxmemory:100\r\n"), &none), "");
    assert_string_equal(found("redis_version:6.0.9\r\nrun_id:01\r\naof_enabled:1\r\ncluster_enabled:1\r\n"
                              "maxmemory_policy:volatile-lru\r\n",
                              &none),
                        "eviction cluster server-too-old");
}

TEST(processes_may_say_anything)
{
    static const char *const texts[] = {"",
                                        "null",
                                        "[]",
                                        "{",
                                        "{\"queues\":3,\"pid\":\"x\",\"started_at\":1e300}",
                                        "{\"queues\":[1,null,\"q\",{}],\"hostname\":[]}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct process_info info;
        process_info_read(&info, texts[i], strlen(texts[i]));
        assert_string_equal(info.host, "");
        assert_int_equal(info.queue_count, i == 5);
        assert_int_equal(info.pid, 0);
        assert_int_equal(info.started.us, 0);
        process_info_fini(&info);
    }
}

TEST(the_token_of_a_running_task_is_believed_of_that_task_only)
{
    static const char run[] = "{\"queue\":\"q\",\"payload\":\"{\\\"jid\\\":\\\"j1\\\"}\",\"hf_fence\":\"42\"}";
    char *fence = process_run_fence(run, sizeof run - 1, "j1");
    assert_string_equal(fence, "42");
    free(fence);
    assert_null(process_run_fence(run, sizeof run - 1, "j2"));
    static const char *const others[] = {"", "null", "{\"hf_fence\":\"42\"}", "{\"hf_fence\":\"42\",\"payload\":\"{\"}",
                                         "{\"hf_fence\":42,\"payload\":\"{\\\"jid\\\":\\\"j1\\\"}\"}"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_null(process_run_fence(others[i], strlen(others[i]), "j1"));
}

TEST(the_slew_of_the_kernel_is_tick_and_frequency)
{
    assert_int_equal(doctor_clock_slew_ppm(10000, 0, 100), 0);
    assert_int_equal(doctor_clock_slew_ppm(10000, 65536 * 20, 100), 20);
    assert_int_equal(doctor_clock_slew_ppm(10000, -65536 * 500, 100), -500);
    assert_int_equal(doctor_clock_slew_ppm(10050, 65536, 100), 5001);
    assert_int_equal(doctor_clock_slew_ppm(9167, 65536 * 33, 100), -83267);
    assert_int_equal(doctor_clock_slew_ppm(1000, 0, 1000), 0);
    assert_int_equal(doctor_clock_slew_ppm(999, 0, 1000), -1000);
    assert_int_equal(doctor_clock_slew_ppm(976, 0, 1024), -576); /* its nominal tick is no whole number of us */
}

RUN_TESTS
