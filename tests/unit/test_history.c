/* What happened, added up and shown: sums, overlaps, lanes, and a page whose data are all of it, bounded, whatever is
 * in it. */
#include "tests/support/test.h"

#include "tests/support/page_check.h"
#include "worker/history/history_sums.h"
#include "worker/history/timeline_page.h"

static struct history *history;
static struct buffer page;

static void set_up(void)
{
    history = history_create();
}

static void tear_down(void)
{
    history_destroy(history);
    buffer_fini(&page);
}

static struct wall_time ms(int64_t at)
{
    return (struct wall_time){INT64_C(1795309200000000) + at * 1000};
}

/* Under a lock, by the process, on up to two resources. */
static struct history_hold hold_of(const char *process, const char *const resources[2], int64_t from, int64_t to)
{
    return (struct history_hold){.process = process,
                                 .class_name = "transfer",
                                 .jid = "j",
                                 .resources = resources,
                                 .resource_count = resources[1] != NULL ? 2 : 1,
                                 .from = ms(from),
                                 .to = ms(to),
                                 .waited_us = -1,
                                 .held_us = -1,
                                 .is_locked = true};
}

static void held(const char *process, const char *resource, int64_t from, int64_t to)
{
    const char *resources[2] = {resource, NULL};
    struct history_hold hold = hold_of(process, resources, from, to);
    history_add(history, &hold);
}

static struct history_sum row_of(size_t part, const char *resource)
{
    struct history_sums sums = history_sums_of(history, part);
    struct history_sum found = {0};
    if (resource == NULL)
        found = sums.total;
    for (size_t i = 0; i < sums.count && resource != NULL; i++)
        if (strcmp(sums.rows[i].resource, resource) == 0)
            found = sums.rows[i];
    history_sums_fini(&sums);
    return found;
}

/* --- sums --------------------------------------------------------------------------------------------------------- */

TEST(rows_are_by_resource_and_the_total_counts_each_hold_once)
{
    const char *both[2] = {"r1", "r2"};
    struct history_hold hold = hold_of("north:1", both, 0, 10);
    hold.is_handed_over = hold.is_lost = hold.is_refused = true;
    history_add(history, &hold);
    held("north:1", "r2", 20, 25);
    history_order(history);
    struct history_sum first = row_of(0, "r1"), second = row_of(0, "r2"), total = row_of(0, NULL);
    assert_int_equal(first.holds, 1);
    assert_int_equal(second.holds, 2);
    assert_int_equal(second.held_us, 15000);
    assert_int_equal(total.holds, 2);
    assert_int_equal(total.held_us, 15000);
    assert_int_equal(total.handed_over, 1);
    assert_int_equal(total.lost, 1);
    assert_int_equal(total.refused, 1);
    assert_int_equal(total.overlaps, 0);
}

TEST(quantiles_are_of_those_that_said_how_long)
{
    const char *resources[2] = {"r1", NULL};
    for (int i = 100; i >= 1; i--) {
        struct history_hold hold = hold_of("north:1", resources, 10 * i, 10 * i + 5);
        hold.waited_us = i * 1000;
        history_add(history, &hold);
    }
    held("north:1", "r1", 5000, 5001);
    held("north:1", "r2", 5000, 5001);
    history_order(history);
    struct history_sum row = row_of(0, "r1");
    assert_int_equal(row.holds, 101);
    assert_int_equal(row.waits, 100);
    assert_int_equal(row.wait_p50_us, 50000);
    assert_int_equal(row.wait_p99_us, 99000);
    assert_int_equal(row_of(0, "r2").waits, 0);
    assert_int_equal(row_of(0, NULL).wait_p99_us, 99000);
}

