/* Where the hosts of a dry run meet: what guests bring arrives once and in order, whatever is repeated. These
 * are the scripts dry_coordinate and dry_join; who is killed between two calls of them is in test_dry_run_hosts.c. */
#include "tests/support/test.h"

#include <stdio.h>

#include "queue/dry_runs.h"
#include "tests/support/loop_until.h"
#include "tests/support/one_server.h"
#include "tests/support/queue_probe.h"

enum { WAITING_MAX = 3 };

#define SPACE "hf:2:dry:00112233aabb:"

static struct loop *loop;
static struct redis_node *node;
static struct buffer seen; /* what the host was told, a line each */

struct question {
    struct redis_call call;
    bool is_answered;
    bool is_understood;
    int64_t node_us;
    struct coordinator_answer answer; /* to the host */
    uint64_t left;                    /* to a guest */
    char state[64];
};

static void guest_seen(void *context, const char *name, struct text_span beat)
{
    (void)context;
    buffer_format(&seen, "guest %s %.*s\n", name, (int)beat.length, beat.bytes);
}

static void records_seen(void *context, const char *guest, struct text_span bytes)
{
    (void)context;
    buffer_format(&seen, "records %s %.*s\n", guest, (int)bytes.length, bytes.bytes);
}

static void host_answered(struct redis_call *call, const struct redis_result *result)
{
    struct question *question = list_owner(call, struct question, call);
    question->is_answered = true;
    question->is_understood =
        result->outcome == REDIS_VALUE &&
        coordinator_read(result->reply, &(struct coordinator_handler){.host = guest_seen, .records = records_seen},
                         &question->answer);
}

static void guest_answered(struct redis_call *call, const struct redis_result *result)
{
    struct question *question = list_owner(call, struct question, call);
    struct text_span state;
    question->is_answered = true;
    question->is_understood =
        result->outcome == REDIS_VALUE && remote_host_read(result->reply, &state, &question->left, &question->node_us);
    assert_true(!question->is_understood || state.bytes != NULL || state.length == 0);
    if (question->is_understood)
        snprintf(question->state, sizeof question->state, "%.*s", (int)state.length,
                 state.bytes != NULL ? state.bytes : "");
}

static bool is_answered(void *context)
{
    return ((struct question *)context)->is_answered;
}

static bool is_up(void *context)
{
    (void)context;
    return redis_node_state(node) == REDIS_NODE_UP;
}

static void ask(struct question *question, const struct buffer *request)
{
    question->is_answered = false;
    assert_true(loop_until(loop, is_up, NULL, 10 * NS_PER_S));
    assert_true(redis_node_call(node, request, instant_after(instant_now(), 10 * NS_PER_S), &question->call));
    assert_true(loop_until(loop, is_answered, question, 20 * NS_PER_S));
    assert_true(question->is_understood);
}

/* What the host is told by a call that says that it has taken `taken`, which becomes the last. */
static const char *host_brings(const char *run, char taken[HOST_RECORD_ID_MAX], unsigned batches, bool *is_there)
{
    struct question question = {.call.done = host_answered};
    struct buffer request = {0};
    memcpy(question.answer.taken, taken, sizeof question.answer.taken);
    coordinator_request(&request, SPACE, (struct text_span){run, strlen(run)}, "STATE", taken, batches);
    buffer_clear(&seen);
    ask(&question, &request);
    buffer_fini(&request);
    assert_true(question.answer.node_us > 0);
    memcpy(taken, question.answer.taken, sizeof question.answer.taken);
    *is_there = question.answer.is_there;
    return buffer_text(&seen);
}

static const char *host_asks(char taken[HOST_RECORD_ID_MAX], unsigned batches)
{
    bool is_there;
    const char *told = host_brings("RUN", taken, batches, &is_there);
    assert_true(is_there);
    return told;
}

static struct question guest_visits(const char *name, uint64_t number, const char *records)
{
    struct question question = {.call.done = guest_answered};
    struct buffer request = {0};
    remote_host_request(&request, SPACE, name, (struct text_span){"{}", 2}, number,
                        (struct text_span){records, strlen(records)}, WAITING_MAX);
    ask(&question, &request);
    buffer_fini(&request);
    return question;
}

static int set_up(void **state)
{
    (void)state;
    free(redis_server_command(server, "FLUSHALL"));
    loop = loop_create(NULL);
    node = redis_node_create(loop, &(struct redis_node_options){.name = "queue",
                                                                .host = "127.0.0.1",
                                                                .port = redis_server_port(server),
                                                                .scripts = dry_run_host_scripts,
                                                                .script_count = DRY_RUN_HOST_SCRIPTS});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    redis_node_destroy(node);
    loop_destroy(loop);
    buffer_fini(&seen);
    seen = (struct buffer){0};
    return 0;
}

