/* Call stacks of handlers: which frames are kept, and that their encoding is what dashboards decode. */
#include "tests/support/test.h"

#include <zlib.h>

#include "jobs/job.h"
#include "queue/base64.h"
#include "queue/envelope.h"
#include "worker/plugin/plugin.h"
#include "worker/task/backtrace.h"

static struct backtrace trace;
static size_t wanted;

static void tear_down(void)
{
    backtrace_clear(&trace);
}

/* --- capturing -------------------------------------------------------------------------------------------------- */

static const char *setting_captures(const struct hf_host *host, const char *key)
{
    (void)host;
    (void)key;
    backtrace_capture(&trace, wanted);
    return NULL;
}

static const struct hf_host *host_for(void *context, const char *plugin_name)
{
    static const struct hf_host host = {.size = sizeof host, .setting = setting_captures};
    (void)context;
    (void)plugin_name;
    return &host;
}

/* Opens the plugin good, which asks for a setting; captured from inside. */
static void capture_from_a_plugin(size_t lines)
{
    char directory[256], name[] = "good", *names[] = {name};
    struct findings findings = {0};
    struct error error = ERROR_NONE;
    wanted = lines;
    snprintf(directory, sizeof directory, "%s/tests/plugins", test_build());
    struct plugins *plugins = plugins_load(directory, names, 1, &findings);
    assert_int_equal(findings.errors, 0);
    assert_true(plugins_open(plugins, host_for, NULL, &error));
    plugins_close(plugins);
}

TEST(the_frames_of_a_plugin_are_kept_and_ours_are_not)
{
    capture_from_a_plugin(100);
    assert_in_range(trace.count, 1, 3);
    for (size_t i = 0; i < trace.count; i++) {
        assert_contains(trace.lines[i], "/tests/plugins/good.so(");
        assert_null(strstr(trace.lines[i], "/proc/"));
        assert_null(strstr(trace.lines[i], "[0x"));
        assert_non_null(strstr(trace.lines[i], "+0x"));
    }
}

static int compare_captures(const void *a, const void *b)
{
    (void)a;
    (void)b;
    if (trace.count == 0)
        backtrace_capture(&trace, wanted);
    return 0;
}

TEST(no_more_lines_than_wanted_are_kept)
{
    int numbers[] = {2, 1, 3};
    wanted = 1;
    qsort(numbers, 3, sizeof numbers[0], compare_captures);
    assert_int_equal(trace.count, 1);
    capture_from_a_plugin(0);
    assert_int_equal(trace.count, 0);
}

TEST(a_capture_replaces_the_one_before)
{
    capture_from_a_plugin(100);
    backtrace_capture(&trace, 100);
    for (size_t i = 0; i < trace.count; i++)
        assert_null(strstr(trace.lines[i], "good.so"));
}

/* --- encoding --------------------------------------------------------------------------------------------------- */

static void assert_decodes(const struct buffer *encoded, const char *json)
{
    struct buffer packed = {0};
    static char plain[1 << 17];
    uLongf length = sizeof plain - 1;
    assert_true(base64_decode(encoded->bytes, encoded->length, &packed));
    assert_int_equal(uncompress((Bytef *)plain, &length, (const Bytef *)packed.bytes, packed.length), Z_OK);
    plain[length] = '\0';
    if (json != NULL)
        assert_string_equal(plain, json);
    struct error error = ERROR_NONE;
    assert_true(json_check(plain, length, &ENVELOPE_LIMITS_DEFAULT, &error));
    buffer_fini(&packed);
}

TEST(lines_are_a_json_array_in_zlib_in_strict_base64)
{
    static const char *const lines[] = {"a.so(run+0x1)", "b \"q\"\n\xFF", ""};
    struct buffer out = {0};
    backtrace_encode(lines, 3, &out);
    assert_decodes(&out, "[\"a.so(run+0x1)\",\"b \\\"q\\\"\\n\xEF\xBF\xBD\",\"\"]");
    assert_null(memchr(out.bytes, '\n', out.length));
    buffer_clear(&out);
    backtrace_encode(NULL, 0, &out);
    assert_decodes(&out, "[]");
    buffer_fini(&out);
}

TEST(what_is_too_much_is_left_out_at_the_end)
{
    enum { LINES = 1000 };
    static char bytes[LINES + BACKTRACE_LINE_MAX];
    const char *lines[LINES];
    uint32_t noise = 1;
    for (size_t i = 0; i < sizeof bytes - 1; i++) {
        noise = noise * 1664525 + 1013904223;
        bytes[i] = (char)(1 + (noise >> 24) % 255);
    }
    for (size_t i = 0; i < LINES; i++)
        lines[i] = bytes + i;
    struct buffer out = {0};
    backtrace_encode(lines, LINES, &out);
    assert_true(out.length < ENVELOPE_OWN_BYTES_MAX - 100);
    assert_decodes(&out, NULL);
    buffer_fini(&out);
}

RUN_TESTS_BETWEEN(NULL, tear_down)
