/* The screen of `holdfast top`: whatever there is to show, it fits; what matters most stays; and rates. */
#include "tests/support/test.h"

#include "base/memory.h"
#include "worker/commands/top_screen.h"
#include "worker/print/table.h"

enum { MANY = 300 };

static const struct wall_time noon = {INT64_C(1795262400000000)};

/* --- facts -------------------------------------------------------------------------------------------------------- */

static char *queue_names[] = {"default", "mail"};

static const struct fleet_process process = {.identity = "host1:4242:0123456789ab",
                                             .terms = "",
                                             .waits = "",
                                             .state = FLEET_ALIVE,
                                             .is_shown = true,
                                             .busy = 3,
                                             .concurrency = 8,
                                             .rss_kb = 30720,
                                             .beat = {INT64_C(1795262397000000)},
                                             .info = {.queues = queue_names, .queue_count = 2}};
static const struct backlog_queue queue = {.name = "default", .length = 1234, .latency_us = 3200000, .is_listed = true};
static const struct top_task task = {.process = "host1:4242:0123456789ab",
                                     .queue = "default",
                                     .class_name = "transfer",
                                     .jid = "0123456789abcdef01234567",
                                     .resource = "acct:42",
                                     .token = "1764000000000123",
                                     .age_us = 12 * US_PER_S};
static const struct redlock_node_view node = {.name = "lock1",
                                              .address = "10.0.0.11:6379",
                                              .is_reached = true,
                                              .votes = true,
                                              .state = "votes",
                                              .reason = "fine",
                                              .latency_us = 400};

static struct fleet_process processes[MANY];
static struct backlog_queue queues[MANY];
static struct top_task tasks[MANY];
static struct top_resource resources[MANY];
static struct redlock_node_view nodes[REDLOCK_NODES_MAX];

/* So many of each. */
static struct top_facts facts_of(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        processes[i] = process;
        queues[i] = queue;
        tasks[i] = task;
        resources[i] = (struct top_resource){.kind = "resource", .name = "acct:42", .waiters = 17, .holder = &tasks[i]};
    }
    for (unsigned i = 0; i < REDLOCK_NODES_MAX; i++)
        nodes[i] = node;
    return (struct top_facts){
        .now = noon,
        .has_rate = true,
        .processed_rate = 1234.4,
        .failed_rate = 0.25,
        .status = {.fleet = {.items = processes, .count = count},
                   .backlog = {.items = queues, .count = count, .knows_listed = true, .knows_paused = true},
                   .schedule = 3,
                   .retry = 1,
                   .dead = 4,
                   .processed = 1000000,
                   .failed = 12},
        .tasks = tasks,
        .task_count = count,
        .resources = resources,
        .resource_count = count,
        .nodes = nodes,
        .node_count = count < REDLOCK_NODES_MAX ? count : REDLOCK_NODES_MAX,
    };
}

/* Fails unless each line fits; returns the number of lines. */
static unsigned assert_fits(struct buffer *out, unsigned width, unsigned height)
{
    unsigned lines = 0;
    char *copy = memory_text(buffer_text(out)), *rest = copy;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && rest != NULL; lines++) {
        if (table_text_width(line) > width)
            fail_msg("%u columns, not %u: %s", table_text_width(line), width, line);
        if (line[0] != '\0' && line[strlen(line) - 1] == ' ')
            fail_msg("blanks at the end: %s", line);
    }
    assert_true(lines <= height);
    free(copy);
    return lines;
}

static const char *screen(const struct top_facts *facts, unsigned width, unsigned height)
{
    static struct buffer out;
    buffer_clear(&out);
    top_screen_write(facts, NULL, width, height, false, &out);
    assert_fits(&out, width, height);
    return buffer_text(&out);
}

/* --- what is shown ------------------------------------------------------------------------------------------------ */

