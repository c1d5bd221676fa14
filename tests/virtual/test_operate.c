/* The scripts of operators: what they refuse, what they leave where it is, and that repeating them changes nothing. */
#include "tests/support/admin_fixture.h"

#include "base/log.h"
#include "queue/operate.h"
#include "queue/scripts.h"
#include "worker/nodes/node_client.h"

static char none[] = "", local[] = "127.0.0.1", name[] = "queue";
static struct config_node node;
static struct node_client *client;
static struct queue_keys keys;

static int set_up(void **state)
{
    (void)state;
    log_set_level(LOG_NOTHING);
    redis_server_heal(server);
    node = (struct config_node){.name = name,
                                .host = local,
                                .port = redis_server_port(server),
                                .unix_path = none,
                                .user = none,
                                .connect_timeout_ns = 5 * NS_PER_S};
    client = node_client_open(
        &(struct node_client_options){.node = &node, .scripts = queue_scripts, .script_count = QUEUE_SCRIPT_COUNT},
        NULL);
    queue_keys_init(&keys, "", "");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    node_client_close(client);
    queue_keys_fini(&keys);
    return 0;
}

#define SPAN(text)                                                                                                     \
    (struct text_span)                                                                                                 \
    {                                                                                                                  \
        (text), sizeof(text) - 1                                                                                       \
    }

static long long trimmed; /* what the last move said of `dead` */

/* Moves and returns the answers as "1 0 -1". */
static const char *move(const char *id, enum operate_verb verb, const struct operate_state *place,
                        const struct operate_entry *entries, size_t count)
{
    static char text[256];
    node_client_begin(client);
    operate_move(&keys, id, verb, place, entries, count, node_client_compose(client));
    assert_true(node_client_run(client));
    const struct redis_reply *reply = node_client_reply(client, 0);
    text[0] = '\0';
    if (reply->kind == REDIS_FAILURE)
        return reply->bytes;
    assert_int_equal(reply->count, count + 1);
    trimmed = reply->elements[count].integer;
    for (size_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), i > 0 ? " %lld" : "%lld", reply->elements[i].integer);
    return text;
}

TEST(a_repeated_call_answers_the_same_and_moves_nothing_twice)
{
    const struct operate_state retry = {.kind = OPERATE_SET, .key = "retry"};
    const struct operate_entry entries[] = {
        {.seen = SPAN("old1"), .fresh = SPAN("new1"), .queue = "a"},
        {.seen = SPAN("gone"), .fresh = SPAN("newg"), .queue = "a"},
        {.seen = SPAN("old2"), .fresh = SPAN("new2"), .queue = "b"},
    };
    given("ZADD retry 1 old1 1 old2 1 kept");
    assert_string_equal(move("id1", OPERATE_RETRY, &retry, entries, 3), "1 0 1");
    given("ZADD retry 1 old1"); /* it came back: the repetition must not take it */
    assert_string_equal(move("id1", OPERATE_RETRY, &retry, entries, 3), "1 0 1");
    assert_reply(server, "new1", "LRANGE queue:a 0 -1");
    assert_reply(server, "new2", "LRANGE queue:b 0 -1");
    assert_reply(server, "kept\nold1", "ZRANGE retry 0 -1");
    assert_reply(server, "a\nb", "SORT queues ALPHA");
    assert_in_range(queue_probe_number(server, "TTL hf:2:receipt:id1"), 590, 600);
    assert_string_equal(move("id2", OPERATE_RETRY, &retry, entries, 1), "1");
}

TEST(a_target_of_a_foreign_type_keeps_the_task_where_it_is)
{
    const struct operate_state retry = {.kind = OPERATE_SET, .key = "retry"};
    const struct operate_entry entries[] = {
        {.seen = SPAN("one"), .fresh = SPAN("one"), .queue = "clash"},
        {.seen = SPAN("two"), .fresh = SPAN("two"), .queue = "fine"},
    };
    given("ZADD retry 1 one 2 two");
    given("MSET queue:clash x dead y");
    assert_string_equal(move("i", OPERATE_RETRY, &retry, entries, 2), "-1 1");
    assert_string_equal(move("j", OPERATE_BURY, &retry, entries, 1), "-1");
    assert_reply(server, "one", "ZRANGE retry 0 -1");
    assert_reply(server, "two", "LRANGE queue:fine 0 -1");
    given("DEL retry");
    given("SET retry z");
    assert_contains(move("k", OPERATE_DELETE, &retry, entries, 1), "WRONGTYPE");
}

TEST(who_is_buried_takes_no_others_place)
{
    const struct operate_state retry = {.kind = OPERATE_SET, .key = "retry"};
    const struct operate_entry entry = {.seen = SPAN("one"), .fresh = SPAN("same")};
    given("ZADD dead 9999999999 same");
    given("ZADD retry 1 one");
    assert_string_equal(move("i", OPERATE_BURY, &retry, &entry, 1), "1");
    assert_reply(server, "2", "ZCARD dead");
}

