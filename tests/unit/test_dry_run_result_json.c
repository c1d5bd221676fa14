/* A result that is written as JSON and read again is the same, and writes the same; what is no result is refused with a
 * text that says where. */
#include "tests/support/test.h"

#include "base/memory.h"
#include "tests/support/dry_run_sample.h"
#include "tests/support/private_directory.h"
#include "worker/dry_run/plan/plan_json.h"
#include "worker/dry_run/report/result_json.h"

static struct result before, after;
static struct buffer written, again;

static void tear_down(void)
{
    result_fini(&before);
    result_fini(&after);
    buffer_fini(&written);
    buffer_fini(&again);
}

static void write_and_read(enum sample_kind kind)
{
    struct error error = ERROR_NONE;
    tear_down();
    written = again = (struct buffer){0};
    dry_run_sample(kind, &before);
    result_json_write(&before, &written);
    if (!result_read(written.bytes, written.length, &after, &error))
        fail_msg("%s", error.text);
    result_json_write(&after, &again);
}

static void assert_written_again(void)
{
    const char *one = buffer_text(&written), *other = buffer_text(&again);
    size_t same = 0;
    while (one[same] != '\0' && one[same] == other[same])
        same++;
    if (one[same] != other[same])
        fail_msg("%.99s became %.99s", one + (same < 60 ? 0 : same - 60), other + (same < 60 ? 0 : same - 60));
}

static void assert_same_rows(const struct json_row *rows, const void *one, const void *other);

static void assert_same_histograms(const struct histogram *one, const struct histogram *other)
{
    assert_true((one == NULL) == (other == NULL));
    if (one != NULL)
        assert_memory_equal(one, other, sizeof *one);
}

static void assert_same_lists(const struct json_row *row, const void *one, const void *other)
{
    const char *counts[] = {(const char *)one + row->count_offset, (const char *)other + row->count_offset};
    const char *left = (const char *)one + row->offset, *right = (const char *)other + row->offset;
    bool is_grown = row->kind == JSON_ROW_GROWN;
    size_t count = is_grown ? *(const size_t *)(const void *)counts[0] : *(const unsigned *)(const void *)counts[0];
    assert_int_equal(count,
                     is_grown ? *(const size_t *)(const void *)counts[1] : *(const unsigned *)(const void *)counts[1]);
    left = is_grown ? *(char *const *)(const void *)left : left;
    right = is_grown ? *(char *const *)(const void *)right : right;
    for (size_t i = 0; i < count; i++, left += row->size, right += row->size)
        assert_same_rows(row->rows, left, right);
}

/* Texts are compared as texts: what is behind their ends is no part of them. */
static void assert_same_rows(const struct json_row *rows, const void *one, const void *other)
{
    for (; rows->name != NULL; rows++) {
        const void *left = (const char *)one + rows->offset, *right = (const char *)other + rows->offset;
        switch (rows->kind) {
        case JSON_ROW_TEXT:
            assert_string_equal(left, right);
            break;
        case JSON_ROW_NAME:
            assert_string_equal(*(char *const *)left, *(char *const *)right);
            break;
        case JSON_ROW_HISTOGRAM:
            assert_same_histograms(*(struct histogram *const *)left, *(struct histogram *const *)right);
            break;
        case JSON_ROW_OBJECT:
            assert_same_rows(rows->rows, left, right);
            break;
        case JSON_ROW_LIST:
        case JSON_ROW_GROWN:
            assert_same_lists(rows, one, other);
            break;
        case JSON_ROW_NUMBER:
        case JSON_ROW_CHOICE:
            assert_memory_equal(left, right, sizeof(unsigned));
            break;
        case JSON_ROW_REAL:
            assert_true(*(const double *)left == *(const double *)right);
            break;
        case JSON_ROW_TRUTH:
            assert_int_equal(*(const bool *)left, *(const bool *)right);
            break;
        default:
            assert_memory_equal(left, right, 8);
        }
    }
}

static void assert_same_plans(void)
{
    struct buffer one = {0}, other = {0};
    plan_json_write(&(struct json_writer){.out = &one}, NULL, &before.plan);
    plan_json_write(&(struct json_writer){.out = &other}, NULL, &after.plan);
    assert_string_equal(buffer_text(&one), buffer_text(&other));
    assert_int_equal(before.plan.seed, after.plan.seed);
    buffer_fini(&one);
    buffer_fini(&other);
}

static void assert_same_results(void)
{
    assert_same_plans();
    assert_same_rows(result_rows, &before, &after);
    assert_string_equal(before.plan.id, after.plan.id);
    assert_int_equal(before.plan.threads, after.plan.threads);
    assert_int_equal(before.plan.popularity.count, after.plan.popularity.count);
}

