/* A producer with a loop thread of its own, and the calls that push a known number of tasks; see holdfast.h. */
#include "queue/producer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"

enum { PORT_DEFAULT = 6379 };

const char *hf_push_answer_name(enum hf_push_answer answer)
{
    static const char *const names[] = {
        [HF_PUSH_QUEUED] = "queued",           [HF_PUSH_SCHEDULED] = "scheduled", [HF_PUSH_DUPLICATE] = "duplicate",
        [HF_PUSH_REFUSED] = "refused",         [HF_PUSH_DENIED] = "denied",       [HF_PUSH_INVALID] = "invalid",
        [HF_PUSH_UNREACHABLE] = "unreachable", [HF_PUSH_DROPPED] = "dropped",     [HF_PUSH_UNKNOWN] = "unknown",
    };
    return (size_t)answer < sizeof names / sizeof names[0] ? names[answer] : "?";
}

/* --- one producer ------------------------------------------------------------------------------------------------- */

static void *producer_run(void *argument)
{
    struct hf_producer *producer = argument;
    loop_run(producer->loop);
    return NULL;
}

/* Signals are the program's business: its handlers must not run on our thread. */
static bool thread_start(struct hf_producer *producer)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&producer->thread, NULL, producer_run, producer) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_setname_np(producer->thread, "hf_producer");
    return started;
}

static struct push_options push_options(const struct hf_producer_options *options)
{
    bool is_elsewhere = options->unix_path != NULL || options->sentinel_count > 0;
    const char *host = options->host != NULL ? options->host : "127.0.0.1";
    return (struct push_options){
        .node = {.name = "queue",
                 .host = is_elsewhere ? NULL : host,
                 .port = is_elsewhere || options->port != 0 ? options->port : PORT_DEFAULT,
                 .unix_path = options->unix_path,
                 .sentinels = {.master = options->sentinel_master,
                               .addresses = options->sentinels,
                               .count = options->sentinel_count,
                               .user = options->sentinel_user,
                               .password = options->sentinel_password},
                 .user = options->user,
                 .password = options->password,
                 .database = options->database,
                 .client_name = options->client_name != NULL ? options->client_name : "holdfast-producer",
                 .connect_timeout_ns = options->connect_timeout_ms * NS_PER_MS},
        .timeout_ns = options->answer_ms * NS_PER_MS,
        .patience_ns = options->wait_ms * NS_PER_MS,
        .space = options->key_space,
    };
}

static bool address_check(const struct hf_producer_options *options, struct error *error)
{
    bool has_address = options->host != NULL || options->port != 0;
    if (has_address + (options->unix_path != NULL) + (options->sentinel_count > 0) > 1)
        return error_set(error, "a server has a host and a port, or a unix_path, or sentinels, not several of them");
    if (options->port > UINT16_MAX)
        return error_set(error, "the port is not 1 to 65535");
    if (options->sentinel_count > 0 && options->sentinels == NULL)
        return error_set(error, "sentinels are counted, but there is no list of them: it is NULL");
    if (options->sentinel_count == 0 && options->sentinel_master != NULL)
        return error_set(error, "the name of a master needs sentinels that know where it is");
    if (options->sentinel_count > 0 && (options->sentinel_master == NULL || options->sentinel_master[0] == '\0'))
        return error_set(error, "sentinels need the name of the master");
    for (size_t i = 0; i < options->sentinel_count; i++) {
        char host[REDIS_HOST_MAX];
        unsigned port = 0;
        if (options->sentinels[i] == NULL)
            return error_set(error, "the address of a sentinel is NULL");
        if (!redis_address_parse(options->sentinels[i], host, &port))
            return error_set(error, "'%.100s' is no address of a sentinel: host:port", options->sentinels[i]);
    }
    return true;
}

static bool options_check(const struct hf_producer_options *options, struct error *error)
{
    static const int64_t longest_ms = 1800 * MS_PER_S;
    if (options == NULL)
        return error_set(error, "there are no options: they are NULL");
    if (!address_check(options, error))
        return false;
    if (options->user != NULL && options->password == NULL)
        return error_set(error, "a user needs a password");
    if (options->wait_ms < 0 || options->answer_ms < 0 || options->connect_timeout_ms < 0 ||
        options->wait_ms > longest_ms || options->answer_ms > longest_ms || options->connect_timeout_ms > longest_ms)
        return error_set(error, "a time is not 0 to 30 minutes");
    return true;
}

struct hf_producer *hf_producer_create(const struct hf_producer_options *options, char *reason, size_t reason_size)
{
    struct error error = ERROR_NONE;
    struct loop *loop = NULL;
    if (!options_check(options, &error) || (loop = loop_create(&error)) == NULL) {
        snprintf(reason, reason_size, "%s", error.text);
        return NULL;
    }
    log_set_level(options->logs_to_stderr ? LOG_INFO : LOG_NOTHING);
    struct push_options all = push_options(options);
    struct hf_producer *producer = memory_new(struct hf_producer);
    producer->loop = loop;
    producer->limits = ENVELOPE_LIMITS_DEFAULT;
    if (options->task_bytes_max != 0)
        producer->limits.size = options->task_bytes_max;
    if (options->task_depth_max != 0)
        producer->limits.depth = options->task_depth_max;
    if (options->task_keys_max != 0)
        producer->limits.keys = options->task_keys_max;
    pthread_mutex_init(&producer->mutex, NULL);
    producer->push = push_create(producer->loop, &all);
    if (thread_start(producer))
        return producer;
    snprintf(reason, reason_size, "no thread could be started");
    push_destroy(producer->push);
    loop_destroy(producer->loop);
    pthread_mutex_destroy(&producer->mutex);
    free(producer);
    return NULL;
}