TEST(a_small_fleet_fits_whole_into_200_columns)
{
    struct top_facts facts = facts_of(1);
    assert_string_equal(
        screen(&facts, 200, 60),
        "1,234 tasks/s   3/8 busy   1 process   2026-11-21T12:00:00Z   0.2 failed/s\n"
        "queued 1,234   dead 4   retry 1   scheduled 3   processed 1,000,000   failed 12\n"
        "\n"
        "PROCESS                  STATE  BUSY    MEMORY  BEAT       QUEUES\n"
        "host1:4242:0123456789ab  alive   3/8  30.0 MiB  3.0 s ago  default,mail\n"
        "\n"
        "RUNNING    AGE  RESOURCE             TOKEN  JID                       PROCESS                  QUEUE\n"
        "transfer  12 s  acct:42   1764000000000123  0123456789abcdef01234567  host1:4242:0123456789ab  default\n"
        "\n"
        "RESOURCE  WAITERS  HELD FOR  BY TASK                   ON\n"
        "acct:42        17      12 s  0123456789abcdef01234567  host1:4242:0123456789ab\n"
        "\n"
        "LOCK NODE  STATE  LATENCY  WHY   AT MOST  ADDRESS\n"
        "lock1      votes   0.4 ms  fine        -  10.0.0.11:6379\n"
        "\n"
        "QUEUE    TASKS  LATENCY\n"
        "default  1,234    3.2 s\n");
}

TEST(what_is_not_well_is_told_above)
{
    struct top_facts facts = facts_of(1);
    facts.status.dead = -1;
    assert_contains(screen(&facts, 200, 60),
                    "\nqueued 1,234   dead ?   retry 1   scheduled 3   processed 1,000,000   failed 12\n"
                    "not well: the key dead holds no sorted set; 1 worker, 1,234 tasks in queues, 0 waiting for locks\n"
                    "\nPROCESS  ");
}

TEST(at_80_columns_names_are_cut_and_numbers_are_not)
{
    struct top_facts facts = facts_of(1);
    const char *text = screen(&facts, 80, 24);
    assert_contains(text, "\ntransfer  12 s  acct:42");
    assert_contains(text, "3/8  30.0 MiB");
    assert_contains(text, "~");
}

TEST(at_40_columns_what_matters_most_stays)
{
    struct top_facts facts = facts_of(1);
    const char *text = screen(&facts, 40, 24);
    assert_contains(text, "1,234 tasks/s   3/8 busy   1 process\n");
    assert_contains(text, "queued 1,234   dead 4   retry 1\n");
    assert_contains(text, "\ntransfer  12 s  acct:42");
    assert_contains(text, "WAITERS");
    assert_contains(text, "\nlock1      votes   0.4 ms");
    assert_contains(text, "\ndefault  1,234    3.2 s\n");
    assert_lacks(text, "QUEUES");
}

TEST(whatever_the_size_it_fits)
{
    static const unsigned counts[] = {0, 1, 2, 30, MANY};
    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct top_facts facts = facts_of(counts[i]);
        facts.away = "connection refused";
        facts.nodes_reason = "the configuration names no lock nodes that can be asked, for a reason that is long";
        for (unsigned width = 1; width <= 210; width++)
            screen(&facts, width, 1 + (width * 7) % 61);
    }
}

/* All but one line (which may be needed to share evenly) of a full screen are used, and who is cut is told. */
TEST(a_full_screen_is_shared_by_all)
{
    struct top_facts facts = facts_of(30);
    const char *text = screen(&facts, 200, 40);
    unsigned lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_int_equal(lines, 40);
    assert_contains(text, "PROCESS 6/30");
    assert_contains(text, "RUNNING 6/30");
    assert_contains(text, "RESOURCE 6/30");
    assert_contains(text, "LOCK NODE 5/");
    assert_contains(text, "QUEUE 5/30");
}

TEST(what_is_short_leaves_its_room_to_others)
{
    struct top_facts facts = facts_of(30);
    facts.node_count = 3;
    facts.resource_count = 0;
    facts.status.backlog.count = 1;
    const char *text = screen(&facts, 200, 40);
    assert_contains(text, "\nLOCK NODE  STATE");
    assert_contains(text, "\nQUEUE    TASKS");
    assert_lacks(text, "RESOURCE  WAITERS");
    assert_contains(text, "PROCESS 13/30");
    assert_contains(text, "RUNNING 13/30");
}