TEST(parked_and_skipped_are_counted_and_other_endings_not)
{
    static const char *const endings[] = {"parked", "parked", "skipped", "done", "failed"};
    for (size_t i = 0; i < 5; i++)
        history_add(history, &(struct history_ending){ms(1), "transfer", "r1", endings[i]});
    history_order(history);
    assert_int_equal(row_of(0, "r1").parked, 2);
    assert_int_equal(row_of(0, "r1").skipped, 1);
    assert_int_equal(row_of(0, "r1").holds, 0);
    assert_int_equal(row_of(0, NULL).parked, 2);
}

/* As of a log that leaves them out. */
TEST(without_a_parked_task_their_number_is_not_known)
{
    struct buffer text = {0};
    history_add(history, &(struct history_ending){ms(1), "transfer", "r1", "skipped"});
    history_order(history);
    assert_int_equal(row_of(0, "r1").parked, -1);
    assert_int_equal(row_of(0, NULL).parked, -1);
    struct history_sums sums = history_sums_of(history, 0);
    history_sums_text(&sums, 9, false, &text);
    assert_contains(buffer_text(&text),
                    "\nall                     0  0.00 s         -         -       0       -        1 ");
    buffer_clear(&text);
    history_sums_json(&(struct json_writer){.out = &text}, &sums, 9);
    assert_contains(buffer_text(&text), "\"parked\":null,\"skipped\":1");
    history_sums_fini(&sums);
    buffer_fini(&text);
}

TEST(who_begins_while_another_is_at_it_overlaps)
{
    held("north:1", "r1", 0, 100);   /* long */
    held("south:1", "r1", 10, 20);   /* within it */
    held("south:1", "r1", 50, 60);   /* still within it, though not within the last */
    held("south:1", "r1", 100, 110); /* begins when it ends: none */
    held("south:1", "r2", 10, 20);   /* another resource */
    history_order(history);
    assert_int_equal(row_of(0, "r1").overlaps, 2);
    assert_int_equal(row_of(0, "r2").overlaps, 0);
    assert_int_equal(row_of(0, NULL).overlaps, 2);
}

TEST(what_names_no_resource_overlaps_nothing)
{
    for (int i = 0; i < 3; i++) {
        struct history_hold hold = hold_of("north:1", (const char *const[2]){NULL, NULL}, 0, 100);
        hold.resource_count = 0;
        hold.is_locked = false;
        history_add(history, &hold);
    }
    history_order(history);
    assert_int_equal(row_of(0, "").holds, 3);
    assert_int_equal(row_of(0, "").unlocked, 3);
    assert_int_equal(row_of(0, NULL).overlaps, 0);
}

TEST(parts_are_added_up_apart)
{
    history_add(history, &(struct history_part){ms(100), "second"});
    history_add(history, &(struct history_part){ms(0), "first"});
    held("north:1", "r1", 100, 120);
    held("north:1", "r1", 10, 110); /* ends in the second, belongs to the first */
    history_order(history);
    size_t count;
    assert_string_equal(history_parts(history, &count)[0].title, "first");
    assert_int_equal(count, 2);
    assert_int_equal(row_of(0, "r1").holds, 1);
    assert_int_equal(row_of(1, "r1").holds, 1);
    assert_int_equal(row_of(1, "r1").overlaps, 0);
}

TEST(what_lies_before_the_first_part_has_one)
{
    history_add(history, &(struct history_part){ms(100), "later"});
    held("north:1", "r1", 10, 20);
    history_order(history);
    size_t count;
    assert_string_equal(history_parts(history, &count)[0].title, "");
    assert_int_equal(count, 2);
    assert_int_equal(row_of(0, "r1").holds, 1);
}

TEST(a_clock_that_went_back_makes_no_negative_time)
{
    held("north:1", "r1", 100, 50);
    history_order(history);
    assert_int_equal(row_of(0, "r1").held_us, 0);
}

TEST(a_sum_that_is_too_large_stays_at_the_largest_number)
{
    const char *resources[2] = {"r1", NULL};
    struct history_hold hold = hold_of("north:1", resources, 0, 10);
    hold.held_us = INT64_MAX / 2;
    for (int i = 0; i < 3; i++)
        history_add(history, &hold);
    history_order(history);
    assert_true(row_of(0, "r1").held_us == INT64_MAX);
}

