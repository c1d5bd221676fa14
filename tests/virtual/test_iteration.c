/* Progress and cancellation of one task in `it-JID`: what dashboards read, what the next run gets, and that repeated
 * and late calls do no harm. */
#include "tests/support/presence_fixture.h"

#include "queue/iteration.h"
#include "queue/scripts.h"

struct run_probe {
    struct iteration *iteration;
    unsigned begins, looks, cancels;
    bool was_cancelled;
    char cursor[64];    /* "-" = none */
    const char *report; /* saved at each look */
};

static struct run_probe probe;

static void began(void *context, bool cancelled, const char *cursor, size_t length)
{
    struct run_probe *at = context;
    at->begins++;
    at->was_cancelled = cancelled;
    snprintf(at->cursor, sizeof at->cursor, "%.*s", cursor != NULL ? (int)length : 1, cursor != NULL ? cursor : "-");
}

static void look(void *context)
{
    struct run_probe *at = context;
    at->looks++;
    if (at->report != NULL)
        iteration_save(at->iteration, at->report, strlen(at->report));
}

static void cancelled(void *context)
{
    ((struct run_probe *)context)->cancels++;
}

static int setup(void **state)
{
    (void)state;
    presence_setup();
    probe = (struct run_probe){.iteration = NULL};
    probe.iteration = iteration_create(loop, &(struct iteration_options){.node = node,
                                                                         .keys = &keys,
                                                                         .timeout_ns = 100 * NS_PER_MS,
                                                                         .interval_ns = 20 * NS_PER_MS,
                                                                         .began = began,
                                                                         .look = look,
                                                                         .cancelled = cancelled,
                                                                         .context = &probe});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    iteration_destroy(probe.iteration);
    presence_teardown();
    return 0;
}

static bool has_begun(void *begins)
{
    return probe.begins >= *(const unsigned *)begins;
}

static void begin(const char *jid)
{
    unsigned begins = probe.begins + 1;
    assert_false(iteration_begin(probe.iteration, jid, false));
    assert_true(loop_until(loop, has_begun, &begins, TEST_PATIENCE_NS));
}

static bool is_idle(void *context)
{
    (void)context;
    return !iteration_is_busy(probe.iteration);
}

static void end(bool is_done)
{
    iteration_end(probe.iteration, is_done);
    assert_true(loop_until(loop, is_idle, NULL, TEST_PATIENCE_NS));
}

static void save(const char *json)
{
    iteration_save(probe.iteration, json, strlen(json));
}

/* 1.12: ex, c and rt together, before the task runs. */
TEST(a_run_begins_with_all_that_dashboards_read)
{
    begin("j1");
    assert_false(probe.was_cancelled);
    assert_string_equal(probe.cursor, "-");
    assert_reply(server, "hash", "TYPE it-j1");
    assert_reply(server, "1\nnull\n0.0", "HMGET it-j1 ex c rt");
    assert_between(2592000 - 60, 2592000, "TTL it-j1");
}

TEST(progress_is_written_while_it_runs)
{
    begin("j1");
    probe.report = "{\"done\":40,\"total\":100}";
    wait_reply("{\"done\":40,\"total\":100}", "HGET it-j1 c");
    probe.report = "{\"done\":41,\"total\":100}";
    wait_reply("{\"done\":41,\"total\":100}", "HGET it-j1 c");
    assert_reply(server, "1", "HGET it-j1 ex");
    char *seconds = redis_server_command(server, "HGET it-j1 rt");
    assert_true(strtod(seconds, NULL) > 0 && strtod(seconds, NULL) < 60);
    free(seconds);
}

TEST(the_next_run_goes_on_where_the_last_stopped)
{
    begin("j1");
    save("[1,2]");
    end(false);
    assert_reply(server, "[1,2]", "HGET it-j1 c");
    free(redis_server_command(server, "HSET it-j1 rt 7.5"));
    free(redis_server_command(server, "EXPIRE it-j1 1000"));
    begin("j1");
    assert_string_equal(probe.cursor, "[1,2]");
    end(false);
    assert_reply(server, "2\n[1,2]", "HMGET it-j1 ex c");
    char *seconds = redis_server_command(server, "HGET it-j1 rt");
    assert_true(strtod(seconds, NULL) >= 7.5 && strtod(seconds, NULL) < 60);
    free(seconds);
    assert_between(900, 1000, "TTL it-j1"); /* 30 days from the first run */
}

