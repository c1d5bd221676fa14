/* What a dry run has on nodes that others use too: that all of it is removed, and that nothing else is touched,
 * byte for byte. These are the scripts dry_lease, dry_ended, dry_take and dry_forget;
 * who is killed while they are at work is in test_cleanup.c and test_dry_run_hosts.c. */
#include "tests/support/name_space_fixture.h"

/* --- the name space ----------------------------------------------------------------------------------------------- */

struct watch {
    unsigned begun, lost, deleted, removed;
    char trouble[512];
    struct removal_end end;
    char troubles[1 + LOCK_NODES][256];
};

static void begun(void *context, const char *trouble, unsigned removed)
{
    struct watch *watch = context;
    watch->begun++;
    watch->removed = removed;
    snprintf(watch->trouble, sizeof watch->trouble, "%s", trouble != NULL ? trouble : "");
}

static void lost(void *context)
{
    ((struct watch *)context)->lost++;
}

static void deleted(void *context, const struct removal_end *end)
{
    struct watch *watch = context;
    watch->deleted++;
    watch->end = *end;
    for (unsigned i = 0; i < end->count; i++)
        snprintf(watch->troubles[i], sizeof watch->troubles[i], "%s", end->nodes[i].trouble);
}

static struct name_space *open_run(struct watch *watch, const struct config *of, const char *run)
{
    *watch = (struct watch){.begun = 0};
    return name_space_open(&(struct name_space_options){.loop = loop,
                                                        .config = of,
                                                        .run = run,
                                                        .host = run,
                                                        .hosts = 1,
                                                        .node_share = 0.5,
                                                        .lost = lost,
                                                        .context = watch});
}

static struct name_space *begin(struct watch *watch)
{
    struct name_space *space = open_run(watch, config, RUN);
    name_space_begin(space, begun);
    loop_await(loop, watch->begun == 1);
    assert_string_equal(watch->trouble, "");
    return space;
}

static void delete_and_close(struct name_space *space, struct watch *watch)
{
    name_space_delete(space, 10 * NS_PER_S, deleted);
    loop_await(loop, watch->deleted == 1);
    name_space_close(space);
}

TEST(the_names_are_those_of_the_run)
{
    struct buffer name = {0};
    char run[DRY_RUNS_ID_DIGITS + 1];
    dry_runs_space(RUN, &name);
    assert_string_equal(buffer_text(&name), "hf:2:dry:" RUN ":");
    buffer_clear(&name);
    name_space_lock_prefix("lock:", RUN, &name);
    assert_string_equal(buffer_text(&name), "lock:dry:" RUN ":");
    buffer_fini(&name);
    assert_true(dry_runs_key_read("hf:2:dry:" RUN ":queue:one", run));
    assert_string_equal(run, RUN);
    assert_false(dry_runs_key_read("hf:2:dry:runs", run));
    assert_false(dry_runs_key_read("hf:2:dry:run:" RUN, run));
    assert_false(dry_runs_key_read("hf:2:dry:" RUN "0:queue:one", run));
    assert_false(dry_runs_id_is_sound("0123456789AB"));
    assert_false(dry_runs_id_is_sound(""));
}

/* More keys than a step of the walk meets. */
TEST(all_of_thousands_of_keys_are_removed)
{
    struct watch watch;
    free(redis_server_command(node_of_queues,
                              "EVAL \"for i = 1, 3000 do local list = 'resource:r' .. i redis.call('ZADD', ARGV[1] .. "
                              "'contended', i, list) redis.call('ZADD', ARGV[1] .. 'waiting:' .. list, 1, 'jid') "
                              "redis.call('HSET', ARGV[1] .. 'waiters:' .. list, 'jid', 'x') end\" 0 hf:2:dry:" RUN
                              ":hf:2:"));
    struct name_space *space = begin(&watch);
    assert_int_equal(keys_like(node_of_queues, "hf:2:dry:" RUN ":*"), 6001);
    delete_and_close(space, &watch);
    assert_true(watch.end.is_clean);
    assert_int_equal(watch.end.nodes[0].deleted, 6001);
    assert_reply(node_of_queues, "0", "DBSIZE");
}

/* The index is what a later run finds leftovers by, so it lasts much longer than a lease. */
TEST(the_record_of_a_run_stays_for_months)
{
    struct watch watch;
    struct name_space *space = begin(&watch);
    assert_in_range(queue_probe_number(node_of_queues, "TTL hf:2:dry:runs"), 89 * 86400, 90 * 86400);
    assert_in_range(queue_probe_number(node_of_queues, "TTL hf:2:dry:run:" RUN), 89 * 86400, 90 * 86400);
    name_space_close(space);
}

