/* Periodic tasks at a real queue node: one push per tick, whoever tries, whatever gets lost.
 *
 * Minutes are long, so the tests make time zones of their own whose minutes begin when they want: a zone that is some
 * seconds ahead of UTC. */
#include "tests/support/test.h"

#include <stdio.h>

#include "base/buffer.h"
#include "queue/keys.h"
#include "queue/scripts.h"
#include "tests/support/private_directory.h"
#include "tests/support/queue_fixture.h"
#include "worker/periodic/periodic.h"

enum { ZONES_MAX = 3 };

static char zone_directory[PRIVATE_DIRECTORY_MAX];
static struct config_periodic entries[ZONES_MAX];
static struct config config;
static struct periodic *workers[2];

/* --- zones ------------------------------------------------------------------------------------------------------ */

static void number_put(struct buffer *out, int64_t number, unsigned bytes)
{
    while (bytes-- > 0)
        buffer_append(out, &(char){(char)(number >> (8 * bytes))}, 1);
}

static void header_put(struct buffer *out)
{
    buffer_append_text(out, "TZif2");
    number_put(out, 0, 7);
    number_put(out, 0, 8);
    for (unsigned i = 0; i < 4; i++)
        number_put(out, 0, 4);
    number_put(out, 1, 4);
    number_put(out, 4, 4);
}

static void data_put(struct buffer *out, int64_t offset)
{
    number_put(out, offset, 4);
    number_put(out, 0, 2);
    buffer_append(out, "XYZ", 4);
}

static void zone_path(char path[PRIVATE_DIRECTORY_MAX + 8], unsigned number)
{
    snprintf(path, PRIVATE_DIRECTORY_MAX + 8, "%s/Z%u", zone_directory, number);
}

static void zone_write(unsigned number, int64_t offset)
{
    char path[PRIVATE_DIRECTORY_MAX + 8];
    struct buffer file = {0};
    header_put(&file);
    data_put(&file, offset);
    header_put(&file);
    data_put(&file, offset);
    buffer_append_text(&file, "\n\n");
    zone_path(path, number);
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    assert_int_equal(fwrite(file.bytes, 1, file.length, out), file.length);
    assert_int_equal(fclose(out), 0);
    buffer_fini(&file);
}

/* --- workers ---------------------------------------------------------------------------------------------------- */

static int setup(void **state)
{
    static char *const names[ZONES_MAX] = {"one", "two", "three"};
    static char *const zones[ZONES_MAX] = {"Z0", "Z1", "Z2"};
    (void)queue_setup(state);
    private_directory_create(zone_directory);
    assert_int_equal(setenv("TZDIR", zone_directory, 1), 0);
    for (unsigned i = 0; i < ZONES_MAX; i++)
        entries[i] = (struct config_periodic){.source = {.where = "test"},
                                              .name = names[i],
                                              .cron = "* * * * *",
                                              .zone = zones[i],
                                              .class_name = "report",
                                              .args = "[7]",
                                              .queue = "a",
                                              .retry = "class",
                                              .catch_up_ns = 3600 * NS_PER_S};
    config = (struct config){.periodic = entries, .periodic_count = 1};
    start("other");
    queue_probe_wait_up(&probe);
    return 0;
}

static int teardown(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        periodic_destroy(workers[i]);
        workers[i] = NULL;
    }
    for (unsigned i = 0; i < ZONES_MAX; i++) {
        char path[PRIVATE_DIRECTORY_MAX + 8];
        zone_path(path, i);
        unlink(path);
    }
    rmdir(zone_directory);
    unsetenv("TZDIR");
    return queue_teardown(state);
}

static int64_t node_seconds(void)
{
    char *time = redis_server_command(server, "TIME");
    int64_t seconds = strtoll(time, NULL, 10);
    free(time);
    return seconds;
}

/* A tick each minute, the next one in so many seconds. Returns it. */
static int64_t tick_in(unsigned number, int64_t seconds)
{
    int64_t tick = node_seconds() + seconds;
    zone_write(number, 60 - tick % 60);
    return tick;
}

static const struct config_periodic *entry_of(const char *name)
{
    for (unsigned i = 0; i < ZONES_MAX; i++)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    fail_msg("no entry is called %s", name);
    return NULL;
}

/* The last tick that was pushed, and since when the schedule is known. */
static void note_both(const char *name, int64_t last, int64_t since)
{
    char text[128];
    const struct config_periodic *entry = entry_of(name);
    snprintf(text, sizeof text, "%lld %lld %s %s", (long long)last, (long long)since, entry->cron, entry->zone);
    free(redis_server_command(server, "HSET hf:2:periodic %s '%s'", name, text));
}

static void note(const char *name, int64_t tick)
{
    note_both(name, tick, 0);
}

