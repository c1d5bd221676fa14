/* echo: does nothing, and logs that at level debug. Class: echo. For experiments, benchmarks and tests.
 *
 * Arguments: anything. The first one may select another outcome:
 *     ["result", ...]  done, and the arguments are its result
 *     ["fail"]         HF_FAIL: retried
 *     ["bury"]         HF_BURY: to the dead set
 *     ["discard"]      HF_DISCARD
 *     ["crash"]        abort(), if the setting crash is "allowed"; otherwise buried
 * Settings: crash. */
#include "jobs/kit.h"

struct echo {
    struct kit kit;
    int may_crash;
};

static int crash(const struct echo *echo, hf_job *job)
{
    if (echo->may_crash)
        abort();
    echo->kit.job->error(job, "NotAllowed", "a crash was asked for, and the setting crash is not \"allowed\"");
    return HF_BURY;
}

/* The host's arguments have no NUL at the end. */
static int arguments_report(const struct echo *echo, hf_job *job, const char *args, size_t length)
{
    char *json = malloc(length + 1);
    if (json == NULL)
        return HF_FAIL;
    memcpy(json, args, length);
    json[length] = '\0';
    kit_result(&echo->kit, job, json);
    free(json);
    return HF_OK;
}

static int run(hf_job *job, void *state)
{
    const struct echo *echo = state;
    const char *mode = "";
    size_t length;
    const char *args = echo->kit.job->args(job, &length);
    echo->kit.job->log(job, HF_LOG_DEBUG, "%zu bytes of arguments", length);
    if (!echo->kit.job->arg_text(job, 0, &mode))
        return HF_OK;
    if (strcmp(mode, "discard") == 0)
        return HF_DISCARD;
    if (strcmp(mode, "result") == 0)
        return arguments_report(echo, job, args, length);
    if (strcmp(mode, "crash") == 0)
        return crash(echo, job);
    if (strcmp(mode, "fail") != 0 && strcmp(mode, "bury") != 0)
        return HF_OK;
    echo->kit.job->error(job, "EchoError", "asked to %s", mode);
    return strcmp(mode, "fail") == 0 ? HF_FAIL : HF_BURY;
}

static int open_echo(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    struct echo *echo = kit_state(sizeof *echo, host, reason, reason_size);
    if (echo == NULL)
        return -1;
    echo->may_crash = strcmp(kit_setting(host, "crash", ""), "allowed") == 0;
    *state = echo;
    return 0;
}

static const hf_handler handler = {
    .size = sizeof handler,
    .name = "echo",
    .about = "does nothing; the first argument may ask it to fail or to report",
    .run = run,
    .isolation = HF_ISOLATION_THREAD,
};
static const hf_handler *const handlers[] = {&handler, NULL};

const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("echo", "1.0"), .open = open_echo, .close = free,
                                   .handlers = handlers};