TEST(nothing_is_left_and_nothing_else_is_touched)
{
    struct watch watch;
    char *before[1 + LOCK_NODES];
    queue_fill("");
    queue_fill("hf:2:dry:" ALIVE ":"); /* another run's */
    locks_fill("lock:", 5);
    locks_fill("lock:dry:" ALIVE ":", 5);
    for (unsigned i = 0; i < LOCK_NODES; i++) /* a picture has the ttl in it */
        free(redis_server_command(cluster.servers[i],
                                  "EVAL \"for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('PERSIST', key) "
                                  "end\" 0"));
    before[0] = picture(node_of_queues, RUN);
    for (unsigned i = 0; i < LOCK_NODES; i++)
        before[1 + i] = picture(cluster.servers[i], RUN);
    struct name_space *space = begin(&watch);
    queue_fill("hf:2:dry:" RUN ":");
    locks_fill("lock:dry:" RUN ":", 1500);
    delete_and_close(space, &watch);
    assert_true(watch.end.is_clean);
    assert_int_equal(watch.end.count, 1 + LOCK_NODES);
    assert_int_equal(watch.end.nodes[0].deleted, 22);
    assert_string_equal(watch.end.nodes[1].name, "lock1");
    for (unsigned i = 0; i <= LOCK_NODES; i++) {
        struct redis_server *server = i == 0 ? node_of_queues : cluster.servers[i - 1];
        assert_int_equal(watch.end.nodes[i].left, 0);
        assert_int_equal(watch.end.nodes[i].deleted, i == 0 ? 22 : 3000);
        assert_int_equal(keys_like(server, "*" RUN "*"), 0);
        char *after = picture(server, RUN);
        assert_string_equal(before[i], after);
        free(before[i]), free(after);
    }
    assert_reply(node_of_queues, "0", "EXISTS hf:2:dry:runs hf:2:dry:run:" RUN);
}

/* With characters that mean something in patterns. */
TEST(a_strange_prefix_is_taken_as_it_is)
{
    struct watch watch;
    struct config *strange = config_make("a*[x]?\\\\^b:", "");
    assert_string_equal(strange->lock.prefix, "a*[x]?\\^b:");
    locks_fill("a*[x]?\\^b:dry:" RUN ":", 3);
    locks_fill("a*[x]?\\^b:", 3);
    locks_fill("aax1\\^b:dry:" RUN ":", 3);
    locks_fill("za*[x]?\\^b:dry:" RUN ":", 3);
    long long before = keys_like(cluster.servers[0], "*");
    struct name_space *space = open_run(&watch, strange, RUN);
    delete_and_close(space, &watch);
    assert_true(watch.end.is_clean);
    assert_int_equal(watch.end.nodes[1].deleted, 6); /* three locks, and their fences */
    assert_int_equal(keys_like(cluster.servers[0], "*"), before - 3);
}

/* --- dead runs ---------------------------------------------------------------------------------------------------- */

static void run_plant(const char *run, long long ends)
{
    free(redis_server_command(node_of_queues, "ZADD hf:2:dry:runs %lld %s", ends, run));
    free(redis_server_command(node_of_queues,
                              "HSET hf:2:dry:run:%s hosts 1 host:%s ready who host:1 lock_prefix old:dry:%s:", run, run,
                              run));
}

TEST(what_dead_runs_have_left_is_removed_and_what_lives_stays)
{
    struct watch watch;
    run_plant(DEAD, 1000);
    run_plant(ALIVE, 99999999999);
    queue_fill("hf:2:dry:" DEAD ":");
    queue_fill("hf:2:dry:" ALIVE ":");
    locks_fill("old:dry:" DEAD ":", 4);
    locks_fill("old:dry:" ALIVE ":", 4);
    struct name_space *space = begin(&watch);
    assert_int_equal(watch.removed, 1);
    assert_int_equal(keys_like(node_of_queues, "*" DEAD "*"), 0);
    assert_int_equal(keys_like(node_of_queues, "hf:2:dry:" ALIVE ":*"), 22);
    assert_int_equal(keys_like(cluster.servers[1], "*" DEAD "*"), 0);
    assert_int_equal(keys_like(cluster.servers[1], "*old:dry:" ALIVE ":*"), 4);
    assert_reply(node_of_queues, RUN "\n" ALIVE, "ZRANGE hf:2:dry:runs 0 -1");
    name_space_close(space);
}