TEST(equal_texts_are_one)
{
    char one[] = "north:1", other[] = "north:1";
    for (int i = 0; i < 5000; i++) {
        char name[16];
        snprintf(name, sizeof name, "r%d", i);
        held(i % 2 == 0 ? one : other, name, i, i + 1);
    }
    history_order(history);
    size_t count;
    const struct history_hold *holds = history_holds(history, &count);
    assert_int_equal(count, 5000);
    for (size_t i = 0; i < count; i++)
        assert_ptr_equal(holds[i].process, holds[0].process);
    assert_string_equal(holds[4999].resources[0], "r4999");
}

TEST(a_mark_names_a_host_or_a_process)
{
    assert_true(history_names_process("north", "north:17"));
    assert_true(history_names_process("north:17", "north:17"));
    assert_false(history_names_process("north:1", "north:17"));
    assert_false(history_names_process("nor", "north:17"));
    assert_false(history_names_process("", "north:17"));
}

/* --- lanes -------------------------------------------------------------------------------------------------------- */

static struct timeline_lanes lanes_of(struct history_sums *sums, size_t lanes_max, size_t bars_max)
{
    history_order(history);
    *sums = history_sums_of(history, 0);
    return timeline_lanes_of(&sums->uses, lanes_max, bars_max);
}

static size_t holds_in(const struct timeline_lanes *lanes)
{
    size_t holds = 0;
    for (size_t i = 0; i < lanes->bar_count; i++)
        holds += lanes->bars[i].holds;
    return holds;
}

TEST(overlapping_bars_lie_in_rows)
{
    struct history_sums sums;
    held("north:1", "r1", 0, 100);
    held("south:1", "r1", 10, 20);
    held("south:1", "r1", 30, 40);
    held("south:1", "r1", 100, 140);
    struct timeline_lanes lanes = lanes_of(&sums, 10, 100);
    assert_int_equal(lanes.bar_count, 4);
    assert_int_equal(lanes.bars[0].row, 0);
    assert_int_equal(lanes.bars[1].row, 1);
    assert_int_equal(lanes.bars[2].row, 1);
    assert_int_equal(lanes.bars[3].row, 0);
    assert_int_equal(lanes.lanes[0].rows, 2);
    timeline_lanes_fini(&lanes);
    history_sums_fini(&sums);
}

/* Neighbours of one process become one bar; what is unusual stays by itself as long as that is enough. */
TEST(too_many_bars_are_merged_and_none_is_forgotten)
{
    struct history_sums sums;
    const char *resources[2] = {"r1", NULL};
    for (int i = 0; i < 2000; i++) {
        struct history_hold hold = hold_of("north:1", resources, 10 * i, 10 * i + 9);
        hold.is_lost = i == 1000;
        history_add(history, &hold);
    }
    struct timeline_lanes lanes = lanes_of(&sums, 10, 100);
    assert_true(lanes.bar_count <= 100);
    assert_int_equal(holds_in(&lanes), 2000);
    assert_int_equal(lanes.merged, 1999);
    size_t alone = 0;
    for (size_t i = 0; i < lanes.bar_count; i++)
        alone += lanes.bars[i].holds == 1 && lanes.bars[i].use->hold->is_lost;
    assert_int_equal(alone, 1);
    timeline_lanes_fini(&lanes);
    history_sums_fini(&sums);
}

TEST(even_what_is_unusual_is_bounded)
{
    struct history_sums sums;
    for (int i = 0; i < 3000; i++)
        held(i % 2 == 0 ? "north:1" : "south:1", i % 3 == 0 ? "r1" : "r2", i, i + 50);
    struct timeline_lanes lanes = lanes_of(&sums, 10, 40);
    assert_true(lanes.bar_count <= 40);
    assert_int_equal(holds_in(&lanes), 3000);
    timeline_lanes_fini(&lanes);
    history_sums_fini(&sums);
}

