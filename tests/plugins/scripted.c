/* For the tests of holdfast run-handler: what the first argument says. Class: scripted. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/job.h"

enum { TEXT_MAX = 1024 };

static struct {
    const hf_job_api *job;
    const hf_lock_api *lock;
    const hf_cancel_api *cancel;
    const hf_report_api *report;
    const hf_checkpoint_api *checkpoint;
    const hf_push_api *push;
    const char *setting;
} host;

static int say_all(hf_job *job)
{
    char reason[64];
    const hf_field fields[] = {{"bytes", "7"}, {"name", "a b"}};
    host.job->log(job, HF_LOG_WARN, "a \033[31mcolour");
    host.job->event(job, HF_LOG_INFO, "stored", fields, 2);
    host.report->progress(job, "{\"done\":1}");
    host.report->progress(job, "{\"done\":2}");
    host.report->result(job, "{\"sum\":12}");
    if (!host.push->add(job, "{\"class\":\"next\",\"args\":[1]}", reason, sizeof reason))
        return HF_FAIL;
    return HF_OK;
}

static int push_nothing(hf_job *job)
{
    char reason[64] = "";
    if (host.push->add(job, "{\"args\":[1]}", reason, sizeof reason))
        return HF_OK;
    host.job->error(job, "Unpushed", "%s", reason);
    return HF_BURY;
}

static int tell_facts(hf_job *job)
{
    char text[TEXT_MAX];
    const char *const *names = NULL;
    unsigned count = host.lock->resources(job, &names);
    const char *saved = host.checkpoint->load(job);
    snprintf(text, sizeof text,
             "{\"resources\":%u,\"first\":\"%s\",\"fence\":\"%s\",\"verify\":%d,\"danger\":%d,\"valid\":%d,"
             "\"attempt\":%u,\"saved\":%s,\"setting\":\"%s\"}",
             count, count > 0 ? names[0] : "", host.lock->fence(job, 0), host.lock->verify(job),
             host.lock->in_danger(job), host.lock->valid_for_ms(job) > 0, host.job->attempt(job),
             saved != NULL ? saved : "null", host.setting != NULL ? host.setting : "");
    return host.report->result(job, text) ? HF_OK : HF_FAIL;
}

/* Only by the descriptor, which says no more than that the lock is lost. */
static int wait_for_loss(hf_job *job)
{
    struct pollfd watched = {.fd = host.lock->descriptor(job), .events = POLLIN};
    while (poll(&watched, 1, -1) < 0)
        ;
    host.job->log(job, HF_LOG_INFO, "reason %d, verify %d", (int)host.cancel->reason(job), host.lock->verify(job));
    return HF_OK;
}

static int wait_for_danger(hf_job *job)
{
    while (!host.lock->in_danger(job))
        poll(NULL, 0, 5);
    return tell_facts(job);
}

static int wait_for_order(hf_job *job)
{
    host.job->log(job, HF_LOG_INFO, "waiting");
    while (!host.cancel->cancelled(job))
        poll(NULL, 0, 5);
    return HF_CANCELLED;
}

static int be_deaf(hf_job *job)
{
    host.job->log(job, HF_LOG_INFO, "deaf");
    for (;;)
        pause();
    return HF_OK;
}

static int put_off(hf_job *job)
{
    host.report->retry_in(job, 5000);
    return HF_SNOOZE;
}

static int crash(hf_job *job)
{
    host.job->log(job, HF_LOG_INFO, "crashing");
    abort();
    return HF_OK;
}

static int leave(hf_job *job)
{
    host.job->log(job, HF_LOG_INFO, "leaving");
    exit(0);
}

static const struct {
    const char *name;
    int (*run)(hf_job *job);
} modes[] = {{"say", say_all},          {"facts", tell_facts}, {"loss", wait_for_loss}, {"danger", wait_for_danger},
             {"order", wait_for_order}, {"deaf", be_deaf},     {"snooze", put_off},     {"crash", crash},
             {"nothing", push_nothing}, {"exit", leave}};

static int run(hf_job *job, void *state)
{
    const char *mode = "";
    (void)state;
    if (!host.job->arg_text(job, 0, &mode))
        return HF_OK;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(modes[i].name, mode) == 0)
            return modes[i].run(job);
    return HF_DISCARD;
}

static int check(const char *args, size_t length, char *reason, size_t reason_size)
{
    (void)args;
    if (length < 512)
        return 1;
    snprintf(reason, reason_size, "too long for me");
    return 0;
}

static int open_plugin(const hf_host *given, void **state, char *reason, size_t reason_size)
{
    *state = NULL;
    host.job = given->api("job", 1);
    host.lock = given->api("lock", 1);
    host.cancel = given->api("cancel", 1);
    host.report = given->api("report", 1);
    host.checkpoint = given->api("checkpoint", 1);
    host.push = given->api("push", 1);
    host.setting = given->setting(given, "word");
    if (host.setting != NULL && strcmp(host.setting, "refuse") == 0) {
        snprintf(reason, reason_size, "refused, as the setting says");
        return -1;
    }
    return 0;
}

static const hf_handler handler = {
    .size = sizeof handler, .name = "scripted", .flags = HF_PROGRESS, .run = run, .check = check};
static const hf_handler *const handlers[] = {&handler, NULL};

const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("scripted", "1.0"), .open = open_plugin, .handlers = handlers};