TEST(who_is_gone_is_not_shown_and_who_is_quiet_is)
{
    struct top_facts facts = facts_of(4);
    processes[0].state = FLEET_RECOVERED;
    processes[1].state = FLEET_UNLEASED;
    processes[2].state = FLEET_LOST;
    processes[3].is_quiet = true;
    const char *text = screen(&facts, 200, 60);
    assert_contains(text, "1 process ");
    assert_contains(text, "  lost, lease ended ");
    assert_contains(text, "  quiet ");
    assert_lacks(text, "recovered");
    assert_lacks(text, "unleased");
}

TEST(a_queue_node_that_is_away_is_told_above_what_was_seen)
{
    struct top_facts facts = facts_of(1);
    facts.away = "10.0.0.1:6379 closed\x1b[2J";
    facts.old_us = 12 * US_PER_S;
    const char *text = screen(&facts, 200, 60);
    assert_contains(text, "\nTHE QUEUE NODE IS AWAY: this is 12 s old (\"10.0.0.1:6379 closed\\x1B[2J\")\n");
    assert_contains(text, "\ntransfer  12 s");
}

TEST(a_node_that_does_not_vote_says_why)
{
    struct top_facts facts = facts_of(1);
    nodes[0] = (struct redlock_node_view){.name = "lock1",
                                          .address = "10.0.0.11:6379",
                                          .state = "quarantined",
                                          .reason = "new_run",
                                          .quarantine_left_ms = 61000};
    const char *text = screen(&facts, 80, 60);
    assert_contains(text, "quarantined        -  new_run     61 s");
}

TEST(names_cannot_steer_the_terminal)
{
    struct top_facts facts = facts_of(1);
    struct buffer out = {0};
    tasks[0].class_name = "\x1b]0;title\x07";
    tasks[0].resource = "a\nb\xe2\x80\xaex";
    resources[0].name = "\xff\xfe\x1b[2J";
    queues[0].name = "\x9b"
                     "2J";
    processes[0].identity = "\r\nforged";
    nodes[0].name = "n\x1b[31m";
    top_screen_write(&facts, NULL, 200, 60, false, &out);
    for (size_t i = 0; i < out.length; i++)
        assert_true((unsigned char)out.bytes[i] >= ' ' || out.bytes[i] == '\n');
    assert_lacks(buffer_text(&out), "\xe2\x80\xae");
    assert_lacks(buffer_text(&out), "\nforged");
    buffer_fini(&out);
}

TEST(wide_characters_count_twice_and_are_not_halved)
{
    struct buffer out = {0};
    assert_int_equal(table_text_width("\xe6\x9d\xb1\xe4\xba\xac"), 4);
    assert_int_equal(table_text_width("e\xcc\x81"), 1);
    assert_int_equal(table_text_write("\xe6\x9d\xb1\xe4\xba\xac", 4, &out), 4);
    assert_string_equal(buffer_text(&out), "\xe6\x9d\xb1\xe4\xba\xac");
    buffer_clear(&out);
    assert_int_equal(table_text_write("\xe6\x9d\xb1\xe4\xba\xac", 3, &out), 3);
    assert_string_equal(buffer_text(&out), "\xe6\x9d\xb1~");
    buffer_clear(&out);
    assert_int_equal(table_text_write("\xe6\x9d\xb1\xe4\xba\xac", 2, &out), 1);
    assert_string_equal(buffer_text(&out), "~");
    buffer_fini(&out);
}

TEST(what_is_cut_ends_with_a_word_if_one_is_near)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {{"no answer", "no answer"},
                 {"no answer here", "no answer ~"},
                 {"no answer-here", "no answer-~"}, /* too little would be left */
                 {"answer no more", "answer no ~"}};
    struct buffer out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        buffer_clear(&out);
        assert_int_equal(table_text_write(cases[i].text, 11, &out), strlen(cases[i].shown));
        assert_string_equal(buffer_text(&out), cases[i].shown);
    }
    buffer_fini(&out);
}