TEST(lanes_are_those_with_most_to_see)
{
    struct history_sums sums;
    for (int i = 0; i < 50; i++) {
        char name[16];
        snprintf(name, sizeof name, "r%d", i);
        for (int j = 0; j <= i; j++)
            held("north:1", name, 100 * j, 100 * j + 5);
    }
    held("south:1", "r3", 2, 4);
    struct timeline_lanes lanes = lanes_of(&sums, 3, 1000);
    assert_int_equal(lanes.lane_count, 3);
    assert_int_equal(lanes.lanes_left_out, 47);
    assert_string_equal(lanes.lanes[0].resource, "r3");
    assert_string_equal(lanes.lanes[1].resource, "r48");
    assert_string_equal(lanes.lanes[2].resource, "r49");
    timeline_lanes_fini(&lanes);
    history_sums_fini(&sums);
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

/* The data of the page; to be freed. */
static char *data_of(const char *title)
{
    buffer_clear(&page);
    history_order(history);
    timeline_page_write(history, title, "by a test", &page);
    return page_data(buffer_text(&page));
}

TEST(an_empty_page_is_one_too)
{
    char *data = data_of("nothing");
    assert_contains(data, "\"about\":\"by a test\",\"parts_left_out\":0,\"parts\":[{\"title\":\"\"");
    free(data);
}

/* Whatever a task, a host or a script is called. */
TEST(foreign_text_stays_text)
{
    static const char evil[] = "</title></script><script>alert(1)</script>\"'&<b onload=\"x\">\x80\x1b[31m\xe2\x80\xae";
    const char *resources[2] = {evil, NULL};
    struct history_hold hold = hold_of(evil, resources, 0, 10);
    hold.class_name = hold.jid = hold.fence = hold.ending = evil;
    hold.is_handed_over = true;
    history_add(history, &hold);
    history_add(history, &(struct history_part){ms(0), evil});
    history_add(history, &(struct history_mark){ms(5), evil, evil, evil, evil, evil, evil});
    history_add(history, &(struct history_fact){ms(6), HISTORY_BAD, evil, evil});
    history_add_process(history, evil, ms(0), ms(10));
    history_add(history, &(struct history_ending){ms(1), evil, evil, "skipped"});
    char *data = data_of(evil), *text = page_text(buffer_text(&page));
    assert_contains(data, "\"jid\":\"</title></script><script>alert(1)</script>\\\"'&<b onload=");
    assert_contains(text, "&lt;/title>&lt;/script>&lt;script>alert(1)");
    assert_contains(buffer_text(&page), "<h1>&lt;/title>&lt;/script>");
    assert_contains(text, "onload=\"x\">\xef\xbf\xbd [31m\\u202e");
    free(data);
    free(text);
}

TEST(the_page_shows_what_there_is)
{
    static const char *const parts[] = {
        "\"title\":\"with the lock\",\"from\":1795309200.0,",
        "\"facts\":[{\"name\":\"ledger\",\"value\":\"exact\",\"tone\":\"good\"}]",
        "\"processes\":[{\"name\":\"north:1\",\"from\":1795309200.0,\"to\":1795309205.0},"
        "{\"name\":\"south:1\"}]",
        "\"lanes\":[{\"resource\":\"r1\",\"holds\":2,\"rows\":2,\"bars\":[{\"from\":1795309200.0,",
        "\"to\":1795309200.12,\"row\":1,\"process\":\"south:1\",\"holds\":1,\"overlaps\":true,"
        "\"class\":\"transfer\",\"jid\":\"j\"}",
        "\"marks\":[{\"at\":1795309200.02,\"kind\":\"frozen\",\"process\":\"north\",\"node\":\"\",",
        "\"kind\":\"wiped\",\"process\":\"\",\"node\":\"lock2\"",
        "\"rows\":[{\"class\":\"transfer\",\"resource\":\"r1\",\"holds\":2,",
        "\"total\":{\"holds\":2,",
        "\"note\":\"\"}]}"};
    history_add(history, &(struct history_part){ms(0), "with the lock"});
    held("north:1", "r1", 0, 100);
    held("south:1", "r1", 50, 120);
    history_add_process(history, "north:1", ms(0), ms(5000));
    history_add(history, &(struct history_mark){.at = ms(20), .kind = "frozen", .process = "north"});
    history_add(history, &(struct history_mark){.at = ms(90), .kind = "wiped", .node = "lock2"});
    history_add(history, &(struct history_fact){ms(200), HISTORY_GOOD, "ledger", "exact"});
    char *data = data_of("a night"), *text = page_text(buffer_text(&page));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_contains(data, parts[i]);
    assert_contains(buffer_text(&page), "<title>a night</title>");
    assert_contains(text, "by a test\n\nwith the lock\nledger: exact\n\nCLASS ");
    assert_contains(text, "  wiped   lock2");
    free(data);
    free(text);
}

TEST(a_part_has_what_happened_in_it)
{
    history_add(history, &(struct history_part){ms(0), "first"});
    held("north:1", "r1", 10, 20);
    history_add(history, &(struct history_part){ms(1000), "second"});
    held("west:1", "r1", 1420, 9000);
    history_add(history, &(struct history_mark){.at = ms(1610), .kind = "killed", .process = "west"});
    char *data = data_of("parts"), *second = strstr(data, "\"title\":\"second\"");
    *second++ = '\0';
    assert_contains(data, "\"process\":\"north:1\"");
    assert_lacks(data, "west");
    assert_contains(second, "\"from\":1795309201.0,");
    assert_contains(second, "\"kind\":\"killed\"");
    assert_lacks(second, "north");
    free(data);
}

static bool page_says(const char *words)
{
    char *data = data_of("overlaps");
    bool says = strstr(data, words) != NULL;
    free(data);
    return says;
}

TEST(overlaps_are_explained_where_there_are_any)
{
    static const char *const resources[2] = {"r1", NULL};
    struct history_hold hold = hold_of("north:1", resources, 0, 100);
    history_add(history, &hold);
    assert_false(page_says("overlaps: runs"));
    history_add(history, &hold);
    assert_true(page_says("does not know that the lock is lost"));
    history_add(history, &(struct history_part){ms(1000), "unlocked"});
    hold = hold_of("north:1", resources, 1000, 1100);
    hold.is_locked = false;
    history_add(history, &hold);
    assert_false(page_says("They had no lock"));
    history_add(history, &hold);
    assert_true(page_says("They had no lock"));
}

TEST(a_page_is_bounded)
{
    for (int part = 0; part < 20; part++) {
        history_add(history, &(struct history_part){ms(part * 10000), "a part"});
        for (int i = 0; i < 6000; i++) {
            char name[16], process[16];
            snprintf(name, sizeof name, "r%d", i % 100);
            snprintf(process, sizeof process, "h%d:1", i % 40);
            held(process, name, part * 10000 + i, part * 10000 + i + 300);
        }
        for (int i = 0; i < 1000; i++)
            history_add(history, &(struct history_mark){.at = ms(part * 10000 + i), .kind = "lost", .resource = "r1"});
        history_add(history, &(struct history_fact){ms(part * 10000 + 9000), HISTORY_PLAIN, "sum", "1"});
    }
    char *data = data_of("much");
    assert_true(page.length < 6000000);
    assert_contains(data, "\"parts_left_out\":8,");
    assert_contains(data, "52 resources with less to see are not shown.");
    assert_contains(data, "share bars");
    assert_contains(data, "800 marks are not shown.");
    assert_contains(data, "Not all processes have a row");
    free(data);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
