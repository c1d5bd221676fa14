/* Passwords in files that are replaced while a node runs: the next connection has the new one, and what cannot be read
 * changes nothing. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/secret.h"
#include "redis/node.h"
#include "tests/support/hostile_server.h"
#include "tests/support/lock_cluster.h"
#include "tests/support/log_capture.h"
#include "tests/support/node_server_fixture.h"
#include "tests/support/private_directory.h"

static char directory[PRIVATE_DIRECTORY_MAX], password_file[PRIVATE_DIRECTORY_MAX + 16];

static void file_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0600), 0);
}

static int setup(void **state)
{
    private_directory_create(directory);
    snprintf(password_file, sizeof password_file, "%s/password", directory);
    file_write(password_file, "one\n");
    return node_setup(state);
}

static int teardown(void **state)
{
    (void)node_server_teardown(state);
    unlink(password_file);
    return rmdir(directory);
}

static void server_begin(void)
{
    start_server(&(struct redis_server_options){.acl = "user default on nopass ~* &* +@all\n"
                                                       "user worker on >one ~* &* +@all\n"});
}

/* Its connections end with the old password. */
static void password_change(struct redis_server *at, const char *password)
{
    free(redis_server_command(at, "ACL DELUSER worker"));
    char *reply = redis_server_command(at, "ACL SETUSER worker on >%s ~* &* +@all", password);
    assert_string_equal(reply, "OK");
    free(reply);
}

static void probe_begin(void)
{
    struct redis_node_options options = options_for_server();
    options.user = "worker";
    options.password_file = password_file;
    assert_comes_up(&options);
}

TEST(a_replaced_file_is_read_for_the_next_connection)
{
    size_t length;
    server_begin();
    probe_begin();
    log_capture_begin();
    file_write(password_file, "two\n");
    password_change(server, "two");
    node_probe_wait_downs(&probe, 1);
    node_probe_wait_up(&probe);
    const char *told = log_capture_end(&length);
    assert_contains(told, "info password_reloaded node=probe");
    assert_lacks(told, "WRONGPASS");
    assert_lacks(told, "two");
}

TEST(a_refused_password_is_read_again_until_it_is_right)
{
    size_t length;
    server_begin();
    probe_begin();
    log_capture_begin();
    password_change(server, "two");
    loop_await(loop, strstr(redis_node_reason(probe.node), "WRONGPASS") != NULL);
    loop_for(loop, NS_PER_S);
    assert_int_equal(probe.ups, 1);
    file_write(password_file, "two\n");
    node_probe_wait_up(&probe);
    const char *told = strstr(log_capture_end(&length), "WRONGPASS");
    assert_non_null(told);
    assert_null(strstr(told + 1, "WRONGPASS"));
}

TEST(a_file_that_cannot_be_used_changes_nothing)
{
    size_t length;
    server_begin();
    probe_begin();
    log_capture_begin();
    assert_int_equal(chmod(password_file, 0622), 0);
    for (unsigned i = 1; i <= 3; i++) {
        password_change(server, "one");
        node_probe_wait_downs(&probe, i);
        node_probe_wait_up(&probe);
    }
    const char *told = log_capture_end(&length);
    assert_contains(told, "error password_reload_failed node=probe reason=");
    assert_contains(told, "others than its owner have access");
    assert_null(strstr(strstr(told, "password_reload_failed") + 1, "password_reload_failed"));
}

TEST(a_file_that_was_never_read_is_told)
{
    struct error error = ERROR_NONE;
    server_begin();
    struct redis_node_options options = options_for_server();
    options.user = "worker";
    options.password_file = password_file;
    options.password = "one";
    assert_false(redis_node_options_check(&options, &error));
    assert_contains(error.text, "both a password and a password_file");
    options.password = NULL;
    error = ERROR_NONE;
    assert_true(redis_node_options_check(&options, &error));
    assert_int_equal(unlink(password_file), 0);
    assert_false(redis_node_options_check(&options, &error));
    assert_contains(error.text, password_file);
    assert_never_up(&options, "the password cannot be read: ");
    file_write(password_file, "one\n");
    node_probe_wait_up(&probe);
}

/* It answers as one with sentinels' passwords does: it refuses, and knows the master after that. */
TEST(the_password_of_a_sentinel_is_read_again)
{
    char sentinel_address[32];
    server_begin();
    struct hostile_server *sentinel = hostile_server_start(HOSTILE_GOOD);
    hostile_server_say(sentinel, "-WRONGPASS no\r\n");
    snprintf(sentinel_address, sizeof sentinel_address, "127.0.0.1:%u", hostile_server_port(sentinel));
    const char *const addresses[] = {sentinel_address};
    struct redis_node_options options = node_options_for(0);
    options.host = NULL;
    options.sentinels = (struct redis_sentinels){
        .master = "m", .addresses = addresses, .count = 1, .password_file = password_file, .timeout_ns = 3 * NS_PER_S};
    assert_never_up(&options, "check user and password of the sentinels");
    size_t length;
    log_capture_begin();
    file_write(password_file, "two\n");
    loop_for(loop, 100 * NS_PER_MS);
    assert_contains(log_capture_end(&length), "info password_reloaded node=probe");
    node_probe_stop(&probe);
    hostile_server_destroy(sentinel);
}

