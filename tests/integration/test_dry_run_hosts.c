/* holdfast dry-run on configured nodes, which others use too: nothing of theirs changes and nothing stays, also after a
 * kill; and several hosts in one run. */
#include "tests/support/dry_run_fixture.h"

#include <sys/stat.h>

#include "tests/support/lock_cluster.h"

static struct redis_server *queue;
static struct lock_cluster locks;
static char configuration[PRIVATE_DIRECTORY_MAX + 16];

/* --- nodes that others use ---------------------------------------------------------------------------------------- */

/* A lock node that is there answers in time, however busy this machine is. */
static void configuration_write(void)
{
    FILE *file = fopen(configuration, "we");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    fprintf(file, "queue_node = { host = \"127.0.0.1\"; port = %u; };\nlock_nodes = (", redis_server_port(queue));
    for (unsigned i = 0; i < locks.count; i++)
        fprintf(file, "%s{ host = \"127.0.0.1\"; port = %u; timeout = \"5s\"; connect_timeout = \"5s\"; }",
                i > 0 ? ", " : "", redis_server_port(locks.servers[i]));
    fprintf(file, ");\nlock = { prefix = \"lock:\"; ttl = \"20s\"; };\n");
    assert_int_equal(fclose(file), 0);
}

static void ask(struct redis_server *server, const char *command)
{
    char *answer = redis_server_command(server, "%s", command);
    assert_int_not_equal(answer[0], '-');
    free(answer);
}

/* As a live fleet has them: tasks of the very queue and locks of the very resources that a run uses, but for its names.
 */
static int set_up(void **state)
{
    (void)state;
    redis_server_heal(queue);
    lock_cluster_heal(&locks);
    ask(queue, "LPUSH queue:dry task");
    ask(queue, "SADD queues dry");
    ask(queue, "SET hf:2:dry value");
    ask(queue, "ZADD hf:2:contended 1 resource:r0");
    for (unsigned i = 0; i < locks.count; i++) {
        ask(locks.servers[i], "SET lock:r0 somebody PX 3600000");
        ask(locks.servers[i], "ZADD hf:fences 7 lock:r0");
        ask(locks.servers[i], "SET other value");
    }
    return 0;
}

static int group_set_up(void **state)
{
    place_make(state);
    snprintf(configuration, sizeof configuration, "%s/t.conf", place);
    queue = redis_server_start(NULL);
    lock_cluster_start(&locks, 3);
    configuration_write();
    return 0;
}

static int group_tear_down(void **state)
{
    redis_server_destroy(queue);
    lock_cluster_stop(&locks);
    unlink(configuration);
    return place_remove(state);
}

/* A digest of every key and its bytes. A ttl goes on by itself, so that only whether there is one counts. */
static char *picture(struct redis_server *server)
{
    return redis_server_command(
        server, "EVAL \"local all = {} for _, key in ipairs(redis.call('KEYS', '*')) do all[#all + 1] = key .. "
                "redis.call('DUMP', key) .. tostring(redis.call('PTTL', key) > 0) end table.sort(all) return #all .. ' "
                "' .. redis.sha1hex(table.concat(all))\" 0");
}

struct pictures {
    char *of[4];
};

static struct pictures pictures_take(void)
{
    struct pictures taken = {{picture(queue)}};
    for (unsigned i = 0; i < locks.count; i++)
        taken.of[i + 1] = picture(locks.servers[i]);
    return taken;
}

static bool are_same(const struct pictures *before)
{
    struct pictures now = pictures_take();
    bool same = true;
    for (unsigned i = 0; i < 4; i++) {
        same &= strcmp(now.of[i], before->of[i]) == 0;
        free(now.of[i]);
    }
    return same;
}

static void pictures_forget(struct pictures *taken)
{
    for (unsigned i = 0; i < 4; i++)
        free(taken->of[i]);
}

static bool has_keys(struct redis_server *server, const char *pattern)
{
    char *count = redis_server_command(server, "EVAL \"return #redis.call('KEYS', ARGV[1])\" 0 %s", pattern);
    bool has = strcmp(count, "0") != 0;
    free(count);
    return has;
}