TEST(every_result_is_read_as_it_was_written)
{
    for (enum sample_kind kind = 0; kind < SAMPLE_KINDS; kind++) {
        write_and_read(kind);
        assert_written_again();
        if (kind != SAMPLE_HOSTILE)
            assert_same_results();
    }
}

/* Every member of every table takes part: one that is changed is written otherwise. */
TEST(every_member_is_written)
{
    write_and_read(SAMPLE_FULL);
    const struct json_row *wait = result_rows;
    while (strcmp(wait->name, "wait") != 0)
        wait++;
    const struct {
        const struct json_row *rows;
        size_t offset;
    } tables[] = {{result_rows, 0}, {wait->rows, wait->offset}};
    for (size_t table = 0; table < sizeof tables / sizeof tables[0]; table++)
        for (const struct json_row *field = tables[table].rows; field->name != NULL; field++) {
            if (field->kind != JSON_ROW_REAL && field->kind != JSON_ROW_COUNT)
                continue;
            char *value = (char *)&after + tables[table].offset + field->offset;
            uint64_t old;
            memcpy(&old, value, sizeof old);
            if (field->kind == JSON_ROW_REAL)
                memcpy(value, &(double){123456.75}, sizeof(double));
            else
                memcpy(value, &(uint64_t){1234567}, sizeof(uint64_t));
            buffer_clear(&again);
            result_json_write(&after, &again);
            assert_string_not_equal(buffer_text(&written), buffer_text(&again));
            memcpy(value, &old, sizeof old);
        }
}