/* --- Kubernetes --------------------------------------------------------------------------------------------------- */

TEST(who_may_read_a_private_file)
{
    static const struct {
        mode_t mode;
        bool is_of_root, is_good;
    } cases[] = {{0600, false, true}, {0400, false, true},  {0400, true, true},  {0440, true, true},
                 {0640, true, true},  {0660, true, false},  {0444, true, false}, {0604, true, false},
                 {0450, true, false}, {0622, false, false}, {0604, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = ERROR_NONE;
        struct stat facts = {
            .st_mode = S_IFREG | cases[i].mode, .st_uid = cases[i].is_of_root ? 0 : geteuid(), .st_gid = getegid()};
        assert_int_equal(secret_facts(&facts, "file", &error), cases[i].is_good);
    }
    struct error error = ERROR_NONE;
    struct stat facts = {.st_mode = S_IFREG | 0440, .st_uid = 0, .st_gid = (gid_t)-2};
    assert_false(secret_facts(&facts, "file", &error));
    assert_contains(error.text, "others than its owner have access");
    facts = (struct stat){.st_mode = S_IFREG | 0440, .st_uid = geteuid() + 1, .st_gid = getegid()};
    error = ERROR_NONE;
    assert_false(secret_facts(&facts, "file", &error));
    assert_contains(error.text, "belongs to user");
}

/* The file is a link into ..data, which is a link to the directory of the day. */
TEST(a_link_that_is_turned_is_a_replaced_file)
{
    static const char *const days[] = {"one", "two"};
    char day[2][PRIVATE_DIRECTORY_MAX + 16], path[2][PRIVATE_DIRECTORY_MAX + 32], data[PRIVATE_DIRECTORY_MAX + 16];
    server_begin();
    snprintf(data, sizeof data, "%s/..data", directory);
    for (int i = 0; i < 2; i++) {
        snprintf(day[i], sizeof day[i], "%s/day%d", directory, i);
        snprintf(path[i], sizeof path[i], "%s/password", day[i]);
        assert_int_equal(mkdir(day[i], 0700), 0);
        file_write(path[i], days[i]);
    }
    assert_int_equal(unlink(password_file), 0);
    assert_int_equal(symlink("..data/password", password_file), 0);
    assert_int_equal(symlink("day0", data), 0);
    probe_begin();
    assert_int_equal(unlink(data), 0);
    assert_int_equal(symlink("day1", data), 0);
    password_change(server, "two");
    node_probe_wait_downs(&probe, 1);
    node_probe_wait_up(&probe);
    node_probe_stop(&probe);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(unlink(path[i]), 0);
        assert_int_equal(rmdir(day[i]), 0);
    }
    assert_int_equal(unlink(data), 0);
}

/* --- a lock ------------------------------------------------------------------------------------------------------- */

TEST(a_lock_outlives_a_rotation_on_one_node_after_the_other)
{
    enum { MEMBERS = 3 };
    static const char *const passwords[] = {"two", "three"};
    struct lock_cluster cluster;
    struct lock_probe lock;
    lock_cluster_start(&cluster, MEMBERS);
    for (unsigned i = 0; i < MEMBERS; i++) {
        password_change(cluster.servers[i], "one");
        cluster.nodes[i].user = "worker";
        cluster.nodes[i].password_file = password_file;
    }
    struct redlock_group *group = lock_cluster_group(&cluster, loop);
    struct redlock_terms terms = quick_terms(5000, 3);
    lock_probe_create(&lock, loop, group, &terms);
    assert_int_equal(lock_probe_acquire(&lock, "account:1"), REDLOCK_ACQUIRED);
    for (size_t round = 0; round < sizeof passwords / sizeof passwords[0]; round++) {
        file_write(password_file, passwords[round]);
        for (unsigned i = 0; i < MEMBERS; i++) {
            struct redlock_group_status status;
            password_change(cluster.servers[i], passwords[round]);
            loop_for(loop, 10 * NS_PER_S);
            redlock_group_status_read(group, &status);
            assert_int_equal(status.voters, MEMBERS);
        }
    }
    assert_int_equal(lock.losses, 0);
    assert_int_equal(lock_probe_release(&lock), REDLOCK_RELEASED);
    lock_probe_destroy(&lock);
    loop_await(loop, redlock_group_busy(group) == 0);
    redlock_group_destroy(group);
    lock_cluster_stop(&cluster);
}

RUN_TESTS_WITH(setup, teardown)
