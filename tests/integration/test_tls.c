/* The whole program over TLS: every node wants it, and a certificate of the client; commands, a worker and locks. */
#include "tests/support/test.h"

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
    assert_contains(RUN(0, "nodes", "-c", conf),
                    "fences: in one sorted set a node; the largest has 1; highest floor 0");
    assert_contains(RUN(0, "nodes", "-c", conf, "--json"),
                    "\"fences\":\"set\",\"fences_moved\":0,\"fence_count\":1,\"fence_floor\":0");
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

/* tls = true, in one word with the address. Who knows the configuration need not know the password. */
TEST(an_address_may_ask_for_tls)
{
    char address[64];
    snprintf(address, sizeof address, "rediss://127.0.0.1:%u", ports[0]);
    const char *ca = authority_file(authority), *pem = authority_path(authority, "client", "pem"),
               *key = authority_path(authority, "client", "key");
    RUN(0, "queues", "--host", address, "--tls-ca-file", ca, "--tls-cert-file", pem, "--tls-key-file", key);
    assert_contains(RUN(1, "queues", "--host", "rediss://me:secret@127.0.0.1:1"),
                    "no user and no password belong into");
    assert_contains(RUN(1, "queues", "--host", "rediss://127.0.0.1"), "is no rediss://HOST:PORT");
    assert_contains(RUN(1, "queues", "--host", "rediss://127.0.0.1:6379/3"), "is no rediss://HOST:PORT");

    const char *files = strstr(settings, "tls_ca_file");
    config_write_host("rediss://127.0.0.1", files);
    assert_contains(RUN(1, "check", "-c", conf), "is no rediss://HOST:PORT");
    config_write_host(address, files);
    assert_contains(RUN(0, "queues", "-c", conf, "--json"), "\"queues\":");
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
}

RUN_GROUP(set_up, tear_down, NULL, NULL)