TEST(what_is_written_cannot_steer_a_terminal)
{
    write_and_read(SAMPLE_HOSTILE);
    for (size_t i = 0; i < written.length; i++)
        assert_true((unsigned char)written.bytes[i] >= ' ' && written.bytes[i] != 0x7f);
    assert_null(strstr(buffer_text(&written), "\xe2\x80\xae"));
    assert_string_equal(after.resources[0].name, SAMPLE_HOSTILE_TEXT);
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static void assert_refused(const char *json, size_t length, const char *reason)
{
    struct error error = ERROR_NONE;
    struct result result;
    assert_false(result_read(json, length, &result, &error));
    if (strstr(error.text, reason) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", reason, error.text);
    assert_null(result.resources);
}

TEST(every_cut_is_noticed)
{
    write_and_read(SAMPLE_HOSTILE);
    for (size_t length = 0; length < written.length; length += length < 5000 ? 1 : 97)
        assert_refused(written.bytes, length, "no JSON, or not all of it");
}

TEST(what_is_something_else_is_refused)
{
    static const char *const foreign[] = {"[]", "{}", "{\"format\":\"something\"}", "{\"format\":7}"};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        assert_refused(foreign[i], strlen(foreign[i]), "no result of a dry run");
    static const char later[] = "{\"format\":\"holdfast dry run\",\"format_version\":3}";
    assert_refused(later, strlen(later), "a later version");
    static const char old[] = "{\"format\":\"holdfast dry run\",\"format_version\":1}";
    assert_refused(old, strlen(old), "another version");
    static const char poor[] = "{\"format\":\"holdfast dry run\",\"format_version\":2}";
    assert_refused(poor, strlen(poor), "version is missing");
}

/* Replaces the first `what` behind `from` in the JSON, and expects the reason. */
static void assert_change_refused(const char *from, const char *what, const char *by, const char *reason)
{
    const char *text = buffer_text(&written), *place = strstr(text, from);
    assert_non_null(place);
    place = strstr(place, what);
    assert_non_null(place);
    struct buffer changed = {0};
    buffer_append(&changed, text, (size_t)(place - text));
    buffer_append_text(&changed, by);
    buffer_append_text(&changed, place + strlen(what));
    assert_refused(changed.bytes, changed.length, reason);
    buffer_fini(&changed);
}

TEST(what_does_not_fit_is_refused_with_its_place)
{
    write_and_read(SAMPLE_FULL);
    assert_change_refused("{", "\"measured_for\":20", "\"measured_for\":\"20\"", "measured_for is no number that");
    assert_change_refused("{", "\"bottleneck\":\"resource\"", "\"bottleneck\":\"moon\"",
                          "bottleneck is nothing that this version knows");
    assert_change_refused("{", "\"drained\":true", "\"drained\":1", "drained is neither true nor false");
    assert_change_refused("{", "\"given_back\":11", "\"given_back\":-1", "given_back is no number that it can be");
    assert_change_refused("{", "\"given_back\":11", "\"given_back\":1.5", "given_back is no number that it can be");
    assert_change_refused("{", "\"given_back\":11", "\"given_back\":99999999999999999999", "no JSON");
    assert_change_refused("{", "\"given_back\":11", "\"given_bock\":11", "given_back is missing");
    assert_change_refused("\"resources\":[", "\"name\":\"r1\"", "\"name\":7", "resources[1].name is no text");
    assert_change_refused("\"resources\":[", "\"known\":true", "\"known\":0", "resources[0].expected.known is neither");
    assert_change_refused("\"what_if\"", "\"threads\":4", "\"threads\":4294967296", "what_if[0].threads is no number");
    assert_change_refused("\"nodes\"", "\"latency\":{", "\"latency\":[],\"x\":{", "nodes[0].latency is no object");
    assert_change_refused("\"plan\"", "\"threads\":16", "\"threads\":-1", "the plan: threads");
    assert_change_refused("{", "\"plan\":{", "\"plan\":[],\"x\":{", "the plan");
    assert_change_refused("{", "\"advice\":[", "\"advice\":[0,", "advice[0] is no text");
    assert_change_refused("{", "\"advice\":[", "\"advice\":[0,0,0,0,0,0,", "advice is a list of more than 8");
    assert_change_refused("{", "\"seconds\":[", "\"seconds\":7,\"x\":[", "seconds is no list");
    assert_change_refused("\"seconds\"", "{", "7,{", "seconds[0] is no object");
}

TEST(a_result_from_before_a_member_came_is_read)
{
    static const char later[] = "\"crashed_checks\":\"\",";
    struct error error = ERROR_NONE;
    struct result older = {.pushed = 0};
    write_and_read(SAMPLE_FULL);
    const char *text = buffer_text(&written), *place = strstr(text, later);
    assert_non_null(place);
    struct buffer without = {0};
    buffer_append(&without, text, (size_t)(place - text));
    buffer_append_text(&without, place + strlen(later));
    assert_true(result_read(without.bytes, without.length, &older, &error));
    assert_int_equal(older.pushed, before.pushed);
    assert_string_equal(older.crashed_checks, "");
    result_fini(&older);
    buffer_fini(&without);
}

TEST(histograms_that_none_can_be_are_refused)
{
    write_and_read(SAMPLE_FULL);
    static const char *const bad[] = {"[5]",
                                      "[5,0]",
                                      "[5,-1]",
                                      "[1000,1]",
                                      "[5,1],[5,1]",
                                      "[6,1],[5,1]",
                                      "[-1,1]",
                                      "7",
                                      "[5,1,1]",
                                      "[68719476736,1]",
                                      "[5,9223372036854775807],[6,1]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char by[128];
        snprintf(by, sizeof by, "\"counts\":[%s],\"x\":[", bad[i]);
        assert_change_refused("\"wait\"", "\"counts\":[", by,
                              "wait.histogram has counts that no histogram of ours has");
    }
    assert_change_refused("\"wait\"", "\"max_us\":", "\"max_us\":-", "wait.histogram needs");
}

TEST(members_that_are_not_known_are_passed_over)
{
    struct error error = ERROR_NONE;
    write_and_read(SAMPLE_ONE);
    struct buffer more = {0};
    buffer_append_text(&more, "{\"weather\":{\"wind\":[1,2,{}]},");
    buffer_append_text(&more, buffer_text(&written) + 1);
    result_fini(&after);
    assert_true(result_read(more.bytes, more.length, &after, &error));
    assert_same_results();
    buffer_fini(&more);
}

TEST(files_are_read_and_their_names_told)
{
    struct error error = ERROR_NONE;
    char directory[PRIVATE_DIRECTORY_MAX], path[PRIVATE_DIRECTORY_MAX + 16];
    struct result result;
    write_and_read(SAMPLE_FULL);
    private_directory_create(directory);
    snprintf(path, sizeof path, "%s/a.json", directory);
    assert_false(result_read_file(path, &result, &error));
    assert_non_null(strstr(error.text, "a.json: No such file"));
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(written.bytes, 1, written.length, file), written.length);
    fclose(file);
    error = ERROR_NONE;
    result_fini(&after);
    assert_true(result_read_file(path, &after, &error));
    assert_same_results();
    assert_int_equal(truncate(path, 100), 0);
    assert_false(result_read_file(path, &result, &error));
    assert_non_null(strstr(error.text, "a.json: this is no JSON"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

RUN_TESTS_BETWEEN(NULL, tear_down)
