/* The whole program over TLS: every node wants it, and a certificate of the client; commands, a worker and locks. */
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "queue/holdfast.h"
#include "redlock/redlock_mutex.h"
#include "tests/support/authority.h"
#include "tests/support/private_directory.h"
#include "tests/support/program_run.h"
#include "tests/support/redis_server.h"

enum { NODES = 4, HOUR_S = 3600 }; /* the first is the queue node */

static struct authority *authority;
static struct redis_server *servers[NODES];
static unsigned ports[NODES];
static char conf[PRIVATE_DIRECTORY_MAX], settings[1024], *build;

static int set_up(void **state)
{
    (void)state;
    build = realpath(test_build(), NULL);
    authority = authority_create();
    authority_issue(authority, "server", NULL, HOUR_S);
    authority_issue(authority, "client", "client", HOUR_S);
    for (unsigned i = 0; i < NODES; i++) {
        char config[1024];
        ports[i] = free_port();
        snprintf(config, sizeof config,
                 "tls-port %u\ntls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s\ntls-auth-clients yes\n",
                 ports[i], authority_path(authority, "server", "pem"), authority_path(authority, "server", "key"),
                 authority_file(authority));
        servers[i] = redis_server_start(&(struct redis_server_options){.config = config});
    }
    snprintf(
        settings, sizeof settings,
        "connect_timeout = \"5s\"; tls = true; tls_ca_file = \"%s\"; tls_cert_file = \"%s\"; tls_key_file = \"%s\";",
        authority_file(authority), authority_path(authority, "client", "pem"),
        authority_path(authority, "client", "key"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        redis_server_destroy(servers[i]);
    authority_destroy(authority);
    unlink(conf);
    free(build);
    return 0;
}

/* The host of the queue node, and more of its settings. */
static void config_write_host(const char *host, const char *first_settings)
{
    if (conf[0] != '\0')
        unlink(conf);
    FILE *file = fdopen(private_file_create(conf), "w");
    fprintf(file, "queue_node = { host = \"%s\"; port = %u; %s };\nlock_nodes = (", host, ports[0], first_settings);
    for (unsigned i = 1; i < NODES; i++)
        fprintf(file, "%s{ host = \"127.0.0.1\"; port = %u; timeout = \"5s\"; %s }", i > 1 ? ", " : "", ports[i],
                settings);
    fprintf(file,
            ");\nlock = { ttl = \"30s\"; };\nworker = { allow_root = true; jobs_directory = \"%s/jobs\"; jobs = "
            "[\"echo\"]; };\n",
            build);
    fclose(file);
}

static void config_write(const char *first_settings)
{
    config_write_host("127.0.0.1", first_settings);
}

/* Its arguments end with NULL. What it prints, and fails unless it ends with this code. */
static const char *run(int code, const char *const *arguments)
{
    static char text[64 * 1024];
    struct program_result result = program_run_arguments(arguments, -1);
    snprintf(text, sizeof text, "%s%s", result.out, result.error);
    if (result.exit_code != code)
        fail_msg("exit code %d: %s", result.exit_code, text);
    program_result_free(&result);
    return text;
}
#define RUN(code, ...) run(code, (const char *const[]){__VA_ARGS__, NULL})

TEST(commands_workers_and_locks_speak_tls)
{
    config_write(settings);
    assert_contains(RUN(0, "nodes", "-c", conf, "init"), "3 of 3");
    RUN(0, "push", "-c", conf, "echo", "[\"result\",\"hello\"]", "--resource", "r", "--jid", "tls");
    const char *said = RUN(0, "work", "-c", conf, "--drain");
    assert_contains(said, "task_ended ending=done jid=tls");
    assert_contains(said, "fence=");
    assert_string_equal(RUN(0, "result", "-c", conf, "tls"), "[\"result\",\"hello\"]\n");
    assert_contains(RUN(0, "check", "-c", conf), "127.0.0.1");
    assert_contains(RUN(0, "nodes", "-c", conf), "fences: the most that a node remembers are 1; highest floor 0");
    assert_contains(RUN(0, "nodes", "-c", conf, "--json"), "\"fence_count\":1,\"fence_floor\":0");
}

TEST(options_of_a_command_name_the_files)
{
    char port[16];
    snprintf(port, sizeof port, "%u", ports[0]);
    const char *ca = authority_file(authority), *pem = authority_path(authority, "client", "pem"),
               *key = authority_path(authority, "client", "key");
    RUN(0, "queues", "--port", port, "--tls", "--tls-ca-file", ca, "--tls-cert-file", pem, "--tls-key-file", key,
        "--node-timeout", "5s");
    assert_contains(RUN(75, "queues", "--port", port, "--tls", "--tls-ca-file", ca, "--node-timeout", "5s"),
                    "certificate required");
    assert_contains(RUN(1, "queues", "--port", port, "--tls-ca-file", ca), "mean nothing without tls");
    assert_contains(RUN(1, "queues", "--port", port, "--tls", "--tls-key-file", key),
                    "a certificate of the client needs its key, and a key its certificate");
}

TEST(wrong_settings_are_told_with_their_line)
{
    config_write("tls_server_name = \"x\";");
    assert_contains(RUN(1, "check", "-c", conf), ":1: queue: files and a server name for TLS mean nothing without tls");
    config_write("tls = true; tls_ca_file = \"/nowhere/at/all\";");
    assert_contains(RUN(1, "check", "-c", conf), "cannot read the certificates of authorities in /nowhere/at/all");
}

/* tls = true, in one word with the address. */
TEST(an_address_may_ask_for_tls)
{
    char address[64];
    snprintf(address, sizeof address, "rediss://127.0.0.1:%u", ports[0]);
    const char *ca = authority_file(authority), *pem = authority_path(authority, "client", "pem"),
               *key = authority_path(authority, "client", "key");
    RUN(0, "queues", "--host", address, "--tls-ca-file", ca, "--tls-cert-file", pem, "--tls-key-file", key);
    const char *files = strstr(settings, "tls_ca_file");
    config_write_host(address, files);
    assert_contains(RUN(0, "queues", "-c", conf, "--json"), "\"queues\":");
}

#define CLIENT                                                                                                         \
    "--tls-cert-file", authority_path(authority, "client", "pem"), "--tls-key-file",                                   \
        authority_path(authority, "client", "key")

/* The authorities come from an option, or from the environment that OpenSSL knows; login and database from the
 * address. */
TEST(commands_without_a_configuration_speak_tls_to_lock_nodes)
{
    char list[256], nodes[NODES][64];
    for (unsigned i = 0; i < NODES; i++)
        snprintf(nodes[i], sizeof nodes[i], "rediss://127.0.0.1:%u", ports[i]);
    snprintf(list, sizeof list, "%s %s,%s", nodes[1], nodes[2], nodes[3]);
    /* On a busy machine a handshake may take too long, which is the reason then. */
    test_await(strstr(RUN(75, "lock", "--no-wait", "--node", nodes[1], CLIENT, "alone", "--", "true"),
                      "its certificate is refused") != NULL);
    setenv("HOLDFAST_LOCK_NODES", list, 1);
    assert_contains(RUN(0, "nodes", "--tls-ca-file", authority_file(authority), CLIENT), "3 of 3");
    assert_contains(RUN(0, "lock", "--tls-ca-file", authority_file(authority), CLIENT, "a", "--", "echo", "held"),
                    "held");
    setenv("SSL_CERT_FILE", authority_file(authority), 1);
    assert_contains(RUN(0, "lock", CLIENT, "a", "--", "echo", "held"), "held");
    unsetenv("HOLDFAST_LOCK_NODES");
    for (unsigned i = 1; i < NODES; i++)
        snprintf(nodes[i], sizeof nodes[i], "rediss://me:se%%21cret@127.0.0.1:%u/0", ports[i]);
    for (unsigned i = 1; i < NODES; i++)
        free(redis_server_command(servers[i], "ACL SETUSER me on >se!cret ~* &* +@all"));
    assert_contains(RUN(0, "lock", CLIENT, "--node", nodes[1], "--node", nodes[2], "--node", nodes[3], "a", "--", "sh",
                        "-c", "tr '\\0' ' ' </proc/$PPID/cmdline"),
                    "--node rediss://************@127.0.0.1");
    for (unsigned i = 1; i < NODES; i++)
        free(redis_server_command(servers[i], "ACL SETUSER me >other <se!cret"));
    const char *said = RUN(75, "lock", CLIENT, "--no-wait", "--node", nodes[1], "--node", nodes[2], "--node", nodes[3],
                           "a", "--", "true");
    assert_contains(said, "refused AUTH (WRONGPASS)");
    assert_lacks(said, "cret");
    unsetenv("SSL_CERT_FILE");
}

TEST(the_library_of_producers_speaks_tls)
{
    char reason[256] = "";
    struct hf_producer_options options = {.host = "127.0.0.1",
                                          .port = ports[0],
                                          .tls = true,
                                          .tls_ca_file = authority_file(authority),
                                          .tls_cert_file = authority_path(authority, "client", "pem"),
                                          .tls_key_file = authority_path(authority, "client", "key")};
    struct hf_producer *producer = hf_producer_create(&options, reason, sizeof reason);
    struct hf_receipt receipt;
    assert_non_null(producer);
    assert_int_equal(hf_push(producer, &(struct hf_task){.class_name = "echo", .queue = "lib"}, &receipt),
                     HF_PUSH_QUEUED);
    hf_producer_destroy(producer);
    char address[64];
    snprintf(address, sizeof address, "rediss://127.0.0.1:%u/1", ports[0]);
    options.host = address, options.port = 0, options.tls = false;
    producer = hf_producer_create(&options, reason, sizeof reason);
    assert_non_null(producer);
    assert_int_equal(hf_push(producer, &(struct hf_task){.class_name = "echo", .queue = "one"}, &receipt),
                     HF_PUSH_QUEUED);
    hf_producer_destroy(producer);
    char *pushed = redis_server_command(servers[0], "KEYS queue:one"); /* in database 0 there is none */
    assert_string_equal(pushed, "");
    free(pushed);
    options.host = "rediss://127.0.0.1:x";
    assert_null(hf_producer_create(&options, reason, sizeof reason));
    assert_contains(reason, "its address: its port is not 1 to 65535");
    options.host = "127.0.0.1", options.port = ports[0], options.tls = true;
    options.tls_server_name = "elsewhere.example"; /* the certificate is not for it */
    options.wait_ms = 500;
    producer = hf_producer_create(&options, reason, sizeof reason);
    assert_int_not_equal(hf_push(producer, &(struct hf_task){.class_name = "echo", .queue = "lib"}, &receipt),
                         HF_PUSH_QUEUED);
    assert_contains(receipt.reason, "its certificate is refused: hostname mismatch");
    hf_producer_destroy(producer);
}

TEST(the_library_of_locks_speaks_tls)
{
    char reason[REDLOCK_REASON_SIZE] = "";
    struct redlock_node node = {.host = "127.0.0.1",
                                .port = ports[1],
                                .timeout_ms = 5000,
                                .tls = true,
                                .tls_ca_file = authority_file(authority),
                                .tls_cert_file = authority_path(authority, "client", "pem"),
                                .tls_key_file = authority_path(authority, "client", "key")};
    struct redlock_options options = {.nodes = &node, .node_count = 1, .key_prefix = "lib:"};
    char address[64];
    snprintf(address, sizeof address, "rediss://127.0.0.1:%u", ports[1]);
    free(redis_server_command(servers[1], "FLUSHALL")); /* alone, it is no member of a group */
    struct redlock_client *client = redlock_client_open(&options, reason, sizeof reason);
    assert_non_null(client);
    struct redlock_mutex mutex = {.client = client, .name = "r", .terms = {.ttl_ms = 30000, .tries = 50}};
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_ACQUIRED);
    char *there = redis_server_command(servers[1], "EXISTS lib:r");
    assert_string_equal(there, "1");
    free(there);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
    redlock_client_close(client);

    node.host = address, node.port = 0, node.tls = false;
    client = redlock_client_open(&options, reason, sizeof reason);
    assert_non_null(client);
    mutex = (struct redlock_mutex){.client = client, .name = "s", .terms = {.ttl_ms = 30000, .tries = 50}};
    assert_int_equal(redlock_mutex_lock(&mutex), REDLOCK_ACQUIRED);
    assert_int_equal(redlock_mutex_unlock(&mutex), REDLOCK_RELEASED);
    redlock_client_close(client);
    const struct redlock_node twice[3] = {node, {.host = "127.0.0.1", .port = ports[1]}, {.host = "h", .port = 1}};
    options.nodes = twice, options.node_count = 3;
    assert_null(redlock_client_open(&options, reason, sizeof reason));
    assert_contains(reason, "lock nodes 1 and 2 are the same server");
    node.host = "redis://u:secret@h", node.port = 0, options.nodes = &node, options.node_count = 1;
    node.password = "secret";
    assert_null(redlock_client_open(&options, reason, sizeof reason));
    assert_contains(reason, "lock node 1: its address: its password is given twice");
}

/* --- files that are replaced while a worker runs ------------------------------------------------------------------ */

static unsigned said(const struct program *worker, const char *what)
{
    unsigned times = 0;
    char *text = program_error_text(worker);
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        times++;
    free(text);
    return times;
}

static void append_file(FILE *to, const char *path)
{
    char bytes[8192];
    FILE *from = fopen(path, "re");
    assert_non_null(from);
    size_t length = fread(bytes, 1, sizeof bytes, from);
    assert_int_equal(fwrite(bytes, 1, length, to), length);
    fclose(from);
}

/* `paths` end with NULL; with none the file is no certificate. */
static void trusted_write(const char *path, const char *const *paths)
{
    char fresh[PRIVATE_DIRECTORY_MAX + 8];
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *file = fopen(fresh, "we");
    assert_non_null(file);
    if (paths[0] == NULL)
        fputs("nothing of use\n", file);
    for (; *paths != NULL; paths++)
        append_file(file, *paths);
    fclose(file);
    assert_int_equal(rename(fresh, path), 0);
}

static void certificate_show(unsigned server, struct authority *issuer)
{
    char *reply =
        redis_server_command(servers[server], "CONFIG SET tls-key-file %s tls-cert-file %s",
                             authority_path(issuer, "server", "key"), authority_path(issuer, "server", "pem"));
    assert_string_equal(reply, "OK");
    free(reply);
}

static void connections_cut(unsigned server)
{
    free(redis_server_command(servers[server], "CLIENT KILL TYPE normal"));
    free(redis_server_command(servers[server], "CLIENT KILL TYPE pubsub"));
}

static void hang_up(const struct program *worker, const char *answer)
{
    unsigned before = said(worker, answer);
    kill(worker->pid, SIGHUP);
    test_await(said(worker, answer) > before);
}

/* SIGHUP says whether the files are of use. New connections go by them, or, when they are not, by those before. */
TEST(a_worker_goes_by_the_authorities_that_its_file_has_now)
{
    char trusted[PRIVATE_DIRECTORY_MAX], own[2048];
    struct authority *next = authority_create();
    authority_issue(next, "server", NULL, HOUR_S);
    close(private_file_create(trusted));
    trusted_write(trusted, (const char *const[]){authority_file(authority), NULL});
    snprintf(own, sizeof own,
             "connect_timeout = \"5s\"; tls = true; tls_ca_file = \"%s\"; tls_cert_file = \"%s\"; tls_key_file = "
             "\"%s\";",
             trusted, authority_path(authority, "client", "pem"), authority_path(authority, "client", "key"));
    config_write(own);
    struct program worker = program_start((const char *const[]){"work", "-c", conf, NULL}, -1);
    test_await(said(&worker, "node_up node=queue ") > 0);

    /* Not of use: refused, and a connection that is lost comes back with what was read before. */
    trusted_write(trusted, (const char *const[]){NULL});
    hang_up(&worker, "reload_refused errors=1");
    assert_int_equal(said(&worker, "queue: cannot read the certificates of authorities in "), 1);
    unsigned ups = said(&worker, "node_up node=queue ");
    connections_cut(0);
    test_await(said(&worker, "node_up node=queue ") > ups);
    assert_true(said(&worker, "tls_reload_failed node=queue reason=\"cannot read the certificates") > 0);

    /* The server has a certificate of another authority, which the file does not have yet. */
    certificate_show(0, next);
    connections_cut(0);
    test_await(said(&worker, "its certificate is refused: ") > 0);
    ups = said(&worker, "node_up node=queue ");
    trusted_write(trusted, (const char *const[]){authority_file(next), NULL});
    hang_up(&worker, "reloaded changed=0 after_restart=0");
    test_await(said(&worker, "node_up node=queue ") > ups);
    assert_true(said(&worker, "tls_reloaded node=queue\n") > 0);

    kill(worker.pid, SIGTERM);
    struct program_result result = program_wait(&worker);
    assert_int_equal(result.exit_code, 0);
    program_result_free(&result);
    certificate_show(0, authority);
    authority_destroy(next);
    unlink(trusted);
}

RUN_GROUP(set_up, tear_down, NULL, NULL)