static void assert_noted(const char *name, int64_t tick)
{
    char *noted = redis_server_command(server, "HGET hf:2:periodic %s", name);
    assert_int_equal(strtoll(noted, NULL, 10), tick);
    free(noted);
}

static struct periodic_entries *entries_make(void)
{
    struct error error = ERROR_NONE;
    struct periodic_entries *made = periodic_entries_make(&config, &ENVELOPE_LIMITS_DEFAULT, &error);
    if (made == NULL)
        fail_msg("%s", error.text);
    return made;
}

static void work(unsigned number, struct queue_probe *at)
{
    struct periodic_options options = {.node = queue_node(at->queue),
                                       .keys = queue_keys_of(at->queue),
                                       .timeout_ns = 300 * NS_PER_MS,
                                       .jitter_ns = 20 * NS_PER_MS};
    workers[number] = periodic_create(loop, &options, entries_make());
}

/* A second process, through the relay. */
static void other_start(void)
{
    queue_probe_start(&other, loop, relay_port(relay), "other", NULL);
    queue_probe_wait_up(&other);
}

static bool is_reply(void *context)
{
    const char *const *pair = context;
    char *reply = redis_server_command(server, "%s", pair[0]);
    bool same = strcmp(reply, pair[1]) == 0;
    free(reply);
    return same;
}

static void wait_reply(const char *command, const char *expected)
{
    const char *pair[] = {command, expected};
    if (!loop_until(loop, is_reply, pair, TEST_PATIENCE_NS))
        fail_msg("%s did not become %s", command, expected);
}

static bool has_schedule(void *context)
{
    const char *const *pair = context;
    char *noted = redis_server_command(server, "HGET hf:2:periodic %s", pair[0]);
    bool is_it = strstr(noted, pair[1]) != NULL;
    free(noted);
    return is_it;
}

static void wait_noted_schedule(const char *name, const char *schedule)
{
    const char *pair[] = {name, schedule};
    assert_true(loop_until(loop, has_schedule, pair, TEST_PATIENCE_NS));
}

/* Long enough for everybody to try what is due: five times the jitter. */
static void all_have_tried(void)
{
    loop_for(loop, 100 * NS_PER_MS);
}

/* --- ticks ------------------------------------------------------------------------------------------------------ */

TEST(each_tick_is_pushed_once_by_all_together)
{
    int64_t ticks[ZONES_MAX] = {tick_in(0, 1), tick_in(1, 1), tick_in(2, 2)};
    config.periodic_count = ZONES_MAX;
    for (unsigned i = 0; i < ZONES_MAX; i++)
        note(entries[i].name, ticks[i] - 30); /* else a slow start would make them the past */
    other_start();
    work(0, &probe);
    work(1, &other);
    wait_reply("LLEN queue:a", "3");
    all_have_tried();
    assert_reply(server, "3", "LLEN queue:a");
    assert_reply(server, "a", "SMEMBERS queues");
    char member[64], *tasks = redis_server_command(server, "LRANGE queue:a 0 -1");
    for (unsigned i = 0; i < ZONES_MAX; i++) {
        assert_noted(entries[i].name, ticks[i]);
        snprintf(member, sizeof member, "\"periodic\":\"%s\",\"tick\":%lld.0,", entries[i].name, (long long)ticks[i]);
        assert_contains(tasks, member);
    }
    assert_contains(tasks, "{\"class\":\"report\",\"args\":[7],");
    free(tasks);
}

/* Nothing of the past, but it is remembered since when ticks can be missed. */
TEST(the_first_start_pushes_nothing_of_the_past)
{
    (void)tick_in(0, 40);
    int64_t before = node_seconds();
    work(0, &probe);
    wait_reply("HLEN hf:2:periodic", "1");
    all_have_tried();
    assert_reply(server, "0", "EXISTS queue:a");
    char *noted = redis_server_command(server, "HGET hf:2:periodic one");
    char *rest;
    assert_int_equal(strtoll(noted, &rest, 10), 0);
    assert_in_range(strtoll(rest, &rest, 10), before, node_seconds());
    assert_string_equal(rest, " * * * * * Z0");
    free(noted);
}

/* Its last tick was long ago, by another schedule; this one had a tick twenty seconds ago, before anybody had it. */
TEST(a_changed_schedule_catches_up_nothing)
{
    int64_t tick = tick_in(0, 40) - 60;
    free(redis_server_command(server, "HSET hf:2:periodic one '1600000000 0 0 3 * * * Z0'"));
    work(0, &probe);
    wait_noted_schedule("one", " * * * * * Z0");
    all_have_tried();
    assert_reply(server, "0", "EXISTS queue:a");
    assert_noted("one", 1600000000);
    note_both("one", 1600000000, tick - 1); /* from now on ticks can be missed as ever */
    work(1, &probe);
    wait_reply("LLEN queue:a", "1");
    assert_noted("one", tick);
}