TEST(a_task_that_is_done_leaves_nothing)
{
    begin("j1");
    save("[1,2]");
    end(true);
    assert_reply(server, "0", "EXISTS it-j1");
}

TEST(one_slot_runs_one_task_after_the_other)
{
    begin("j1");
    save("1");
    iteration_end(probe.iteration, false);
    begin("j2"); /* waits for the end of the first */
    assert_string_equal(probe.cursor, "-");
    end(false);
    assert_reply(server, "1\n1", "HMGET it-j1 ex c");
    assert_reply(server, "1\nnull", "HMGET it-j2 ex c");
}

TEST(a_run_that_is_called_off_before_it_begins_leaves_what_was_reached)
{
    free(redis_server_command(server, "HSET it-j1 ex 1 c null rt 100"));
    free(redis_server_command(server, "HSET it-j2 ex 1 c 7 rt 2.5"));
    begin("j1");
    end(false);
    assert_false(iteration_begin(probe.iteration, "j2", false));
    iteration_end(probe.iteration, false);
    begin("j3"); /* behind all that was sent for the second */
    assert_reply(server, "2\n7\n2.5", "HMGET it-j2 ex c rt");
    end(false);
}

/* --- runs before which nothing was left --------------------------------------------------------------------------- */

static bool is_cancelled(void *context)
{
    (void)context;
    return probe.cancels > 0;
}

TEST(a_new_run_starts_at_once_and_is_shown)
{
    assert_true(iteration_begin(probe.iteration, "j1", true));
    wait_reply("1\nnull\n0.0", "HMGET it-j1 ex c rt");
    probe.report = "[1]";
    wait_reply("[1]", "HGET it-j1 c");
    end(true);
    assert_reply(server, "0", "EXISTS it-j1");
    assert_int_equal(probe.begins, 0);
}

TEST(a_new_run_that_ends_at_once_keeps_what_it_reached)
{
    assert_true(iteration_begin(probe.iteration, "j1", true));
    save("[1]");
    end(false);
    assert_reply(server, "1\n[1]", "HMGET it-j1 ex c");
    assert_true(iteration_begin(probe.iteration, "j2", true));
    end(true);
    assert_reply(server, "0", "EXISTS it-j2");
}

TEST(a_new_run_learns_that_it_was_cancelled_meanwhile)
{
    free(redis_server_command(server, "HSET it-j1 cancelled 1795194349"));
    assert_true(iteration_begin(probe.iteration, "j1", true));
    assert_true(loop_until(loop, is_cancelled, NULL, TEST_PATIENCE_NS));
    assert_int_equal(probe.begins + probe.looks, 0);
}

TEST(a_new_run_waits_for_the_end_of_the_one_before)
{
    begin("j1");
    save("1");
    iteration_end(probe.iteration, false);
    assert_false(iteration_begin(probe.iteration, "j2", true));
    unsigned twice = 2;
    assert_true(loop_until(loop, has_begun, &twice, TEST_PATIENCE_NS));
    assert_reply(server, "1", "HGET it-j1 c");
    assert_reply(server, "1", "HGET it-j2 ex");
}

/* --- trouble ------------------------------------------------------------------------------------------------------ */

TEST(a_begin_whose_reply_was_lost_counts_once)
{
    relay_swallow(relay, true);
    assert_false(iteration_begin(probe.iteration, "j1", false));
    wait_reply("1", "HGET it-j1 ex");
    relay_cut(relay);
    relay_swallow(relay, false);
    unsigned once = 1;
    assert_true(loop_until(loop, has_begun, &once, TEST_PATIENCE_NS));
    end(false);
    assert_reply(server, "1", "HGET it-j1 ex");
    assert_int_equal(probe.begins, 1);
}

