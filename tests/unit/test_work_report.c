/* The report of a worker is one line of JSON that names every ending and every counter, whatever its texts are. */
#include "tests/support/test.h"

#include <inttypes.h>

#include "queue/json.h"
#include "worker/events/work_report.h"

static const struct envelope_limits limits = ENVELOPE_LIMITS_DEFAULT;

static struct tally_total total;
static struct report_frame frame;
static struct redlock_counters locks;
static struct buffer written;

static void set_up(void)
{
    total = (struct tally_total){.slowest_lock_us = 0};
    locks = (struct redlock_counters){.acquired = 0};
    frame = (struct report_frame){
        .host = "host", .pid = 4321, .threads = 16, .seconds = 1000, .cpu_seconds = 1.5, .locks = &locks};
}

static void tear_down(void)
{
    buffer_fini(&written);
}

static const char *write_report(void)
{
    struct error error = ERROR_NONE;
    buffer_clear(&written);
    report_write(&total, &frame, &written);
    const char *text = buffer_text(&written);
    assert_int_equal(strlen(text), written.length);
    assert_ptr_equal(strchr(text, '\n'), text + written.length - 1); /* one line, and it is ended */
    if (!json_check(text, written.length, &limits, &error))
        fail_msg("%s: %s", text, error.text);
    return text;
}

static void assert_number(const char *name, uint64_t value)
{
    char member[64];
    snprintf(member, sizeof member, "\"%s\":%" PRIu64 ",", name, value);
    assert_contains(write_report(), member);
}

TEST(a_report_of_nothing_is_json_with_every_member)
{
    const char *text = write_report();
    assert_contains(text,
                    "{\"host\":\"host\",\"pid\":4321,\"threads\":16,\"seconds\":1000.000,\"active_seconds\":0.000,"
                    "\"cpu_seconds\":1.500,");
    assert_contains(text, "\"run\":{\"count\":0,\"p50_us\":0,\"p99_us\":0,\"max_us\":0}");
    assert_contains(text, "\"slowest_lock\":{\"wait_us\":0,\"resource\":\"\"}}");
}

TEST(every_ending_is_counted_under_its_own_name)
{
    for (unsigned i = 0; i < FLOW_ENDINGS; i++)
        total.endings[i] = 7000 + i;
    for (unsigned i = 0; i < FLOW_ENDINGS; i++)
        assert_number(flow_ending_name((enum flow_ending)i), 7000 + i);
}

TEST(every_counter_has_its_own_member)
{
    total.counts[TALLY_RUNS] = 101;
    total.counts[TALLY_WAITED] = 102;
    frame.claims = 103;
    frame.claim_calls = 104;
    frame.rings = 105;
    frame.promoted = 106;
    locks = (struct redlock_counters){.acquired = 201,
                                      .busy = 202,
                                      .split = 203,
                                      .no_quorum = 204,
                                      .attempts = 205,
                                      .extensions = 206,
                                      .dangers = 207,
                                      .lost = 208,
                                      .owed = 209};
    static const struct {
        const char *name;
        uint64_t value;
    } members[] = {
        {"runs", 101},
        {"lock_waits", 102},
        {"claims", 103},
        {"claim_calls", 104},
        {"rings", 105},
        {"promoted", 106},
        {"locks_acquired", 201},
        {"locks_busy", 202},
        {"locks_split", 203},
        {"locks_no_quorum", 204},
        {"lock_passes", 205},
        {"extensions", 206},
        {"locks_in_danger", 207},
        {"locks_lost", 208},
        {"releases_owed", 209},
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        assert_number(members[i].name, members[i].value);
}

TEST(a_worker_without_lock_nodes_names_no_lock_counters)
{
    frame.locks = NULL;
    assert_lacks(write_report(), "locks_acquired");
}

TEST(times_run_from_the_first_claim_to_the_last_ending)
{
    total.first_claim = (struct instant){1001 * NS_PER_S};
    total.last_ending = (struct instant){1003 * NS_PER_S + 250 * NS_PER_MS};
    assert_contains(write_report(), "\"seconds\":1000.000,\"active_seconds\":2.250,");
}

TEST(the_slowest_lock_is_told_with_its_resource)
{
    total.slowest_lock_us = 5000;
    snprintf(total.slowest_resource, sizeof total.slowest_resource, "slow");
    histogram_record(&total.times[TALLY_LOCK], 5000);
    total.counts[TALLY_WAITED] = 2;
    const char *text = write_report();
    assert_contains(text, "\"slowest_lock\":{\"wait_us\":5000,\"resource\":\"slow\"}}");
    assert_contains(text, "\"lock_waits\":2,\"lock_wait\":{\"count\":1,");
    assert_contains(text, "\"max_us\":5000}");
}

TEST(all_holds_are_added_up)
{
    histogram_record(&total.times[TALLY_HOLD], 250000);
    histogram_record(&total.times[TALLY_HOLD], 1000001);
    assert_contains(write_report(), "\"locks_held_seconds\":1.250001,");
}

TEST(durations_are_given_as_quantiles)
{
    for (unsigned i = 0; i < 98; i++)
        histogram_record(&total.times[TALLY_RUN], 10);
    histogram_record(&total.times[TALLY_RUN], 1000000);
    histogram_record(&total.times[TALLY_RUN], 1000000);
    char run[128];
    snprintf(run, sizeof run,
             "\"run\":{\"count\":100,\"p50_us\":%" PRId64 ",\"p99_us\":%" PRId64 ",\"max_us\":1000000}",
             histogram_quantile(&total.times[TALLY_RUN], 0.50), histogram_quantile(&total.times[TALLY_RUN], 0.99));
    assert_contains(write_report(), run);
    assert_true(histogram_quantile(&total.times[TALLY_RUN], 0.50) < 20);
    assert_true(histogram_quantile(&total.times[TALLY_RUN], 0.99) > 900000);
}

/* Resources come from tasks, and the host from a file. */
TEST(texts_of_any_bytes_leave_it_one_line_of_json)
{
    char bytes[1000];
    for (size_t i = 0; i < sizeof bytes - 1; i++)
        bytes[i] = (char)(1 + i % 255);
    bytes[sizeof bytes - 1] = '\0';
    frame.host = bytes;
    memcpy(total.slowest_resource, bytes, sizeof total.slowest_resource - 1);
    (void)write_report();
    snprintf(total.slowest_resource, sizeof total.slowest_resource, "\",\"done\":7}\n{");
    assert_contains(write_report(), "\"resource\":\"\\\",\\\"done\\\":7}\\n{\"}}");
}

TEST(the_largest_numbers_are_written_out)
{
    total.endings[FLOW_DONE] = UINT64_MAX;
    total.slowest_lock_us = INT64_C(3600) * 24 * 365 * 1000000;
    assert_contains(write_report(), "\"done\":18446744073709551615,");
    assert_contains(write_report(), "\"slowest_lock\":{\"wait_us\":31536000000000,");
}

RUN_TESTS_BETWEEN(set_up, tear_down)