TEST(a_reload_goes_on_with_other_entries)
{
    int64_t tick = tick_in(0, 40) - 60;
    config.periodic_count = 0;
    work(0, &probe);
    note("one", tick - 60);
    all_have_tried();
    assert_reply(server, "0", "EXISTS queue:a");
    config.periodic_count = 1;
    periodic_change(workers[0], entries_make());
    wait_reply("LLEN queue:a", "1");
    assert_noted("one", tick);
    note("one", tick - 60);
    config.periodic_count = 0; /* also while a call is under way */
    periodic_change(workers[0], entries_make());
    all_have_tried();
    assert_reply(server, "1", "LLEN queue:a");
}

TEST(of_missed_ticks_the_latest_is_pushed_once)
{
    int64_t tick = tick_in(0, 40) - 60;
    note("one", tick - 600);
    other_start();
    work(0, &probe);
    work(1, &other);
    wait_reply("LLEN queue:a", "1");
    all_have_tried();
    assert_reply(server, "1", "LLEN queue:a");
    assert_noted("one", tick);
}

/* A fleet that started, died before the first tick, and comes back after it. */
TEST(a_tick_after_the_first_start_can_be_missed)
{
    int64_t tick = tick_in(0, 40) - 60;
    note_both("one", 0, tick - 5);
    work(0, &probe);
    wait_reply("LLEN queue:a", "1");
    assert_noted("one", tick);
}

TEST(too_old_ticks_are_not_pushed)
{
    char cron[32];
    int64_t minute = node_seconds() / 60 - 120, noted = (minute - 60) * 60;
    snprintf(cron, sizeof cron, "%d %d * * *", (int)(minute % 60), (int)(minute / 60 % 24));
    for (unsigned i = 0; i < ZONES_MAX; i++) {
        entries[i].zone = "UTC";
        entries[i].cron = cron;
        note(entries[i].name, noted);
    }
    entries[1].catch_up_ns = 3 * 3600 * NS_PER_S;
    entries[2].catch_up_ns = 3 * 3600 * NS_PER_S;
    entries[2].missed = CONFIG_MISSED_SKIP;
    config.periodic_count = ZONES_MAX;
    work(0, &probe);
    wait_reply("LLEN queue:a", "1");
    all_have_tried();
    assert_reply(server, "1", "LLEN queue:a");
    assert_noted("one", noted);
    assert_noted("two", minute * 60);
    assert_noted("three", noted);
}

/* --- trouble ---------------------------------------------------------------------------------------------------- */

static bool has_asked_again(void *context)
{
    return queue_probe_scripts(server) > *(unsigned *)context;
}

TEST(a_lost_reply_pushes_nothing_twice)
{
    int64_t tick = tick_in(0, 2);
    note("one", tick - 30);
    other_start();
    unsigned calls = queue_probe_scripts(server);
    work(0, &other);
    assert_true(loop_until(loop, has_asked_again, &calls, TEST_PATIENCE_NS));
    loop_for(loop, 50 * NS_PER_MS); /* the reply to the first look comes through */
    relay_swallow(relay, true);
    wait_reply("LLEN queue:a", "1");
    relay_cut(relay);
    relay_swallow(relay, false);
    calls = queue_probe_scripts(server);
    assert_true(loop_until(loop, has_asked_again, &calls, TEST_PATIENCE_NS));
    all_have_tried();
    assert_reply(server, "1", "LLEN queue:a");
    assert_noted("one", tick);
}

/* It dies before it has asked, between the question and the push, or when it has pushed, which it may not know. */
TEST(a_worker_that_dies_between_leaves_it_to_the_others)
{
    int64_t tick = tick_in(0, 40) - 60;
    other_start();
    for (int64_t round = 0; round < 12; round++) {
        note("one", tick - 60);
        free(redis_server_command(server, "DEL queue:a"));
        queue_probe_wait_up(&other);
        work(0, &other);
        loop_for(loop, 2 * round * NS_PER_MS);
        if (round % 4 == 3)
            wait_reply("LLEN queue:a", "1");
        relay_swallow(relay, true);
        loop_for(loop, 5 * NS_PER_MS);
        periodic_destroy(workers[0]);
        workers[0] = NULL;
        relay_cut(relay);
        relay_swallow(relay, false);
        work(1, &probe);
        wait_reply("LLEN queue:a", "1");
        all_have_tried();
        assert_reply(server, "1", "LLEN queue:a");
        assert_noted("one", tick);
        periodic_destroy(workers[1]);
        workers[1] = NULL;
    }
}

