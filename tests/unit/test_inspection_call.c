/* What a node answers to the inspection: what is read of it, and what is no answer. */
#include "tests/support/test.h"

#include "redlock/inspection_call.h"

enum { MARKER, RUN, PLAIN_RUN, EVICTS, POLICY, SPOILT, REPLICA, ID, HIGHEST, TIME, PARTS };

#define RUN_ID       "0123456789abcdef0123456789abcdef01234567"
#define PLAIN_RUN_ID "76543210fedcba9876543210fedcba9876543210"

static struct redis_reply parts[PARTS], answer;

static struct redis_reply string_of(const char *text)
{
    return (struct redis_reply){.kind = REDIS_STRING, .bytes = text, .length = strlen(text)};
}

static void set_up(void)
{
    parts[MARKER] = string_of("a marker");
    parts[RUN] = string_of(RUN_ID);
    parts[PLAIN_RUN] = string_of(PLAIN_RUN_ID);
    parts[EVICTS] = string_of("0");
    parts[POLICY] = string_of("noeviction");
    parts[SPOILT] = string_of("0");
    parts[REPLICA] = string_of("0");
    parts[HIGHEST] = (struct redis_reply){.kind = REDIS_INTEGER, .integer = 1795194374000123};
    parts[TIME] = (struct redis_reply){.kind = REDIS_INTEGER, .integer = 1795194374000000};
    parts[ID] = string_of("");
    answer = (struct redis_reply){.kind = REDIS_ARRAY, .elements = parts, .count = PARTS};
}

static bool is_read(void)
{
    struct trust_inspection inspection = {0};
    return inspection_call_read(&inspection, NULL, &answer);
}

TEST(an_answer_is_read)
{
    struct trust_inspection inspection = {.reading = {.asked = {5}, .answered = {7}}};
    char policy[INSPECTION_POLICY_SIZE];
    assert_true(inspection_call_read(&inspection, policy, &answer));
    assert_string_equal(inspection.marker_text, "a marker");
    assert_string_equal(inspection.run_id, RUN_ID);
    assert_string_equal(inspection.plain_run_id, PLAIN_RUN_ID);
    assert_string_equal(policy, "noeviction");
    assert_false(inspection.evicts || inspection.has_bad_fences);
    assert_int_equal(inspection.highest_token, 1795194374000123);
    assert_int_equal(inspection.reading.node_us, 1795194374000000);
    assert_int_equal(inspection.reading.asked.ns, 5);
    assert_int_equal(inspection.reading.answered.ns, 7);
    parts[EVICTS] = string_of("1");
    parts[MARKER] = string_of("");
    assert_true(inspection_call_read(&inspection, NULL, &answer));
    assert_true(inspection.evicts && !inspection.has_bad_fences);
    parts[EVICTS] = string_of("0");
    parts[SPOILT] = string_of("1");
    assert_true(inspection_call_read(&inspection, NULL, &answer));
    assert_true(!inspection.evicts && inspection.has_bad_fences);
    assert_string_equal(inspection.marker_text, "");
    assert_false(inspection.is_replica);
    parts[REPLICA] = string_of("1");
    assert_true(inspection_call_read(&inspection, NULL, &answer));
    assert_true(inspection.is_replica);
}

TEST(what_has_another_shape_is_no_answer)
{
    answer.kind = REDIS_STRING;
    assert_false(is_read());
    answer.kind = REDIS_ARRAY;
    answer.count = PARTS - 1;
    assert_false(is_read());
    answer.count = PARTS;
    for (unsigned i = 0; i < PARTS; i++) {
        enum redis_reply_kind kind = parts[i].kind;
        parts[i].kind = i >= HIGHEST ? REDIS_STRING : REDIS_INTEGER;
        assert_false(is_read());
        parts[i].kind = kind;
    }
    assert_true(is_read());
}

TEST(a_run_and_a_time_must_be_some)
{
    parts[TIME].integer = 0;
    assert_false(is_read());
    parts[TIME].integer = 1;
    assert_true(is_read());
    parts[RUN] = string_of("");
    assert_false(is_read());
    parts[RUN] = string_of("7");
    assert_true(is_read());
    parts[RUN] = string_of(RUN_ID "8");
    assert_false(is_read());
}

TEST(an_id_is_a_scheme_and_sixteen_digits_or_nothing)
{
    struct trust_inspection inspection;
    parts[ID] = string_of("4 0123456789abcdef");
    assert_true(inspection_call_read(&inspection, NULL, &answer));
    assert_string_equal(inspection.node_id, "0123456789abcdef");
    assert_false(inspection.is_of_other_scheme);
    parts[ID] = string_of("");
    assert_true(inspection_call_read(&inspection, NULL, &answer));
    assert_string_equal(inspection.node_id, "");
    parts[ID] = (struct redis_reply){.kind = REDIS_STRING, .bytes = "4 0123456789abcdef\0b", .length = 20};
    assert_false(is_read());
    static const char *const others[] = {
        "4 0123456789abcde", "4 0123456789abcdef0", "4 0123456789abcdeF", "0123456789abcdef", "4 ", "lock1"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        parts[ID] = string_of(others[i]);
        assert_false(is_read());
    }
}

TEST(an_id_of_another_scheme_says_so)
{
    struct trust_inspection inspection;
    parts[ID] = string_of("5 of another form");
    assert_true(inspection_call_read(&inspection, NULL, &answer));
    assert_true(inspection.is_of_other_scheme);
    assert_string_equal(inspection.node_id, "");
}

TEST(a_marker_that_would_be_cut_is_none_that_is_known)
{
    struct trust_inspection inspection;
    char longest[MARKER_TEXT_MAX + 1];
    memset(longest, 'm', sizeof longest);
    longest[MARKER_TEXT_MAX - 1] = '\0';
    parts[MARKER] = string_of(longest);
    assert_true(inspection_call_read(&inspection, NULL, &answer));
    assert_string_equal(inspection.marker_text, longest);
    longest[MARKER_TEXT_MAX - 1] = 'm';
    longest[MARKER_TEXT_MAX] = '\0';
    parts[MARKER] = string_of(longest);
    assert_true(inspection_call_read(&inspection, NULL, &answer));
    assert_string_equal(inspection.marker_text, "?");
    parts[MARKER] = (struct redis_reply){.kind = REDIS_STRING, .bytes = "a\0b", .length = 3};
    assert_true(inspection_call_read(&inspection, NULL, &answer));
    assert_string_equal(inspection.marker_text, "?");
}

RUN_TESTS_BETWEEN(set_up, NULL)
