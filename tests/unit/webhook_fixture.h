/* The webhook job with a fake host, and a server that it calls. */
#ifndef TESTS_WEBHOOK_FIXTURE_H
#define TESTS_WEBHOOK_FIXTURE_H

#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/fake_host.h"
#include "tests/support/http_server.h"

#define ANSWER(status, headers, body) "HTTP/1.1 " status "\r\nConnection: close\r\n" headers "\r\n" body

static struct caller {
    struct fake_plugin *plugin;
    struct http_server *server;
    hf_job job;
    char args[1024];
} caller;

static inline struct fake_plugin *webhook_open(const struct fake_setting *settings)
{
    char reason[512] = "";
    struct fake_plugin *plugin = fake_plugin_open("webhook", settings, reason);
    if (plugin == NULL)
        fail_msg("%s", reason);
    return plugin;
}

static const struct fake_setting private_allowed[] = {{"allow_private", "yes"}, {NULL, NULL}};

static inline void caller_end(void)
{
    if (caller.plugin == NULL)
        return;
    fake_job_clear(&caller.job);
    fake_plugin_close(caller.plugin);
    http_server_stop(caller.server);
    caller.plugin = NULL;
}

/* The one before has ended; the last of a test is ended behind it. */
static inline void caller_begin(const struct fake_setting *settings, const char *const *answers)
{
    caller_end();
    caller = (struct caller){.plugin = webhook_open(settings), .server = http_server_start(answers)};
    caller.job.jid = "jid-1";
}

/* Runs a task with these arguments. */
static inline int call_json(const char *json)
{
    fake_job_clear(&caller.job);
    caller.job.json = json;
    return fake_plugin_run(caller.plugin, &caller.job);
}

/* They begin with a url on the server; `rest` is what comes behind the port. */
static inline int call_with(const char *before, const char *rest)
{
    snprintf(caller.args, sizeof caller.args, "%shttp://127.0.0.1:%u%s", before, http_server_port(caller.server), rest);
    return call_json(caller.args);
}

static inline int call(void)
{
    return call_with("[\"", "/hook\",{\"a\":1}]");
}

#endif