TEST(a_foreign_value_swallows_no_tick)
{
    int64_t tick = tick_in(0, 40) - 60;
    note("one", tick - 60);
    entries[1].queue = "b";
    note("two", tick_in(1, 40) - 120);
    config.periodic_count = 2;
    free(redis_server_command(server, "SET queue:a foreign"));
    work(0, &probe);
    wait_reply("LLEN queue:b", "1");
    unsigned calls = queue_probe_scripts(server);
    assert_true(loop_until(loop, has_asked_again, &calls, TEST_PATIENCE_NS));
    assert_noted("one", tick - 60);
    assert_in_range(queue_probe_scripts(server), 1, 50);
    free(redis_server_command(server, "DEL queue:a"));
    wait_reply("LLEN queue:a", "1");
    assert_noted("one", tick);
}

TEST(who_is_paused_pushes_nothing)
{
    int64_t tick = tick_in(0, 40) - 60;
    note("one", tick - 60);
    work(0, &probe);
    periodic_pause(workers[0], true);
    loop_for(loop, 200 * NS_PER_MS);
    assert_reply(server, "0", "EXISTS queue:a");
    periodic_pause(workers[0], false);
    wait_reply("LLEN queue:a", "1");
    loop_for(loop, 50 * NS_PER_MS); /* the answer comes through */
    periodic_pause(workers[0], true);
    periodic_pause(workers[0], false);
    loop_for(loop, 200 * NS_PER_MS);
    assert_reply(server, "1", "LLEN queue:a");
}

TEST(it_goes_on_when_the_node_lost_everything)
{
    int64_t tick = tick_in(0, 4);
    work(0, &probe);
    wait_reply("HLEN hf:2:periodic", "1");
    redis_server_restart(server);
    wait_reply("LLEN queue:a", "1");
    assert_noted("one", tick);
}

/* --- the script ------------------------------------------------------------------------------------------------- */

static void assert_answer(const char *what, int64_t tick, int64_t noted)
{
    char *reply = redis_server_command(server, "EVALSHA %s 3 hf:2:periodic queues queue:a one a %lld 100 task",
                                       queue_script_tick.sha1, (long long)tick);
    char *rest = NULL, *found = strtok_r(reply, "\n", &rest);
    assert_string_equal(found, what);
    assert_in_range(strtoll(strtok_r(NULL, "\n", &rest), NULL, 10), tick - 60, tick + 300);
    assert_in_range(strtoll(strtok_r(NULL, "\n", &rest), NULL, 10), 0, 999999);
    assert_int_equal(strtoll(strtok_r(NULL, "\n", &rest), NULL, 10), noted);
    free(reply);
}

TEST(the_node_decides_by_its_own_clock)
{
    int64_t now = node_seconds();
    assert_answer("-1", now + 60, 0);
    assert_answer("-2", now - 200, 0);
    assert_reply(server, "0", "EXISTS queue:a hf:2:periodic queues");
    assert_answer("1", now - 50, now - 50);
    assert_answer("0", now - 50, now - 50);
    assert_answer("0", now - 80, now - 50);
    assert_answer("1", now - 40, now - 40);
    assert_reply(server, "task\ntask", "LRANGE queue:a 0 -1");
    note_both("one", now - 10, now - 5);
    assert_answer("0", now - 10, now - 5);
    free(redis_server_command(server, "HSET hf:2:periodic one rubbish"));
    assert_answer("1", now, now);
}

TEST(nothing_is_noted_that_is_not_pushed)
{
    int64_t now = node_seconds();
    free(redis_server_command(server, "SET queue:a foreign"));
    char *reply = redis_server_command(server, "EVALSHA %s 3 hf:2:periodic queues queue:a one a %lld 100 task",
                                       queue_script_tick.sha1, (long long)now);
    assert_contains(reply, "WRONGTYPE");
    free(reply);
    assert_reply(server, "0", "EXISTS hf:2:periodic");
    free(redis_server_command(server, "DEL queue:a"));
    free(redis_server_command(server, "SET queues foreign")); /* harms nobody */
    assert_answer("1", now, now);
    free(redis_server_command(server, "DEL queue:a queues hf:2:periodic"));
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    reply = redis_server_command(server, "EVALSHA %s 3 hf:2:periodic queues queue:a one a %lld 100 task",
                                 queue_script_tick.sha1, (long long)now);
    assert_contains(reply, "OOM");
    free(reply);
    free(redis_server_command(server, "CONFIG SET maxmemory 0"));
    assert_reply(server, "0", "EXISTS hf:2:periodic queue:a");
}

RUN_GROUP(one_server_set_up, one_server_tear_down, setup, teardown)