TEST(an_end_is_written_when_the_node_is_back)
{
    begin("j1");
    save("5");
    relay_cut(relay);
    loop_for(loop, 2 * NS_PER_MS);
    end(false);
    assert_reply(server, "5", "HGET it-j1 c");
}

TEST(a_new_run_whose_begin_was_lost_keeps_what_it_reached)
{
    begin("j0");
    end(true);
    relay_cut(relay);
    assert_true(iteration_begin(probe.iteration, "j1", true));
    save("[1]");
    end(false);
    assert_reply(server, "1\n[1]", "HMGET it-j1 ex c");
    assert_between(2592000 - 60, 2592000, "TTL it-j1");
    begin("j1");
    assert_string_equal(probe.cursor, "[1]");
}

TEST(a_new_run_that_was_cancelled_before_its_begin_was_lost_keeps_what_it_reached)
{
    begin("j0");
    end(true);
    relay_cut(relay);
    assert_true(iteration_begin(probe.iteration, "j1", true));
    free(redis_server_command(server, "HSET it-j1 cancelled 1795194349 ex 0 c null rt 0.0")); /* as cancel.lua does */
    save("[1]");
    end(false);
    assert_reply(server, "1\n[1]", "HMGET it-j1 ex c");
    assert_reply(server, "1", "HEXISTS it-j1 cancelled");
    free(redis_server_command(server, "HSET it-j2 ex 3 c 7 rt 2.5"));
    relay_cut(relay);
    assert_true(iteration_begin(probe.iteration, "j2", true));
    save("[1]");
    end(false); /* another program's is not ours to begin */
    assert_reply(server, "3\n7\n2.5", "HMGET it-j2 ex c rt");
}

static void begin_again(const char *run)
{
    free(redis_server_command(server, "EVALSHA %s 1 it-j1 %s", queue_script_iteration_begin.sha1, run));
}

TEST(a_begin_that_comes_after_the_end_leaves_nothing_for_long)
{
    begin("j0");
    end(true);
    relay_cut(relay);
    assert_true(iteration_begin(probe.iteration, "j1", true));
    end(true);
    char *run = redis_server_command(server, "HGET it-j1 run");
    begin_again(run);
    assert_reply(server, "1", "HLEN it-j1");
    assert_between(1, 60, "TTL it-j1");
    begin("j1");
    assert_reply(server, "1\nnull\n0.0", "HMGET it-j1 ex c rt");
    assert_between(2592000 - 60, 2592000, "TTL it-j1");
    end(true);
    assert_reply(server, "0", "EXISTS it-j1");
    free(run);
}

/* The first is due after a second, and then they are twice as far apart each time, up to 5 s. */
TEST(the_first_progress_is_written_soon)
{
    static const unsigned looks_by_second[] = {0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4};
    struct run_probe first = probe;
    probe.iteration = iteration_create(loop, &(struct iteration_options){.node = node,
                                                                         .keys = &keys,
                                                                         .timeout_ns = NS_PER_S,
                                                                         .began = began,
                                                                         .look = look,
                                                                         .cancelled = cancelled,
                                                                         .context = &probe});
    begin("j1");
    loop_for(loop, 500 * NS_PER_MS);
    for (size_t second = 0; second < sizeof looks_by_second / sizeof looks_by_second[0]; second++) {
        assert_int_equal(probe.looks, looks_by_second[second]);
        loop_for(loop, NS_PER_S);
    }
    end(true);
    iteration_destroy(probe.iteration);
    probe.iteration = first.iteration;
}

/* A process that was thought dead writes into what its successor began. */
TEST(a_run_that_was_taken_over_writes_nothing)
{
    begin("j1");
    save("1");
    struct run_probe first = probe;
    probe.iteration = iteration_create(loop, &(struct iteration_options){.node = node,
                                                                         .keys = &keys,
                                                                         .timeout_ns = NS_PER_S,
                                                                         .interval_ns = NS_PER_S,
                                                                         .began = began,
                                                                         .look = look,
                                                                         .cancelled = cancelled,
                                                                         .context = &probe});
    begin("j1");
    save("2");
    iteration_end(first.iteration, true);
    while (iteration_is_busy(first.iteration))
        loop_for(loop, NS_PER_MS);
    assert_reply(server, "1", "EXISTS it-j1");
    end(false);
    assert_reply(server, "2\n2", "HMGET it-j1 ex c");
    iteration_destroy(first.iteration);
}

