/* webhook: calls an HTTP server. Class: webhook. docs/jobs.md is its manual.
 *
 * Arguments: [{"url":..., "method":..., "headers":{...}, "body":..., "timeout":...}], or [URL] or [URL, BODY].
 *
 * How a call ends. 2xx is done, with the answer as result. An unreachable server, a timeout, 5xx, 408, 425 and 429 fail
 * and are retried when the server says so (Retry-After) or after the usual delay. After any other answer the task is
 * buried: the same request would get it again. The server may see a request twice (an answer may get lost, the worker
 * may die): the header Holdfast-Task is the same each time.
 *
 * Addresses. Producers may pass on URLs of their users, and the worker is inside the network. So it connects only to
 * public addresses, unless the settings allow others. It checks the address at each connect, and again at each
 * redirect.
 *
 * Secrets. Errors and log lines name scheme, host and port only: paths, queries and headers often hold secrets.
 *
 * Threads: each has its own handle, which keeps connections open.
 *
 * Settings: secret or secret_file (the key for signatures; default none), signature_header (default
 * "Holdfast-Signature"), allow_private ("yes" or "no"; default "no"), private_hosts (names that may have private
 * addresses; default none), redirects (how many to follow, up to 10; default "0"), timeout (seconds for tasks
 * without one, up to 300; default "10"), ca_file (certificates to trust instead of the system's). */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/kit.h"
#include "jobs/per_thread.h"
#include "jobs/webhook/call.h"
#include "jobs/webhook/delivery.h"
#include "jobs/webhook/request.h"

enum { REASON_MAX = 320, SECRET_MAX = 4096, REDIRECTS_MAX = 10, TIMEOUT_MAX_S = 300, RETRY_AFTER_MAX_S = 86400 };

struct webhook {
    struct kit kit;
    char *secret, *signature_header, *private_hosts, *ca_file;
    int is_private_allowed;
    int64_t redirects, timeout_s;
    struct per_thread callers;
};

/* One delivery: the request of the task, and its present target. */
struct delivery {
    const struct webhook *webhook;
    hf_job *job;
    struct webhook_caller *caller;
    struct webhook_request request;
    struct webhook_task task;
    int64_t deadline_ns;
    struct webhook_place moved; /* where a redirect led; empty at first */
};

static const struct webhook_place *place_of(const struct delivery *delivery)
{
    return delivery->moved.url != NULL ? &delivery->moved : &delivery->request.place;
}

/* --- how it ends -------------------------------------------------------------------------------------------- */

static int end_with(const struct delivery *delivery, int code, const char *error_class, const char *what)
{
    const struct webhook_place *place = place_of(delivery);
    delivery->webhook->kit.job->error(delivery->job, error_class, "%s://%.200s:%s %s", place->scheme, place->host,
                                      place->port, what);
    return code;
}

static int is_worth_another_try(long status)
{
    return status >= 500 || status == 408 || status == 425 || status == 429;
}

static void come_again_when_told(const struct delivery *delivery, const struct webhook_call *call)
{
    const struct kit *kit = &delivery->webhook->kit;
    int64_t seconds = call->retry_after_s < RETRY_AFTER_MAX_S ? call->retry_after_s : RETRY_AFTER_MAX_S;
    if (seconds > 0)
        kit->report->retry_in(delivery->job, seconds * 1000);
}

static int end_of_answer(const struct delivery *delivery, const struct webhook_call *call)
{
    char what[64];
    if (call->status < 300) {
        char *result = webhook_result(call);
        if (result != NULL)
            kit_result(&delivery->webhook->kit, delivery->job, result);
        free(result);
        return HF_OK;
    }
    snprintf(what, sizeof what, "answered %ld", call->status);
    if (!is_worth_another_try(call->status))
        return end_with(delivery, HF_BURY, "WebhookAnswer", what);
    come_again_when_told(delivery, call);
    return end_with(delivery, HF_FAIL, "WebhookAnswer", what);
}