static bool has_fences(struct redis_server *server)
{
    char *all = redis_server_command(server, "ZRANGE hf:fences 0 -1");
    bool has = strstr(all, "lock:dry:") != NULL;
    free(all);
    return has;
}

/* --- beside production -------------------------------------------------------------------------------------------- */

TEST(nothing_of_others_changes)
{
    struct pictures before = pictures_take();
    run_well("-c %s --for 2s --rate 100/s --resources 3 --hold exp:3ms --threads 4 --json", configuration);
    assert_true(found.pushed > 100);
    assert_int_equal(found.done, found.pushed);
    assert_int_equal(found.twice, 0);
    assert_int_equal(found.left, 0);
    assert_int_equal(found.overlaps, 0);
    assert_int_equal(found.node_count, 4);
    for (unsigned i = 0; i < found.node_count; i++) {
        assert_int_equal(found.nodes[i].keys_at_end, 0);
        assert_true(found.nodes[i].commands_counted > 0);
    }
    assert_true(are_same(&before));
    pictures_forget(&before);
    assert_nothing_is_left();
}

TEST(the_cleanup_process_removes_all_of_one_that_is_killed)
{
    struct pictures before = pictures_take();
    struct program program = run_start("-c %s --for 60s --rate 100/s --resources 3 --json", configuration);
    test_await(has_keys(queue, "hf:2:dry:*:stat:processed") && has_fences(locks.servers[0]));
    assert_false(are_same(&before));
    kill(program.pid, SIGKILL);
    assert_int_equal(run_end(&program), -1);
    await_that_nothing_is_left();
    assert_false(has_keys(locks.servers[0], "*dry:*"));
    assert_false(has_keys(queue, "hf:2:dry:*:*"));
    /* whatever it had in the index of runs goes with the next one */
    run_well("-c %s --for 1s --rate 20/s --resources 3 --json", configuration);
    assert_true(are_same(&before));
    pictures_forget(&before);
}

static void may_scan(bool may)
{
    free(redis_server_command(locks.servers[2], "ACL SETUSER default %s", may ? "+scan" : "-scan"));
}

static pid_t cleanup_find(void)
{
    char name[32];
    pid_t found_pid = 0;
    DIR *all = opendir("/proc");
    assert_non_null(all);
    for (struct dirent *entry; found_pid == 0 && (entry = readdir(all)) != NULL;)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            proc_read(entry->d_name, "comm", name, sizeof name) > 0 && strcmp(name, "hf-cleanup\n") == 0 &&
            is_of_a_run(entry->d_name))
            found_pid = (pid_t)strtol(entry->d_name, NULL, 10);
    closedir(all);
    return found_pid;
}

/* It would be refused, too, and ask in vain after the end of the run. */
TEST(no_cleanup_process_stays_for_a_node_that_does_not_let_it_look)
{
    may_scan(false);
    struct program program =
        run_start("-c %s --for 2s --rate 100/s --resources 3 --hold exp:3ms --threads 4 --json", configuration);
    test_await(cleanup_find() != 0);
    assert_int_equal(run_end(&program), 0);
    assert_int_equal(cleanup_find(), 0);
    may_scan(true);
    assert_contains(printed.error, "may still have keys of this run, and refuses to let us look: they expire, and "
                                   "tokens are forgotten in their turn (");
    assert_true(has_fences(locks.servers[2]));
    assert_nothing_is_left();
}