/* A record that somebody else wrote makes nobody remove his locks. */
TEST(the_locks_of_production_are_never_those_of_a_dead_run)
{
    struct watch watch;
    run_plant(DEAD, 1000);
    free(redis_server_command(node_of_queues, "HSET hf:2:dry:run:" DEAD " lock_prefix lock:"));
    locks_fill("lock:", 4);
    locks_fill("lock:dry:" DEAD ":", 4);
    struct name_space *space = begin(&watch);
    assert_int_equal(watch.removed, 1);
    assert_int_equal(keys_like(cluster.servers[0], "lock:r*"), 4);
    assert_int_equal(keys_like(cluster.servers[0], "*dry:*"), 0);
    name_space_close(space);
}

TEST(who_was_taken_for_dead_is_told)
{
    struct watch watch;
    struct name_space *space = begin(&watch);
    assert_reply(node_of_queues, "1", "EXISTS hf:2:dry:run:" RUN);
    free(redis_server_command(node_of_queues, "HSET hf:2:dry:run:" RUN " taker another"));
    loop_await(loop, watch.lost == 1);
    name_space_close(space);
}

TEST(a_run_that_was_forgotten_is_not_begun_again_by_its_lease)
{
    struct watch watch;
    struct name_space *space = begin(&watch);
    free(redis_server_command(node_of_queues, "DEL hf:2:dry:runs hf:2:dry:run:" RUN));
    loop_await(loop, watch.lost == 1);
    assert_reply(node_of_queues, "0", "EXISTS hf:2:dry:runs");
    name_space_close(space);
}

/* --- several hosts ------------------------------------------------------------------------------------------------ */

static struct name_space *come(struct watch *watch, const char *host, unsigned hosts)
{
    *watch = (struct watch){.begun = 0};
    struct name_space *space = name_space_open(&(struct name_space_options){.loop = loop,
                                                                            .config = config,
                                                                            .run = RUN,
                                                                            .host = host,
                                                                            .hosts = hosts,
                                                                            .node_share = 0.5,
                                                                            .lost = lost,
                                                                            .context = watch});
    name_space_begin(space, begun);
    loop_await(loop, watch->begun == 1);
    return space;
}

TEST(hosts_of_one_name_begin_at_one_time_and_the_last_one_removes_all)
{
    struct watch one, two;
    struct instant first, second;
    struct name_space *here = come(&one, "111111111111", 2);
    name_space_ready(here);
    struct name_space *there = come(&two, "222222222222", 2);
    assert_string_equal(one.trouble, "");
    assert_string_equal(two.trouble, "");
    loop_await(loop, name_space_hosts(here) == 2);
    assert_int_equal(name_space_begins(here, &first), 0);
    name_space_ready(there);
    loop_await(loop, name_space_begins(here, &first) != 0 && name_space_begins(there, &second) != 0);
    assert_int_equal(name_space_begins(here, &first), name_space_begins(there, &second));
    assert_true(llabs(instant_since(first, second)) < 20 * NS_PER_MS);
    assert_true(instant_before(instant_now(), second));
    queue_fill("hf:2:dry:" RUN ":");
    locks_fill("lock:dry:" RUN ":", 4);
    delete_and_close(here, &one);
    assert_true(one.end.is_clean);
    assert_int_equal(one.end.count, 0);
    assert_int_equal(keys_like(node_of_queues, "hf:2:dry:" RUN ":*"), 22);
    delete_and_close(there, &two);
    assert_true(two.end.is_clean);
    assert_int_equal(two.end.nodes[0].deleted, 22);
    assert_int_equal(keys_like(cluster.servers[0], "*dry:*"), 0);
    assert_reply(node_of_queues, "0", "EXISTS hf:2:dry:runs hf:2:dry:run:" RUN);
}

/* Neither one too many, nor one that wants another number, nor one that comes when the others have begun. */
TEST(a_run_with_all_its_hosts_takes_no_other)
{
    struct watch one, two, other;
    struct instant at;
    struct name_space *here = come(&one, "111111111111", 2);
    struct name_space *stranger = come(&other, "333333333333", 3);
    assert_contains(other.trouble, "has other hosts");
    name_space_close(stranger);
    struct name_space *there = come(&two, "222222222222", 2);
    stranger = come(&other, "333333333333", 2);
    assert_contains(other.trouble, "has other hosts");
    name_space_ready(here);
    name_space_ready(there);
    loop_await(loop, name_space_begins(here, &at) != 0);
    queue_fill("hf:2:dry:" RUN ":");
    delete_and_close(stranger, &other); /* it has no part in it, and removes nothing */
    assert_true(other.end.is_clean);
    assert_int_equal(keys_like(node_of_queues, "hf:2:dry:" RUN ":*"), 22);
    delete_and_close(there, &two);
    stranger = come(&other, "333333333333", 2);
    assert_contains(other.trouble, "has begun already");
    name_space_close(stranger);
    delete_and_close(here, &one);
    assert_int_equal(one.end.nodes[0].deleted, 22);
}