TEST(claims_of_the_living_are_refused)
{
    const struct operate_state claims = {.kind = OPERATE_CLAIMS, .key = "hf:2:process:h:1:a", .lease_of = "h:1:a"};
    const struct operate_entry entry = {
        .seen = SPAN("0123456789abcdefq\ntask"), .fresh = SPAN("task"), .queue = "q", .field = "3"};
    given("HSET hf:2:process:h:1:a 3 \"0123456789abcdefq\\ntask\" 4 \"0123456789abcdefq\\ntask\"");
    given("LPUSH queue:q younger");
    given_lease("h:1:a", 60);
    assert_string_equal(move("i", OPERATE_RETRY, &claims, &entry, 1), "-2");
    assert_reply(server, "2", "HLEN hf:2:process:h:1:a");
    given_lease("h:1:a", -1);
    given("HSET hf:2:process:h:1:a 3 \"abcdefghijklmnopq\\ntask\""); /* claimed anew */
    assert_string_equal(move("j", OPERATE_RETRY, &claims, &entry, 1), "0");
    given("HSET hf:2:process:h:1:a 3 \"0123456789abcdefq\\ntask\"");
    assert_string_equal(move("k", OPERATE_RETRY, &claims, &entry, 1), "1");
    assert_string_equal(move("k", OPERATE_RETRY, &claims, &entry, 1), "1");
    assert_reply(server, "younger\ntask", "LRANGE queue:q 0 -1"); /* the next to run */
    assert_reply(server, "4", "HKEYS hf:2:process:h:1:a");
}

TEST(only_the_part_of_a_list_that_was_asked_for_is_looked_through)
{
    struct operate_state list = {.kind = OPERATE_LIST, .key = "queue:q", .list_look = 3};
    const struct operate_entry entry = {.seen = SPAN("b")};
    given("RPUSH queue:q b x b a y z");
    assert_string_equal(move("i", OPERATE_DELETE, &list, &entry, 1), "0");
    list.list_look = 4;
    assert_string_equal(move("j", OPERATE_DELETE, &list, &entry, 1), "1");
    assert_reply(server, "b\nx\na\ny\nz", "LRANGE queue:q 0 -1");
}

TEST(what_is_buried_or_deleted_frees_what_it_held)
{
    const struct operate_state retry = {.kind = OPERATE_SET, .key = "retry"};
    const struct operate_entry entries[] = {
        {.seen = SPAN("one"), .fresh = SPAN("one"), .unique = "d1", .jid = "j1"},
        {.seen = SPAN("two"), .fresh = SPAN("two"), .unique = "d2", .jid = "j2"},
    };
    given("MSET hf:2:unique:d1 j1 hf:2:unique:d2 other");
    given("ZADD retry 1 one 2 two");
    assert_string_equal(move("i", OPERATE_DELETE, &retry, entries, 2), "1 1");
    assert_reply(server, "(nil)\nother", "MGET hf:2:unique:d1 hf:2:unique:d2");
    given("SET hf:2:unique:d1 j1");
    given("ZADD retry 1 one");
    assert_string_equal(move("j", OPERATE_BURY, &retry, entries, 1), "1");
    assert_reply(server, "0", "EXISTS hf:2:unique:d1");
}

TEST(the_dead_are_trimmed_and_have_scores_of_their_own)
{
    const struct operate_state retry = {.kind = OPERATE_SET, .key = "retry"};
    const struct operate_entry entries[] = {
        {.seen = SPAN("one"), .fresh = SPAN("one")},
        {.seen = SPAN("two"), .fresh = SPAN("two")},
    };
    given("ZADD dead 1000 ancient");
    given("EVAL \"local now = redis.call('TIME')[1] for i = 1, 10000 do redis.call('ZADD', 'dead', now - 100, i) end\" "
          "0");
    given("ZADD retry 1 one 2 two");
    assert_string_equal(move("i", OPERATE_BURY, &retry, entries, 2), "1 1");
    assert_reply(server, "9999", "ZCARD dead");
    assert_int_equal(trimmed, 4); /* of 10,003 */
    assert_reply(server, "(nil)", "ZSCORE dead ancient");
    assert_reply(server, "1",
                 "EVAL \"return redis.call('ZSCORE', 'dead', 'two') ~= redis.call('ZSCORE', 'dead', 'one') "
                 "and 1\" 0");
}