static bool ends_when_interrupted(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    kill(pid, SIGINT);
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

TEST(what_a_run_has_no_time_to_remove_the_cleanup_process_removes)
{
    struct pictures before = pictures_take();
    struct program program = run_start("-c %s --for 60s --rate 100/s --resources 3 --json", configuration);
    test_await(has_fences(locks.servers[2]));
    redis_server_pause(locks.servers[2]);
    test_await(ends_when_interrupted(program.pid));
    run_end(&program);
    assert_true(cleanup_find() != 0);
    redis_server_resume(locks.servers[2]);
    test_await(are_same(&before));
    pictures_forget(&before);
    await_that_nothing_is_left();
}

TEST(without_a_quorum_nothing_begins)
{
    redis_server_kill(locks.servers[0]);
    redis_server_kill(locks.servers[1]);
    assert_refused(75,
                   "error: no quorum: only 1 of the 3 lock nodes can be asked now, and a lock needs 2; \"holdfast "
                   "nodes\" says what is wrong with the others\n",
                   "-c %s --for 1s", configuration);
    assert_nothing_is_left();
}

TEST(a_queue_node_that_cannot_be_reached_may_be_there_later)
{
    struct buffer reason = {0};
    buffer_format(&reason, "connect to 127.0.0.1:%u: Connection refused\n", redis_server_port(queue));
    redis_server_kill(queue);
    struct program program = run_start("-c %s --for 1s", configuration);
    assert_int_equal(run_end(&program), 75);
    assert_contains(printed.error, buffer_text(&reason));
    buffer_fini(&reason);
}

TEST(nodes_of_others_get_no_faults)
{
    assert_refused(1,
                   "error: --fault stop:lock1: that is a node of others; only private nodes (--private) are stopped, "
                   "killed, wiped, slowed or given another time\n",
                   "-c %s --for 3s --fault 1s:stop:lock1:1s", configuration);
}

/* --- several hosts ------------------------------------------------------------------------------------------------ */

/* Both have their own tasks, in one name space: the locks are those of both. */
TEST(two_hosts_are_one_run_and_their_results_are_joined)
{
    static const char load[] = "--name both --hosts 2 --for 4s --closed 6 --hold fixed:10ms --resources 40";
    struct pictures before = pictures_take();
    struct program first = run_start("-c %s %s --threads 2 --save %s/one.json", configuration, load, place);
    await_said(&first, "waiting for 1 more host of this name");
    struct program second =
        run_start("-c %s %s --threads 3 --processes 2 --save %s/two.json", configuration, load, place);
    assert_int_equal(run_end(&second), 0);
    assert_contains(printed.out, "This is a part: 1 of 2 hosts.");
    assert_int_equal(run_end(&first), 0);
    run_well("merge %s/one.json %s/two.json --json", place, place);
    assert_int_equal(found.host_count, 2);
    assert_int_equal(found.hosts[0].processes, 1);
    assert_int_equal(found.hosts[1].processes, 2);
    assert_int_equal(found.hosts[1].threads, 3);
    assert_true(found.hosts[0].cpu_share > 0 && found.hosts[1].cpu_share > 0);
    assert_int_equal(found.plan.population, 12);
    assert_true(found.done > 24 && found.expected.is_known);
    assert_int_equal(found.done, found.pushed);
    assert_int_equal(found.twice, 0);
    assert_int_equal(found.left, 0);
    assert_int_equal(found.overlaps, 0);
    assert_true(are_same(&before));
    pictures_forget(&before);
    assert_nothing_is_left();
    struct buffer message = {0};
    buffer_format(&message, "holdfast dry-run merge: %s/one.json: the result of the host %s is there twice\n", place,
                  found.hosts[0].name);
    assert_refused(1, buffer_text(&message), "merge %s/one.json %s/one.json", place, place);
    buffer_fini(&message);
}

/* The one that is left removes what both had. */
TEST(a_host_that_dies_leaves_the_run_to_the_others)
{
    static const char load[] = "--name both --hosts 2 --for 60s --rate 50/s --hold fixed:5ms";
    struct pictures before = pictures_take();
    struct program first = run_start("-c %s %s --threads 2 --json", configuration, load);
    struct program second = run_start("-c %s %s --threads 2 --json", configuration, load);
    test_await(has_keys(queue, "hf:2:dry:*:stat:processed"));
    kill(second.pid, SIGKILL);
    assert_int_equal(run_end(&second), -1);
    kill(first.pid, SIGINT);
    assert_int_equal(run_end(&first), 0);
    assert_true(found.done > 0);
    assert_int_equal(found.twice, 0);
    assert_int_equal(found.overlaps, 0);
    test_await(are_same(&before)); /* the other's cleanup process may be the last */
    pictures_forget(&before);
    await_that_nothing_is_left();
}

RUN_GROUP(group_set_up, group_tear_down, set_up, NULL)
