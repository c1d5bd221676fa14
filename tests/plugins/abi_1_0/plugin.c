/* A plugin of version 1.0 of the interface that uses everything of it: see README.md. What is not as version 1.0 says
 * buries its task with the name of the function. It does not change any more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plugins/abi_1_0/job.h"

static const hf_job_api *job_api;
static const hf_lock_api *lock_api;
static const hf_cancel_api *cancel_api;
static const hf_report_api *report_api;
static const hf_checkpoint_api *checkpoint_api;
static const hf_push_api *push_api;

static int open_abi(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    job_api = host->api("job", 1);
    lock_api = host->api("lock", 1);
    cancel_api = host->api("cancel", 1);
    report_api = host->api("report", 1);
    checkpoint_api = host->api("checkpoint", 1);
    push_api = host->api("push", 1);
    int has_all =
        host->size >= sizeof *host && host->abi_major == HF_ABI_MAJOR && host->api("no such table", 1) == NULL &&
        host->api("job", 1000) == NULL && job_api != NULL && job_api->size >= sizeof *job_api && lock_api != NULL &&
        lock_api->size >= sizeof *lock_api && cancel_api != NULL && cancel_api->size >= sizeof *cancel_api &&
        report_api != NULL && report_api->size >= sizeof *report_api && checkpoint_api != NULL &&
        checkpoint_api->size >= sizeof *checkpoint_api && push_api != NULL && push_api->size >= sizeof *push_api;
    const char *word = host->setting(host, "word");
    if (!has_all || word == NULL || host->setting(host, "no such setting") != NULL) {
        snprintf(reason, reason_size, "the host has not all of version 1.0, or no setting word");
        return 1;
    }
    *state = strdup(word);
    return *state == NULL;
}

static const char *facts_fault(hf_job *job, const char *word)
{
    static const hf_field fields[] = {{"one", "1"}, {"two", "second"}};
    size_t length = 0;
    int64_t number = 0;
    const char *text = NULL, *args = job_api->args(job, &length);
    if (job_api->jid(job)[0] == '\0')
        return "jid";
    if (strcmp(job_api->class_name(job), "abi.all") != 0)
        return "class_name";
    if (job_api->queue(job)[0] == '\0')
        return "queue";
    if (length < 2 || args[0] != '[' || args[length - 1] != ']')
        return "args";
    if (!job_api->arg_integer(job, 0, &number) || number != 7 || job_api->arg_integer(job, 1, &number))
        return "arg_integer";
    if (!job_api->arg_text(job, 1, &text) || strcmp(text, word) != 0 || job_api->arg_text(job, 0, &text))
        return "arg_text";
    job_api->log(job, HF_LOG_INFO, "the word is %s", word);
    job_api->event(job, HF_LOG_INFO, "abi_event", fields, 2);
    return NULL;
}

static const char *lock_fault(hf_job *job)
{
    const char *const *names = NULL;
    if (lock_api->valid_for_ms(job) <= 0)
        return "valid_for_ms";
    if (lock_api->resources(job, &names) != 2 || strcmp(names[0], "abi:a") != 0 || strcmp(names[1], "abi:b") != 0)
        return "resources";
    if (lock_api->in_danger(job))
        return "in_danger";
    if (lock_api->fence(job, 0)[0] == '\0' || lock_api->fence(job, 2)[0] != '\0')
        return "fence";
    if (!lock_api->verify(job))
        return "verify";
    if (lock_api->descriptor(job) < 0)
        return "descriptor";
    if (cancel_api->cancelled(job))
        return "cancelled";
    return cancel_api->reason(job) != HF_NOT_CANCELLED ? "reason" : NULL;
}

/* The first run saves how far it is and fails, the second finds it. */
static const char *way_fault(hf_job *job)
{
    const char *saved = checkpoint_api->load(job);
    if (job_api->attempt(job) == 0 && saved != NULL)
        return "load at first";
    if (job_api->attempt(job) > 0 && (saved == NULL || strstr(saved, "\"step\"") == NULL))
        return "load";
    if (checkpoint_api->save(job, "no JSON") || !checkpoint_api->save(job, "{\"step\":1}"))
        return "save";
    if (report_api->progress(job, "{") || !report_api->progress(job, "{\"step\":1,\"steps\":2}"))
        return "progress";
    return report_api->retry_in(job, -1) || !report_api->retry_in(job, 10) ? "retry_in" : NULL;
}

static const char *end_fault(hf_job *job)
{
    char reason[256] = "";
    if (report_api->result(job, "no JSON") || !report_api->result(job, "{\"abi\":\"1.0\"}"))
        return "result";
    if (push_api->add(job, "[]", reason, sizeof reason) || reason[0] == '\0')
        return "add of what is no task";
    return push_api->add(job, "{\"class\":\"abi.follower\",\"args\":[]}", reason, sizeof reason) ? NULL : "add";
}

static int run(hf_job *job, void *state)
{
    const char *fault = facts_fault(job, state);
    if (fault == NULL)
        fault = lock_fault(job);
    if (fault == NULL)
        fault = way_fault(job);
    if (fault == NULL && job_api->attempt(job) > 0)
        fault = end_fault(job);
    if (fault != NULL) {
        job_api->error(job, "Abi::Changed", "%s is not what it was", fault);
        return HF_BURY;
    }
    if (job_api->attempt(job) > 0)
        return HF_OK;
    job_api->error(job, "Abi::FirstRun", "it fails once");
    return HF_FAIL;
}

static int run_follower(hf_job *job, void *state)
{
    (void)state;
    job_api->log(job, HF_LOG_INFO, "followed");
    return HF_OK;
}

static int check(const char *args, size_t length, char *reason, size_t reason_size)
{
    if (length > 2 && args[0] == '[')
        return 1;
    snprintf(reason, reason_size, "there are no arguments");
    return 0;
}

static const char *const resources[] = {"abi:a", "abi:b", NULL};
static const hf_handler all = {.size = sizeof all,
                               .name = "abi.all",
                               .about = "uses everything",
                               .flags = HF_LOCK_REQUIRED | HF_PROGRESS,
                               .run = run,
                               .check = check,
                               .resources = resources,
                               .isolation = HF_ISOLATION_THREAD};
static const hf_handler follower = {
    .size = sizeof follower, .name = "abi.follower", .run = run_follower, .isolation = HF_ISOLATION_THREAD};
static const char *const other_resources[] = {"abi_member:{0}", "abi_members", NULL};
/* Each member with a value of its own. */
static const hf_handler members = {.size = sizeof members,
                                   .name = "abi.members",
                                   .about = "says everything",
                                   .flags = HF_SERIAL | HF_NO_GRAVE,
                                   .run = run_follower,
                                   .check = check,
                                   .retries = 3,
                                   .retry_for_ms = 4,
                                   .retry_queue = "abi_later",
                                   .expires_in_ms = 5,
                                   .mode = HF_EFFICIENCY,
                                   .resources = other_resources,
                                   .on_conflict = HF_CONFLICT_DELAY,
                                   .hold_at_least_ms = 6,
                                   .isolation = HF_ISOLATION_PROCESS,
                                   .timeout_ms = 7,
                                   .grace_ms = 8,
                                   .max_hold_ms = 9};
static const hf_handler *const handlers[] = {&all, &follower, &members, NULL};

HF_EXPORT const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("abi_1_0", "1.0"), .build = "for ever", .open = open_abi,
                                             .close = free, .handlers = handlers};