/* The same text: what colours add takes no room. */
TEST(colours_change_nothing_but_colours)
{
    struct top_facts facts = facts_of(3);
    struct buffer plain = {0}, coloured = {0}, stripped = {0};
    facts.away = "x";
    top_screen_write(&facts, NULL, 80, 24, false, &plain);
    top_screen_write(&facts, NULL, 80, 24, true, &coloured);
    assert_lacks(buffer_text(&plain), "\x1b");
    assert_contains(buffer_text(&coloured), "\x1b[32m");
    for (const char *at = buffer_text(&coloured); *at != '\0'; at++) {
        if (*at == '\x1b')
            at = strchr(at, 'm');
        else
            buffer_append(&stripped, at, 1);
    }
    assert_string_equal(buffer_text(&stripped), buffer_text(&plain));
    buffer_fini(&plain);
    buffer_fini(&coloured);
    buffer_fini(&stripped);
}

/* --- rates -------------------------------------------------------------------------------------------------------- */

TEST(a_rate_is_that_of_the_last_seconds)
{
    struct rate_window window = {.count = 0};
    double processed = -1, failed = -1;
    /* Written every 5 s in one piece, 100 a second; looked at each second. */
    for (int second = 0; second < 60; second++) {
        rate_window_add(&window, (struct wall_time){noon.us + second * US_PER_S}, second / 5 * 500, second / 5 * 5);
        bool is_known = rate_window_read(&window, &processed, &failed);
        assert_int_equal(is_known, second >= 5);
        if (second >= 15) {
            assert_true(processed > 99.9 && processed < 100.1);
            assert_true(failed > 0.99 && failed < 1.01);
        }
    }
    assert_true(rate_window_span_us(&window) == RATE_WINDOW_US);
}

TEST(a_rate_that_is_looked_at_often_is_the_same)
{
    struct rate_window window = {.count = 0};
    double processed = -1, failed = -1;
    for (int look = 0; look < 600; look++)
        rate_window_add(&window, (struct wall_time){noon.us + look * US_PER_S / 5}, look * 20, 0);
    assert_true(rate_window_read(&window, &processed, &failed));
    assert_true(processed > 99.9 && processed < 100.1 && failed == 0);
    assert_true(rate_window_span_us(&window) >= RATE_WINDOW_US);
}

TEST(totals_that_shrink_begin_anew)
{
    struct rate_window window = {.count = 0};
    double processed, failed;
    rate_window_add(&window, noon, 1000, 0);
    rate_window_add(&window, (struct wall_time){noon.us + 10 * US_PER_S}, 2000, 0);
    assert_true(rate_window_read(&window, &processed, &failed));
    rate_window_add(&window, (struct wall_time){noon.us + 11 * US_PER_S}, 5, 0);
    assert_false(rate_window_read(&window, &processed, &failed));
    rate_window_add(&window, (struct wall_time){noon.us + 5 * US_PER_S}, 50, 0);
    assert_true(rate_window_span_us(&window) == 0);
}

/* --- what somebody has chosen ------------------------------------------------------------------------------------- */

/* Types all of it; the last action. */
static enum top_action type(struct top_view *view, const char *keys)
{
    enum top_action action = TOP_NOTHING;
    for (size_t at = 0, used; keys[at] != '\0'; at += used)
        action = top_view_type(view, keys + at, strlen(keys + at), &used);
    return action;
}

static const char *chosen_screen(const struct top_facts *facts, struct top_view *view, unsigned width, unsigned height)
{
    static struct buffer out;
    buffer_clear(&out);
    top_screen_write(facts, view, width, height, false, &out);
    assert_fits(&out, width, height);
    return buffer_text(&out);
}

static struct top_facts three_tasks(void)
{
    static char names[3][16] = {"bravo", "alpha", "charlie"}, jids[3][16] = {"j-one", "j-two", "j-three"};
    struct top_facts facts = facts_of(3);
    for (int i = 0; i < 3; i++) {
        tasks[i].class_name = names[i];
        tasks[i].jid = jids[i];
        tasks[i].age_us = (int64_t[]){9, 100, 20}[i] * US_PER_S;
    }
    return facts;
}

static void assert_chosen(const struct top_facts *facts, struct top_view *view, const char *name)
{
    char chosen[TOP_NAME_MAX];
    chosen_screen(facts, view, 120, 60);
    top_screen_chosen(facts, view, chosen);
    assert_string_equal(chosen, name);
}