TEST(a_guest_of_no_run_leaves_nothing)
{
    assert_string_equal(guest_visits("south", 1, "abc").state, "");
    assert_int_equal(queue_probe_number(server, "DBSIZE"), 0);
}

TEST(guests_hear_the_run_and_the_host_hears_of_them)
{
    char taken[HOST_RECORD_ID_MAX] = "0";
    assert_string_equal(host_asks(taken, 10), "");
    assert_string_equal(guest_visits("south", 1, "").state, "STATE");
    assert_string_equal(host_asks(taken, 10), "guest south {}\n");
}

TEST(what_is_brought_twice_arrives_once)
{
    char taken[HOST_RECORD_ID_MAX] = "0";
    host_asks(taken, 10);
    guest_visits("south", 1, "first");
    guest_visits("south", 1, "first"); /* its reply was lost */
    guest_visits("south", 2, "second");
    guest_visits("south", 2, "second");
    assert_string_equal(host_asks(taken, 10), "guest south {}\nrecords south first\nrecords south second\n");
}

TEST(what_was_not_taken_is_answered_again)
{
    char taken[HOST_RECORD_ID_MAX] = "0", lost[HOST_RECORD_ID_MAX] = "0";
    host_asks(taken, 10);
    guest_visits("south", 1, "first");
    guest_visits("south", 2, "second");
    assert_non_null(strstr(host_asks(lost, 10), "records south first\nrecords south second\n")); /* a lost reply */
    assert_non_null(strstr(host_asks(taken, 1), "records south first\n"));
    assert_string_equal(host_asks(taken, 1), "guest south {}\nrecords south second\n");
    assert_string_equal(host_asks(taken, 1), "guest south {}\n");
    assert_int_equal(queue_probe_number(server, "XLEN " SPACE "hf:2:meeting:records"), 0);
}

static void assert_run(const char *wanted)
{
    char *run = redis_server_command(server, "GET " SPACE "hf:2:meeting:run");
    assert_string_equal(run, wanted);
    free(run);
}

TEST(the_run_is_written_once_and_again_when_it_is_gone)
{
    char taken[HOST_RECORD_ID_MAX] = "0";
    bool is_there;
    host_brings("", taken, 10, &is_there);
    assert_false(is_there);
    assert_string_equal(guest_visits("south", 1, "").state, "");
    host_brings("RUN", taken, 10, &is_there);
    assert_true(is_there);
    free(redis_server_command(server, "PEXPIRE " SPACE "hf:2:meeting:run 30000"));
    host_brings("", taken, 10, &is_there);
    assert_true(is_there);
    assert_run("RUN");
    assert_true(queue_probe_number(server, "PTTL " SPACE "hf:2:meeting:run") > 30000); /* it was made longer */
    free(redis_server_command(server, "DEL " SPACE "hf:2:meeting:run"));
    host_brings("", taken, 10, &is_there);
    assert_false(is_there);
}

/* A host that leads and stands still is no reason to fill the node up. */
TEST(what_too_many_wait_before_is_kept_by_its_guest)
{
    char taken[HOST_RECORD_ID_MAX] = "0";
    host_asks(taken, 10);
    for (uint64_t number = 1; number <= WAITING_MAX; number++)
        assert_int_equal(guest_visits("south", number, "old").left, number);
    assert_int_equal(guest_visits("south", WAITING_MAX + 1, "new").left, WAITING_MAX);
    assert_int_equal(guest_visits("north", 1, "other").left, 0);
    assert_int_equal(queue_probe_number(server, "XLEN " SPACE "hf:2:meeting:records"), WAITING_MAX);
    host_asks(taken, WAITING_MAX);
    host_asks(taken, WAITING_MAX);
    assert_int_equal(guest_visits("south", WAITING_MAX + 1, "new").left, WAITING_MAX + 1);
    assert_non_null(strstr(host_asks(taken, WAITING_MAX), "records south new\n"));
}

TEST(all_of_it_has_a_time_to_live)
{
    char taken[HOST_RECORD_ID_MAX] = "0";
    host_asks(taken, 10);
    guest_visits("south", 1, "first");
    assert_int_equal(queue_probe_number(server, "DBSIZE"), 3);
    assert_true(queue_probe_number(server, "PTTL " SPACE "hf:2:meeting:run") > 0);
    assert_true(queue_probe_number(server, "PTTL " SPACE "hf:2:meeting:guests") > 0);
    assert_true(queue_probe_number(server, "PTTL " SPACE "hf:2:meeting:records") > 0);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, set_up, tear_down)