TEST(foreign_state_is_no_obstacle)
{
    free(redis_server_command(server, "SET it-j1 x"));
    begin("j1");
    assert_string_equal(probe.cursor, "-");
    end(true);
    assert_reply(server, "x", "GET it-j1");
    free(redis_server_command(server, "HSET it-j2 c '{oops' rt many ex some"));
    begin("j2");
    assert_string_equal(probe.cursor, "-");
    end(false);
    assert_reply(server, "1", "HGET it-j2 ex");
}

TEST(progress_is_written_on_a_node_that_is_out_of_memory)
{
    free(redis_server_command(server, "CONFIG SET maxmemory 1"));
    begin("j1");
    save("3");
    end(false);
    assert_reply(server, "1\n3", "HMGET it-j1 ex c");
}

/* --- cancelling --------------------------------------------------------------------------------------------------- */

static bool is_marked;

static void marked(struct redis_call *call, const struct redis_result *result)
{
    (void)call;
    assert_int_equal(result->outcome, REDIS_VALUE);
    assert_true(result->reply->kind == REDIS_INTEGER && result->reply->integer > 1500000000);
    is_marked = true;
}

static bool was_marked(void *context)
{
    (void)context;
    return is_marked;
}

static void cancel(const char *jid)
{
    struct redis_call call = {.done = marked};
    struct buffer request = {0};
    is_marked = false;
    iteration_request_cancel(&keys, jid, &request);
    assert_true(redis_node_call(node, &request, instant_after(loop_now(loop), TEST_PATIENCE_NS), &call));
    assert_true(loop_until(loop, was_marked, NULL, TEST_PATIENCE_NS));
    buffer_fini(&request);
}

TEST(a_running_task_learns_of_its_cancellation)
{
    begin("j1");
    free(redis_server_command(server, "HSETNX it-j1 cancelled 1795194349")); /* as a dashboard does */
    assert_true(loop_until(loop, is_cancelled, NULL, TEST_PATIENCE_NS));
}

/* 1.12, the trap: a hash that holds `cancelled` alone breaks dashboards. */
TEST(cancelling_writes_all_that_dashboards_read)
{
    cancel("j1");
    assert_reply(server, "0\nnull\n0.0", "HMGET it-j1 ex c rt");
    assert_between(2592000 - 60, 2592000, "TTL it-j1");
    begin("j1");
    assert_true(probe.was_cancelled);
    assert_reply(server, "1\nnull\n0.0", "HMGET it-j1 ex c rt");
}

TEST(cancelling_keeps_what_was_reached_and_the_first_time)
{
    begin("j1");
    save("7");
    end(false);
    free(redis_server_command(server, "HSET it-j1 cancelled 1795194349"));
    cancel("j1");
    assert_reply(server, "1\n7\n1795194349", "HMGET it-j1 ex c cancelled");
}

TEST(the_list_of_cancelled_tasks_is_bounded)
{
    free(redis_server_command(server, "ZADD hf:2:cancels 1 old"));
    cancel("j1");
    assert_reply(server, "j1", "ZRANGE hf:2:cancels 0 -1");
    assert_reply(server, "1", "PERSIST hf:2:cancels"); /* it would have gone by itself */
    free(redis_server_command(server, "EVAL \"local now = redis.call('TIME')[1] for i = 1, 10100 do "
                                      "redis.call('ZADD', KEYS[1], now, 't' .. i) end\" 1 hf:2:cancels"));
    cancel("j2");
    assert_reply(server, "10000", "ZCARD hf:2:cancels");
    assert_reply(server, "9999", "ZRANK hf:2:cancels j2");
}

RUN_GROUP(one_server_set_up, one_server_tear_down, setup, teardown)
