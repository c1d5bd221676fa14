/* The webhook job with a fake host, and a server that it calls. */
#ifndef TESTS_WEBHOOK_FIXTURE_H
#define TESTS_WEBHOOK_FIXTURE_H

#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/fake_host.h"
#include "tests/support/http_server.h"

#define ANSWER(status, headers, body) "HTTP/1.1 " status "\r\nConnection: close\r\n" headers "\r\n" body

struct caller {
    struct fake_plugin *plugin;
    struct http_server *server;
    hf_job job;
    char args[1024];
};

static inline struct fake_plugin *webhook_open(const struct fake_setting *settings)
{
    char reason[512] = "";
    struct fake_plugin *plugin = fake_plugin_open("webhook", settings, reason);
    if (plugin == NULL)
        fail_msg("%s", reason);
    return plugin;
}

static const struct fake_setting private_allowed[] = {{"allow_private", "yes"}, {NULL, NULL}};

static inline void caller_init(struct caller *caller, const struct fake_setting *settings, const char *const *answers)
{
    *caller = (struct caller){.plugin = webhook_open(settings), .server = http_server_start(answers)};
    caller->job.jid = "jid-1";
}

static inline void caller_fini(struct caller *caller)
{
    fake_job_clear(&caller->job);
    fake_plugin_close(caller->plugin);
    http_server_stop(caller->server);
}

/* Runs a task whose arguments begin with a url on the server; `rest` is what comes behind the port. */
static inline int call_with(struct caller *caller, const char *before, const char *rest)
{
    fake_job_clear(&caller->job);
    snprintf(caller->args, sizeof caller->args, "%shttp://127.0.0.1:%u%s", before, http_server_port(caller->server),
             rest);
    caller->job.json = caller->args;
    return fake_plugin_run(caller->plugin, &caller->job);
}

static inline int call(struct caller *caller)
{
    return call_with(caller, "[\"", "/hook\",{\"a\":1}]");
}

#endif