TEST(a_node_without_memory_still_gets_rid_of_things)
{
    const struct operate_state retry = {.kind = OPERATE_SET, .key = "retry"};
    const struct operate_entry entries[] = {
        {.seen = SPAN("one"), .fresh = SPAN("one"), .queue = "q"},
        {.seen = SPAN("two"), .fresh = SPAN("two"), .queue = "q"},
    };
    given("ZADD retry 1 one 2 two");
    node_client_begin(client);
    node_client_ask(client, "PING", NULL);
    assert_true(node_client_run(client)); /* the scripts are loaded */
    given("CONFIG SET maxmemory 1");
    assert_string_equal(move("i", OPERATE_DELETE, &retry, entries, 1), "1");
    assert_string_equal(move("j", OPERATE_RETRY, &retry, entries + 1, 1), "1");
    given("CONFIG SET maxmemory 0");
    assert_reply(server, "two", "LRANGE queue:q 0 -1");
}

TEST(a_dropped_queue_answers_the_same_again)
{
    given("RPUSH queue:q a b c");
    given("SADD queues q r");
    given("SADD paused q");
    for (int i = 0; i < 2; i++) {
        node_client_begin(client);
        operate_drop(&keys, "i", "q", node_client_compose(client));
        assert_true(node_client_run(client));
        assert_int_equal(node_client_integer(client, 0, -9), 3);
        given("RPUSH queue:q new");
    }
    assert_reply(server, "new\nnew", "LRANGE queue:q 0 -1");
    assert_reply(server, "a\nb\nc", "LRANGE hf:2:dropped:i 0 -1");
    assert_in_range(queue_probe_number(server, "TTL hf:2:dropped:i"), 590, 600);
    assert_in_range(queue_probe_number(server, "TTL hf:2:receipt:i"), 590, 600);
    assert_reply(server, "r", "SMEMBERS queues");
    assert_reply(server, "0", "EXISTS paused");
}

static long long run_integer(void)
{
    assert_true(node_client_run(client));
    return node_client_integer(client, 0, -9);
}

/* All who live are called, some of whom may not listen; those who were recovered are not. */
TEST(pauses_and_resumptions_are_told_to_the_living)
{
    char one[] = "a", two[] = "b";
    char *const names[] = {one, two};
    given("ZADD hf:2:processes 9e9 here 9e9 deaf 9e9 recovered 1 dead");
    given("HSET hf:2:process:recovered gone 1");
    given("EVAL \"for i = 1, 300 do redis.call('LPUSH', KEYS[1], i) end\" 1 hf:2:calls:deaf");
    for (int i = 0; i < 2; i++) {
        node_client_begin(client);
        operate_pause(&keys, true, names, 2, node_client_compose(client));
        assert_int_equal(run_integer(), 2);
        assert_reply(server, "a\nb", "SORT paused ALPHA");
    }
    assert_reply(server, "LOOK\nLOOK", "LRANGE hf:2:calls:here 0 -1");
    assert_reply(server, "100", "LLEN hf:2:calls:deaf");
    assert_reply(server, "LOOK", "LINDEX hf:2:calls:deaf 0");
    assert_reply(server, "1",
                 "EVAL \"local left = redis.call('TTL', 'hf:2:calls:deaf') return left > 50 and left <= 60 "
                 "and 1\" 0");
    assert_reply(server, "0", "EXISTS hf:2:calls:recovered hf:2:calls:dead");
    node_client_begin(client);
    operate_pause(&keys, false, names, 1, node_client_compose(client));
    assert_int_equal(run_integer(), 2);
    assert_reply(server, "b", "SMEMBERS paused");
    assert_reply(server, "3", "LLEN hf:2:calls:here");
}

TEST(keys_of_deleted_tasks_are_freed_unless_others_have_them)
{
    const struct operate_unique items[] = {{"d1", "mine"}, {"d2", "mine"}, {"d3", "mine"}, {"d4", "mine"}};
    given("MSET hf:2:unique:d1 mine hf:2:unique:d2 theirs hf:2:unique:d4 mine");
    for (int i = 0; i < 2; i++) {
        node_client_begin(client);
        operate_free(&keys, items, 4, node_client_compose(client));
        assert_int_equal(run_integer(), i == 0 ? 2 : 0);
    }
    assert_reply(server, "hf:2:unique:d2", "KEYS hf:2:unique:*");
}

TEST(each_call_has_an_id_of_its_own)
{
    char one[OPERATE_ID_SIZE], other[OPERATE_ID_SIZE];
    operate_new_id(one);
    operate_new_id(other);
    assert_int_equal(strlen(one), OPERATE_ID_SIZE - 1);
    assert_int_equal(strspn(one, "0123456789abcdef"), OPERATE_ID_SIZE - 1);
    assert_string_not_equal(one, other);
}

RUN_GROUP(one_server_set_up, one_server_tear_down, set_up, tear_down)