static int end_of_call(const struct delivery *delivery, const struct webhook_call *call, enum webhook_end end)
{
    char what[CURL_ERROR_SIZE + 64];
    switch (end) {
    case WEBHOOK_ANSWERED:
        return end_of_answer(delivery, call);
    case WEBHOOK_REFUSED:
        snprintf(what, sizeof what, "has an address that is not public (%s): see allow_private and private_hosts",
                 call->refusal);
        return end_with(delivery, HF_BURY, "WebhookRefused", what);
    case WEBHOOK_LATE:
        return end_with(delivery, HF_FAIL, "WebhookTimeout", "did not answer in time");
    case WEBHOOK_STOPPED:
        return HF_CANCELLED;
    case WEBHOOK_UNREACHABLE:
        break;
    }
    snprintf(what, sizeof what, "could not be called: %s", call->trouble);
    return end_with(delivery, HF_FAIL, "WebhookUnreachable", what);
}

/* --- redirects ---------------------------------------------------------------------------------------------- */

static int is_redirect(const struct webhook_call *call, enum webhook_end end)
{
    return end == WEBHOOK_ANSWERED && call->redirect != NULL && call->status >= 301 && call->status <= 308;
}

/* 307 and 308 repeat a request; after the others clients use GET, which is not the task's request. */
static const char *obstacle_to_redirect(const struct delivery *delivery, const struct webhook_call *call,
                                        int64_t followed, const struct webhook_place *next)
{
    const char *method = delivery->request.method;
    if (followed >= delivery->webhook->redirects)
        return "answered with a redirect, and no (more) redirects are followed: see the setting redirects";
    if (call->status < 307 && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return "answered with a redirect that does not keep the method";
    if (strcmp(place_of(delivery)->scheme, "https") == 0 && strcmp(next->scheme, "https") != 0)
        return "answered with a redirect from https to http";
    return NULL;
}

/* HF_OK: the delivery has a new target. */
static int follow(struct delivery *delivery, const struct webhook_call *call, int64_t followed)
{
    char reason[REASON_MAX];
    struct webhook_place next;
    const char *obstacle = webhook_place_read(&next, call->redirect, reason, sizeof reason)
                               ? obstacle_to_redirect(delivery, call, followed, &next)
                               : "answered with a redirect to what is no good url";
    if (obstacle != NULL) {
        webhook_place_fini(&next);
        return end_with(delivery, HF_BURY, "WebhookRedirect", obstacle);
    }
    webhook_place_fini(&delivery->moved);
    delivery->moved = next;
    return HF_OK;
}

/* --- the call ----------------------------------------------------------------------------------------------- */

static int must_stop(void *value)
{
    const struct delivery *delivery = value;
    return delivery->webhook->kit.cancel->cancelled(delivery->job);
}

/* Sends the request to its present target. -1: there is a new one. */
static int deliver_once(struct delivery *delivery, int64_t followed)
{
    const struct webhook *webhook = delivery->webhook;
    const struct webhook_place *place = place_of(delivery);
    const struct webhook_request *request = &delivery->request;
    const struct webhook_seal seal = {webhook->signature_header, webhook->secret,
                                      webhook->secret != NULL ? strlen(webhook->secret) : 0};
    struct curl_slist *headers = webhook_headers(request, &delivery->task, &seal, (int64_t)time(NULL),
                                                 !webhook_place_is_same(place, &request->place));
    if (headers == NULL)
        return end_with(delivery, HF_FAIL, "WebhookUnreachable", "could not be called: out of memory");
    struct webhook_call call = {
        .url = place->url,
        .method = request->method,
        .headers = headers,
        .body = request->body,
        .body_length = request->body_length,
        .deadline_ns = delivery->deadline_ns,
        .is_private_allowed = webhook->is_private_allowed || webhook_place_is_among(place, webhook->private_hosts),
        .ca_file = webhook->ca_file[0] != '\0' ? webhook->ca_file : NULL,
        .must_stop = must_stop,
        .job = delivery,
        .wake_fd = webhook->kit.lock->descriptor(delivery->job),
    };
    enum webhook_end end = webhook_caller_run(delivery->caller, &call);
    int code = is_redirect(&call, end) ? follow(delivery, &call, followed) : end_of_call(delivery, &call, end);
    if (is_redirect(&call, end) && code == HF_OK)
        code = -1;
    webhook_call_fini(&call);
    curl_slist_free_all(headers);
    return code;
}

static int deliver(struct delivery *delivery)
{
    const struct kit *kit = &delivery->webhook->kit;
    int64_t timeout_ms =
        delivery->request.timeout_ms > 0 ? delivery->request.timeout_ms : delivery->webhook->timeout_s * 1000;
    int code = -1;
    delivery->deadline_ns = kit_now_ns() + timeout_ms * NS_PER_MS;
    delivery->task.jid = kit->job->jid(delivery->job);
    delivery->task.attempt = kit->job->attempt(delivery->job);
    delivery->task.resource_count = kit->lock->resources(delivery->job, &delivery->task.resources);
    delivery->task.fence = kit->lock->fence(delivery->job, 0);
    for (int64_t followed = 0; code < 0; followed++)
        code = deliver_once(delivery, followed);
    webhook_place_fini(&delivery->moved);
    return code;
}

static struct webhook_caller *caller_of_thread(struct webhook *webhook)
{
    struct webhook_caller *caller = per_thread_get(&webhook->callers);
    if (caller != NULL)
        return caller;
    caller = webhook_caller_create();
    if (caller == NULL || per_thread_set(&webhook->callers, caller) == 0)
        return caller;
    webhook_caller_destroy(caller);
    return NULL;
}

static int run(hf_job *job, void *state)
{
    struct webhook *webhook = state;
    struct delivery delivery = {.webhook = webhook, .job = job, .caller = caller_of_thread(webhook)};
    char reason[REASON_MAX];
    size_t length = 0;
    const char *args = webhook->kit.job->args(job, &length);
    int code;
    if (!webhook_request_read(&delivery.request, args, length, reason, sizeof reason))
        code = kit_bury(&webhook->kit, job, "HF::BadArguments", reason);
    else if (delivery.caller == NULL)
        code = end_with(&delivery, HF_FAIL, "WebhookUnreachable", "could not be called: out of memory");
    else
        code = deliver(&delivery);
    webhook_request_fini(&delivery.request);
    return code;
}

static int check(const char *args, size_t length, char *reason, size_t reason_size)
{
    struct webhook_request request;
    int is_good = webhook_request_read(&request, args, length, reason, reason_size);
    webhook_request_fini(&request);
    return is_good;
}

/* --- opening ------------------------------------------------------------------------------------------------ */

/* The first line of the file. */
static int secret_read(struct webhook *webhook, const char *path, char *reason, size_t reason_size)
{
    struct stat facts;
    char text[SECRET_MAX + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 && fstat(fd, &facts) == 0 ? read(fd, text, sizeof text) : -1;
    if (fd >= 0)
        close(fd);
    if (length < 0)
        return kit_fail(reason, reason_size, "the file of the setting secret_file cannot be read");
    if ((facts.st_mode & (S_IRWXO | S_IWGRP)) != 0)
        return kit_fail(reason, reason_size, "the file of the setting secret_file is open to others: chmod 600 it");
    const char *line_end = memchr(text, '\n', (size_t)length);
    size_t line = line_end != NULL ? (size_t)(line_end - text) : (size_t)length;
    if (line == 0 || line > SECRET_MAX || memchr(text, '\0', line) != NULL)
        return kit_fail(reason, reason_size,
                        "the file of the setting secret_file is to hold a line of 1 to 4096 bytes");
    webhook->secret = strndup(text, line);
    explicit_bzero(text, sizeof text);
    return webhook->secret != NULL ? 0 : kit_fail(reason, reason_size, "out of memory");
}

static int secret_find(struct webhook *webhook, const hf_host *host, char *reason, size_t reason_size)
{
    const char *secret = host->setting(host, "secret"), *path = host->setting(host, "secret_file");
    if (secret != NULL && path != NULL)
        return kit_fail(reason, reason_size, "the settings secret and secret_file exclude each other");
    if (path != NULL)
        return secret_read(webhook, path, reason, reason_size);
    if (secret == NULL)
        return 0;
    if (secret[0] == '\0')
        return kit_fail(reason, reason_size, "the setting secret is empty");
    webhook->secret = strdup(secret);
    return webhook->secret != NULL ? 0 : kit_fail(reason, reason_size, "out of memory");
}

static int header_is_good(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-";
    return name[0] != '\0' && strlen(name) <= 64 && strspn(name, allowed) == strlen(name);
}

static int settings_read(struct webhook *webhook, const hf_host *host, char *reason, size_t reason_size)
{
    const char *private = kit_setting(host, "allow_private", "no");
    webhook->timeout_s = 10;
    webhook->signature_header = strdup(kit_setting(host, "signature_header", "Holdfast-Signature"));
    webhook->private_hosts = strdup(kit_setting(host, "private_hosts", ""));
    webhook->ca_file = strdup(kit_setting(host, "ca_file", ""));
    if (webhook->signature_header == NULL || webhook->private_hosts == NULL || webhook->ca_file == NULL)
        return kit_fail(reason, reason_size, "out of memory");
    if (!header_is_good(webhook->signature_header))
        return kit_fail(reason, reason_size,
                        "the setting signature_header is to be up to 64 letters, digits and hyphens");
    if (strcmp(private, "yes") != 0 && strcmp(private, "no") != 0)
        return kit_fail(reason, reason_size, "the setting allow_private is to be \"yes\" or \"no\"");
    if (webhook->ca_file[0] != '\0' && access(webhook->ca_file, R_OK) != 0)
        return kit_fail(reason, reason_size, "the file of the setting ca_file cannot be read");
    webhook->is_private_allowed = strcmp(private, "yes") == 0;
    if (kit_setting_number(host, "redirects", REDIRECTS_MAX, &webhook->redirects, reason, reason_size) ||
        kit_setting_number(host, "timeout", TIMEOUT_MAX_S, &webhook->timeout_s, reason, reason_size))
        return -1;
    if (webhook->timeout_s == 0)
        return kit_fail(reason, reason_size, "the setting timeout is to be 1 to 300 seconds");
    return secret_find(webhook, host, reason, reason_size);
}

static void webhook_free(struct webhook *webhook)
{
    if (webhook->secret != NULL)
        explicit_bzero(webhook->secret, strlen(webhook->secret));
    free(webhook->secret);
    free(webhook->signature_header);
    free(webhook->private_hosts);
    free(webhook->ca_file);
    free(webhook);
}

static int open_webhook(const hf_host *host, void **state, char *reason, size_t reason_size)
{
    struct webhook *webhook = kit_state(sizeof *webhook, host, reason, reason_size);
    if (webhook == NULL)
        return -1;
    int failed = settings_read(webhook, host, reason, reason_size);
    if (failed == 0 && (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
                        per_thread_init(&webhook->callers, webhook_caller_destroy) != 0))
        failed = kit_fail(reason, reason_size, "libcurl does not start");
    if (failed != 0) {
        webhook_free(webhook);
        return failed;
    }
    *state = webhook;
    return 0;
}

/* libcurl stays initialised, because one of its threads may still be resolving a name. */
static void close_webhook(void *state)
{
    struct webhook *webhook = state;
    per_thread_fini(&webhook->callers);
    webhook_free(webhook);
}

static const hf_handler handler = {
    .size = sizeof handler,
    .name = "webhook",
    .about = "calls an HTTP server; arguments: [{\"url\":..., \"body\":...}], or [URL, BODY]",
    .run = run,
    .check = check,
    .isolation = HF_ISOLATION_THREAD,
};
static const hf_handler *const handlers[] = {&handler, NULL};

const hf_plugin holdfast_plugin = {HF_PLUGIN_HEAD("webhook", "1.0"), .open = open_webhook, .close = close_webhook,
                                   .handlers = handlers};