/* It lost its power: another one comes in its stead, and who leaves last removes all. */
TEST(a_host_that_is_silent_for_a_lease_is_no_longer_there)
{
    struct watch one, two;
    struct instant at;
    struct name_space *here = come(&one, "111111111111", 2);
    free(redis_server_command(node_of_queues, "HSET hf:2:dry:run:" RUN " host:222222222222 \"ready 1\""));
    struct name_space *there = come(&two, "333333333333", 2);
    assert_string_equal(two.trouble, "");
    assert_reply(node_of_queues, "0", "HEXISTS hf:2:dry:run:" RUN " host:222222222222");
    name_space_ready(here);
    name_space_ready(there);
    loop_await(loop, name_space_begins(here, &at) != 0);
    free(redis_server_command(node_of_queues, "HSET hf:2:dry:run:" RUN " host:111111111111 \"ready 1\""));
    queue_fill("hf:2:dry:" RUN ":");
    delete_and_close(there, &two);
    assert_int_equal(two.end.nodes[0].deleted, 22);
    assert_reply(node_of_queues, "0", "EXISTS hf:2:dry:runs hf:2:dry:run:" RUN);
    loop_await(loop, one.lost == 1);
    name_space_close(here);
}

/* --- trouble ------------------------------------------------------------------------------------------------------ */

TEST(a_node_that_is_down_is_told_and_the_others_are_cleaned)
{
    struct watch watch;
    struct name_space *space = begin(&watch);
    queue_fill("hf:2:dry:" RUN ":");
    locks_fill("lock:dry:" RUN ":", 4);
    redis_server_kill(cluster.servers[1]);
    name_space_delete(space, 1 * NS_PER_S, deleted);
    loop_await(loop, watch.deleted == 1);
    name_space_close(space);
    assert_false(watch.end.is_clean);
    assert_true(watch.end.nodes[0].is_clean && watch.end.nodes[1].is_clean && watch.end.nodes[3].is_clean);
    assert_false(watch.end.nodes[2].is_clean);
    assert_contains(watch.troubles[2], "refused");
    assert_reply(node_of_queues, "1", "EXISTS hf:2:dry:run:" RUN); /* for the next run */
}

TEST(a_user_without_the_right_to_look_is_told)
{
    struct watch watch;
    free(redis_server_command(node_of_queues, "ACL SETUSER limited on >secret ~* +@all -scan"));
    setenv("HOLDFAST_TEST_PASSWORD", "secret", 1);
    struct config *limited = config_make("lock:", "user = \"limited\"; password_env = \"HOLDFAST_TEST_PASSWORD\";");
    struct name_space *space = open_run(&watch, limited, RUN);
    queue_fill("hf:2:dry:" RUN ":");
    delete_and_close(space, &watch);
    assert_false(watch.end.nodes[0].is_clean);
    assert_contains(watch.troubles[0], "NOPERM");
    assert_true(watch.end.nodes[1].is_clean);
    free(redis_server_command(node_of_queues, "ACL DELUSER limited"));
}

TEST(a_queue_node_that_is_not_there_is_trouble_at_the_beginning)
{
    struct watch watch;
    redis_server_kill(node_of_queues);
    struct name_space *space = open_run(&watch, config, RUN);
    name_space_begin(space, begun);
    loop_await(loop, watch.begun == 1);
    assert_contains(watch.trouble, "refused");
    name_space_close(space);
}

/* An interrupt may come before the node has answered for the first time. */
TEST(a_beginning_that_is_given_up_leaves_nothing)
{
    struct watch watch;
    struct name_space *space = open_run(&watch, config, RUN);
    name_space_begin(space, begun);
    delete_and_close(space, &watch);
    assert_true(watch.end.is_clean);
    assert_int_equal(watch.begun, 0);
    assert_reply(node_of_queues, "0", "EXISTS hf:2:dry:run:" RUN " hf:2:dry:runs");
}

RUN_GROUP(group_setup, group_teardown, set_up, tear_down)