TEST(arrows_choose_a_row_that_is_there)
{
    struct top_facts facts = three_tasks();
    struct top_view view = {.section = TOP_TASKS};
    assert_chosen(&facts, &view, "j-one");
    assert_non_null(strstr(chosen_screen(&facts, &view, 120, 60), "\n> bravo"));
    assert_int_equal(type(&view, "\x1b[Bj"), TOP_NOTHING);
    assert_chosen(&facts, &view, "j-three");
    type(&view, "jjjj\x1bOB");
    assert_chosen(&facts, &view, "j-three"); /* there is no row below */
    type(&view, "k");
    assert_chosen(&facts, &view, "j-two");
    type(&view, "\t\t\t");
    assert_int_equal(view.section, TOP_QUEUES);
    assert_chosen(&facts, &view, "default");
    type(&view, "\x1b[D");
    assert_int_equal(view.section, TOP_NODES);
    assert_chosen(&facts, &view, "");
}

TEST(rows_are_sorted_by_what_they_mean)
{
    struct top_facts facts = three_tasks();
    struct top_view view = {.section = TOP_TASKS};
    type(&view, "s");
    assert_chosen(&facts, &view, "j-two"); /* alpha */
    type(&view, "r");
    assert_chosen(&facts, &view, "j-three"); /* charlie */
    type(&view, "s");
    assert_chosen(&facts, &view, "j-two"); /* 100 s is more than 9 s and 20 s, as numbers */
    assert_non_null(strstr(chosen_screen(&facts, &view, 120, 60), "AGE v"));
    type(&view, "ssssss"); /* after the last column: as they come */
    assert_chosen(&facts, &view, "j-one");
}

TEST(a_filter_keeps_the_rows_that_have_a_text)
{
    struct top_facts facts = three_tasks();
    struct top_view view = {.section = TOP_TASKS};
    assert_int_equal(type(&view, "/CHARx\x7fq"), TOP_NOTHING); /* q is a letter of it */
    assert_string_equal(view.filter, "CHARq");
    type(&view, "\x7f");
    assert_chosen(&facts, &view, "j-three");
    assert_null(strstr(chosen_screen(&facts, &view, 120, 60), "bravo"));
    type(&view, "\r\x1b");
    assert_string_equal(view.filter, "");
    type(&view, "/\xc3\xa4");
    type(&view, "\x7f");
    assert_string_equal(view.filter, ""); /* a character, not a byte */
    for (int i = 0; i < 2 * TOP_FILTER_MAX; i++)
        type(&view, "x");
    assert_int_equal(strlen(view.filter), TOP_FILTER_MAX - 1);
}

TEST(what_is_asked_is_done_only_after_yes)
{
    struct top_view view = {.section = TOP_TASKS};
    assert_int_equal(type(&view, "c"), TOP_CANCEL);
    assert_int_equal(type(&view, "p"), TOP_PAUSE);
    assert_int_equal(type(&view, "\r"), TOP_OPEN);
    assert_int_equal(type(&view, "q"), TOP_QUIT);
    const char *const answers[] = {"n", "\r", "\x1b", "q", "c"};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        view.mode = TOP_CONFIRMS;
        assert_int_equal(type(&view, answers[i]), TOP_NOTHING);
        assert_int_equal(view.mode, TOP_LISTS);
    }
    view.mode = TOP_CONFIRMS;
    assert_int_equal(type(&view, "y"), TOP_DO);
}

TEST(whatever_is_chosen_it_fits)
{
    char text[] = "one line\nand another one that is much longer than the narrowest of the screens\nthree\n";
    for (unsigned count = 0; count <= 40; count += 20)
        for (unsigned width = 1; width <= 130; width += 7)
            for (unsigned height = 1; height <= 40; height++)
                for (int mode = TOP_LISTS; mode <= TOP_READS; mode++) {
                    struct top_facts facts = facts_of(count);
                    struct top_view view = {.section = TOP_TASKS, .row = 15, .mode = (enum top_mode)mode, .text = text};
                    chosen_screen(&facts, &view, width, height);
                }
}

TEST(a_row_far_below_is_shown_when_it_is_chosen)
{
    struct top_facts facts = facts_of(100);
    struct top_view view = {.section = TOP_TASKS, .row = 77};
    char far_away[] = "far-away";
    tasks[77].class_name = far_away;
    assert_non_null(strstr(chosen_screen(&facts, &view, 120, 30), "> far-away"));
}

RUN_TESTS