/* The push is destroyed outside of its own callback. */
static void push_finished(void *context)
{
    struct hf_producer *producer = context;
    loop_stop(producer->loop);
}

static void close_deliver(struct loop_message *message)
{
    struct hf_producer *producer = list_owner(message, struct hf_producer, close_message);
    push_finish(producer->push, push_finished, producer);
}

void hf_producer_destroy(struct hf_producer *producer)
{
    if (producer == NULL)
        return;
    producer->close_message.deliver = close_deliver;
    loop_post(producer->loop, &producer->close_message);
    pthread_join(producer->thread, NULL);
    push_destroy(producer->push); /* its loop does not run any more */
    loop_destroy(producer->loop);
    pthread_mutex_destroy(&producer->mutex);
    free(producer);
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

struct intake_options task_intake(const struct hf_task *task, const struct envelope_limits *limits)
{
    return (struct intake_options){
        .limits = *limits,
        .class_name = task->json == NULL ? task->class_name : NULL,
        .queue = task->queue,
        .jid = task->jid,
        .retry = task->retry,
        .resources = task->resources,
        .resource_count = (unsigned)(task->resource_count < UINT16_MAX ? task->resource_count : UINT16_MAX),
        .tags = task->tags,
        .tag_count = (unsigned)(task->tag_count < UINT16_MAX ? task->tag_count : UINT16_MAX),
        .at_us = task->at_ms > INT64_MAX / 1000 ? INT64_MAX : task->at_ms * 1000,
        .in_ms = task->in_ms,
        .expires_in_ms = task->expires_in_ms,
        .unique_ms = task->unique && task->unique_ms == 0 ? INTAKE_UNIQUE_MS
                     : task->unique                       ? task->unique_ms
                                                          : 0,
    };
}

const char *task_text(const struct hf_task *task)
{
    if (task->json != NULL)
        return task->json;
    return task->args != NULL ? task->args : "[]";
}

/* What one call of hf_push_many gathers; written by the loop until the last task has its end. */
struct gathering {
    struct hf_receipt *receipts; /* may be NULL */
    size_t pushed;
};

static void receipt_write(struct hf_receipt *receipt, enum hf_push_answer answer, const char *holder,
                          const char *reason)
{
    receipt->answer = answer;
    snprintf(receipt->holder, sizeof receipt->holder, "%.*s", HF_JID_SIZE - 1, holder);
    snprintf(receipt->reason, sizeof receipt->reason, "%.*s", HF_REASON_SIZE - 1, reason);
}

static void gather(void *context, const struct hf_stream_report *report)
{
    struct gathering *gathering = context;
    if (report->answer == HF_PUSH_QUEUED || report->answer == HF_PUSH_SCHEDULED)
        gathering->pushed += report->count;
    for (size_t i = 0; gathering->receipts != NULL && i < report->count; i++)
        receipt_write(&gathering->receipts[report->numbers[i]], report->answer, report->holder, report->reason);
}

/* False with a reason when it is no task. */
static bool task_take(struct hf_stream *stream, const struct envelope_limits *limits, const struct hf_task *task,
                      uint64_t number, char jid[HF_JID_SIZE], struct error *error)
{
    if (task->json == NULL && task->class_name == NULL)
        return error_set(error, "it has neither a class nor JSON");
    struct intake_options options = task_intake(task, limits);
    struct intake *intake = intake_create(&options, error);
    const char *text = task_text(task);
    bool is_taken =
        intake != NULL && stream_take(stream, intake, (struct text_span){text, strlen(text)}, number, jid, error);
    intake_destroy(intake);
    return is_taken;
}

static size_t all_refuse(struct hf_receipt *receipts, size_t count, const char *reason)
{
    for (size_t i = 0; receipts != NULL && i < count; i++) {
        receipts[i] = (struct hf_receipt){.answer = HF_PUSH_INVALID};
        receipt_write(&receipts[i], HF_PUSH_INVALID, "", reason);
    }
    return 0;
}

size_t hf_push_many(struct hf_producer *producer, const struct hf_task *tasks, size_t count,
                    struct hf_receipt *receipts)
{
    if (producer == NULL || (tasks == NULL && count > 0))
        return all_refuse(receipts, count, producer == NULL ? "the producer is NULL" : "the task is NULL");
    struct gathering gathering = {.receipts = receipts};
    struct hf_stream *stream = stream_new(producer, gather, &gathering);
    for (size_t i = 0; i < count; i++) {
        struct error error = ERROR_NONE;
        char *jid = receipts != NULL ? receipts[i].jid : NULL;
        if (receipts != NULL)
            receipts[i] = (struct hf_receipt){.answer = HF_PUSH_INVALID};
        if (!task_take(stream, &producer->limits, &tasks[i], i, jid, &error) && receipts != NULL)
            receipt_write(&receipts[i], HF_PUSH_INVALID, "", error.text);
    }
    hf_stream_close(stream);
    return gathering.pushed;
}

enum hf_push_answer hf_push(struct hf_producer *producer, const struct hf_task *task, struct hf_receipt *receipt)
{
    struct hf_receipt own;
    struct hf_receipt *to = receipt != NULL ? receipt : &own;
    hf_push_many(producer, task, 1, to);
    return to->answer;
}
