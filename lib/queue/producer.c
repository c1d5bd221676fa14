/* A producer with a loop thread of its own, its streams, and the calls that push a known number of tasks; see
 * holdfast.h. */
#include "queue/holdfast.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "queue/push.h"

struct hf_producer {
    struct loop *loop;
    struct push *push; /* the loop's */
    pthread_t thread;
    struct envelope_limits limits;
    pthread_mutex_t mutex; /* for what streams count, and the clock */
    pthread_cond_t clock_changed;
    struct wall_time told; /* by the node, at told_at; 0 = never */
    struct instant told_at;
    bool was_awaited;
    struct loop_message close_message;
};

const char *hf_push_answer_name(enum hf_push_answer answer)
{
    static const char *const names[] = {
        [HF_PUSH_QUEUED] = "queued",           [HF_PUSH_SCHEDULED] = "scheduled", [HF_PUSH_DUPLICATE] = "duplicate",
        [HF_PUSH_REFUSED] = "refused",         [HF_PUSH_DENIED] = "denied",       [HF_PUSH_INVALID] = "invalid",
        [HF_PUSH_UNREACHABLE] = "unreachable", [HF_PUSH_DROPPED] = "dropped",     [HF_PUSH_UNKNOWN] = "unknown",
    };
    return (size_t)answer < sizeof names / sizeof names[0] ? names[answer] : "?";
}

/* --- the node's clock --------------------------------------------------------------------------------------------- */

static void clock_told(void *context, struct wall_time node, struct instant at)
{
    struct hf_producer *producer = context;
    pthread_mutex_lock(&producer->mutex);
    producer->was_awaited = true;
    if (node.us > 0) {
        producer->told = node;
        producer->told_at = at;
    }
    pthread_cond_broadcast(&producer->clock_changed);
    pthread_mutex_unlock(&producer->mutex);
}

struct wall_time hf_producer_now(struct hf_producer *producer)
{
    bool may_wait = !pthread_equal(pthread_self(), producer->thread); /* which runs `ended` of streams */
    pthread_mutex_lock(&producer->mutex);
    while (may_wait && !producer->was_awaited)
        pthread_cond_wait(&producer->clock_changed, &producer->mutex);
    struct wall_time told = producer->told;
    struct instant at = producer->told_at;
    pthread_mutex_unlock(&producer->mutex);
    if (told.us == 0)
        return wall_now();
    return (struct wall_time){told.us + instant_since(at, instant_now()) / NS_PER_US};
}

/* --- one producer ------------------------------------------------------------------------------------------------- */

static void *producer_run(void *argument)
{
    struct hf_producer *producer = argument;
    loop_run(producer->loop);
    return NULL;
}

static struct push_options push_options(const struct hf_producer_options *options)
{
    bool is_elsewhere = options->unix_path != NULL || options->sentinel_count > 0;
    const char *host = options->host != NULL ? options->host : "127.0.0.1";
    return (struct push_options){
        .node = {.name = "queue",
                 .host = is_elsewhere ? NULL : host,
                 .port = options->port,
                 .unix_path = options->unix_path,
                 .sentinels = {.master = options->sentinel_master,
                               .addresses = options->sentinels,
                               .count = options->sentinel_count,
                               .user = options->sentinel_user,
                               .password = options->sentinel_password,
                               .password_file = options->sentinel_password_file},
                 .user = options->user,
                 .password = options->password,
                 .password_file = options->password_file,
                 .database = options->database,
                 .client_name = options->client_name != NULL ? options->client_name : "holdfast-producer",
                 .connect_timeout_ns = options->connect_timeout_ms * NS_PER_MS,
                 .tls = {.is_on = options->tls,
                         .ca_file = options->tls_ca_file,
                         .cert_file = options->tls_cert_file,
                         .key_file = options->tls_key_file,
                         .server_name = options->tls_server_name}},
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
        return error_set(error, "the number of sentinels is set, but their list is NULL");
    if (options->sentinel_count == 0 && options->sentinel_master != NULL)
        return error_set(error, "the name of a master needs sentinels that know where it is");
    if (options->sentinel_count > 0 && (options->sentinel_master == NULL || options->sentinel_master[0] == '\0'))
        return error_set(error, "sentinels need the name of the master");
    if (options->sentinel_user != NULL && options->sentinel_password == NULL && options->sentinel_password_file == NULL)
        return error_set(error, "the sentinel_user needs a sentinel_password");
    for (size_t i = 0; i < options->sentinel_count; i++)
        if (options->sentinels[i] == NULL)
            return error_set(error, "the address of a sentinel is NULL");
    return true;
}

static bool options_check(const struct hf_producer_options *options, struct error *error)
{
    static const int64_t longest_ms = 1800 * MS_PER_S;
    if (options == NULL)
        return error_set(error, "there are no options: they are NULL");
    if (!address_check(options, error))
        return false;
    const struct redis_node_options node = push_options(options).node;
    if (!redis_node_options_check(&node, error))
        return false;
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
    pthread_cond_init(&producer->clock_changed, NULL);
    all.told = clock_told;
    all.told_context = producer;
    producer->push = push_create(producer->loop, &all);
    if (thread_spawn(&producer->thread, "hf_producer", producer_run, producer) == 0)
        return producer;
    snprintf(reason, reason_size, "no thread could be started");
    push_destroy(producer->push);
    loop_destroy(producer->loop);
    pthread_cond_destroy(&producer->clock_changed);
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
    pthread_cond_destroy(&producer->clock_changed);
    pthread_mutex_destroy(&producer->mutex);
    free(producer);
}

/* --- streams ------------------------------------------------------------------------------------------------------ */

/* Streams: packets carry the tasks of callers' threads to the loop.
 *
 * The caller's thread makes the tasks (checking and completing them is the expensive part) and packs them; the loop
 * only unpacks them into batches. The producer's mutex, which outlives every stream, guards the counts that both sides
 * use. A stream is freed once every added task has its end and no packet is on its way; the loop's last act on it is
 * to signal under that mutex. */

enum {
    PACKET_TASKS = 1000,
    PACKET_BYTES = 1 << 20,
    STREAM_TASKS = 8 * PACKET_TASKS,
    STREAM_BYTES = 8 * PACKET_BYTES,
};

/* Of a task in the texts of a packet: its payload, then its queue, jid and digest, each with its NUL. */
struct packed {
    size_t payload_length;
    int64_t at_us, unique_ms;
    uint64_t number;
};

struct packet {
    struct loop_message message;
    struct hf_stream *stream;
    struct buffer texts, tasks;
    size_t count;
    bool flushes, drops;
};

struct hf_stream {
    struct push_source source; /* the loop's */
    struct hf_producer *producer;
    struct task_builder *builder; /* the caller's thread's; NULL when each task has its own */
    struct packet *packet;        /* likewise; NULL when there is none */
    void (*ended)(void *context, const struct hf_stream_report *report);
    void *context;
    /* Under the producer's mutex. */
    size_t tasks, bytes;
    int packets; /* on their way, and what else the loop has in hand */
    pthread_cond_t changed;
};

/* --- on the loop -------------------------------------------------------------------------------------------------- */

/* `packets` may be negative. The loop also counts here while it uses the stream. */
static void stream_account(struct hf_stream *stream, size_t tasks, size_t bytes, int packets)
{
    struct hf_producer *producer = stream->producer;
    pthread_mutex_lock(&producer->mutex);
    stream->tasks -= tasks;
    stream->bytes -= bytes;
    stream->packets -= packets;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&producer->mutex);
}

/* Counted before `ended` runs, so that `ended` finds room. */
static void batch_ended(struct push_source *source, const struct hf_stream_report *report, size_t bytes)
{
    struct hf_stream *stream = list_owner(source, struct hf_stream, source);
    stream_account(stream, report->count, bytes, -1);
    stream->ended(stream->context, report);
    stream_account(stream, 0, 0, 1);
}

static void packet_free(struct packet *packet)
{
    buffer_fini(&packet->texts);
    buffer_fini(&packet->tasks);
    free(packet);
}

static const char *text_unpack(const char **texts)
{
    const char *text = *texts;
    *texts += strlen(text) + 1;
    return text;
}

static void packet_unpack(const struct packet *packet, struct push *push, struct push_source *source)
{
    const struct packed *packed = (const struct packed *)(const void *)packet->tasks.bytes;
    const char *texts = packet->texts.bytes;
    for (size_t i = 0; i < packet->count; i++, packed++) {
        struct built_task task = {
            .payload = {texts, packed->payload_length}, .at_us = packed->at_us, .unique_ms = packed->unique_ms};
        texts += packed->payload_length;
        task.queue = text_unpack(&texts);
        task.jid = text_unpack(&texts);
        task.digest = text_unpack(&texts);
        push_add(push, source, &task, packed->number);
    }
}

static void packet_deliver(struct loop_message *message)
{
    struct packet *packet = list_owner(message, struct packet, message);
    struct hf_stream *stream = packet->stream;
    struct push *push = stream->producer->push;
    packet_unpack(packet, push, &stream->source);
    if (packet->drops)
        push_drop(push, &stream->source);
    else if (packet->flushes)
        push_flush(push, &stream->source);
    packet_free(packet);
    stream_account(stream, 0, 0, 1);
}

/* --- on the callers' threads -------------------------------------------------------------------------------------- */

static struct packet *packet_of(struct hf_stream *stream)
{
    if (stream->packet == NULL) {
        stream->packet = memory_new(struct packet);
        stream->packet->stream = stream;
        stream->packet->message.deliver = packet_deliver;
    }
    return stream->packet;
}

static void packet_post(struct hf_stream *stream)
{
    struct hf_producer *producer = stream->producer;
    struct packet *packet = stream->packet;
    stream->packet = NULL;
    pthread_mutex_lock(&producer->mutex);
    stream->packets++;
    pthread_mutex_unlock(&producer->mutex);
    loop_post(producer->loop, &packet->message);
}

static void task_pack(struct packet *packet, const struct built_task *task, uint64_t number)
{
    const char *const texts[] = {task->queue, task->jid, task->digest};
    struct packed packed = {
        .payload_length = task->payload.length, .at_us = task->at_us, .unique_ms = task->unique_ms, .number = number};
    buffer_append(&packet->texts, task->payload.bytes, task->payload.length);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        buffer_append(&packet->texts, texts[i], strlen(texts[i]) + 1);
    buffer_append(&packet->tasks, &packed, sizeof packed);
    packet->count++;
}

static bool is_full(const struct hf_stream *stream)
{
    return stream->tasks >= STREAM_TASKS || stream->bytes >= STREAM_BYTES;
}

/* Waits for room for a task and counts it. Sends what was packed before, or there might never be room. */
static void room_take(struct hf_stream *stream, size_t bytes)
{
    struct hf_producer *producer = stream->producer;
    if (hf_stream_is_full(stream))
        hf_stream_flush(stream);
    pthread_mutex_lock(&producer->mutex);
    while (is_full(stream))
        pthread_cond_wait(&stream->changed, &producer->mutex);
    stream->tasks++;
    stream->bytes += bytes;
    pthread_mutex_unlock(&producer->mutex);
}

void hf_stream_add_built(struct hf_stream *stream, const struct built_task *task, uint64_t number)
{
    room_take(stream, task->payload.length);
    struct packet *packet = packet_of(stream);
    task_pack(packet, task, number);
    if (packet->count == PACKET_TASKS || packet->texts.length >= PACKET_BYTES)
        packet_post(stream);
}

bool hf_stream_add(struct hf_stream *stream, const char *text, size_t length, uint64_t number, char *reason,
                   size_t reason_size)
{
    struct error error = ERROR_NONE;
    struct built_task task;
    if (text == NULL || !task_build(stream->builder, text, length, hf_producer_now(stream->producer), &task, &error)) {
        snprintf(reason, reason_size, "%s", text == NULL ? "the text is NULL" : error.text);
        return false;
    }
    hf_stream_add_built(stream, &task, number);
    return true;
}

bool hf_stream_is_full(const struct hf_stream *stream)
{
    pthread_mutex_lock(&stream->producer->mutex);
    bool full = is_full(stream);
    pthread_mutex_unlock(&stream->producer->mutex);
    return full;
}

bool hf_stream_is_idle(const struct hf_stream *stream)
{
    pthread_mutex_lock(&stream->producer->mutex);
    bool idle = stream->tasks == 0;
    pthread_mutex_unlock(&stream->producer->mutex);
    return idle;
}

void hf_stream_flush(struct hf_stream *stream)
{
    packet_of(stream)->flushes = true;
    packet_post(stream);
}

void hf_stream_drop(struct hf_stream *stream)
{
    packet_of(stream)->drops = true;
    packet_post(stream);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct hf_stream *hf_stream_open_built(struct hf_producer *producer,
                                       void (*ended)(void *context, const struct hf_stream_report *report),
                                       void *context)
{
    struct hf_stream *stream = memory_new(struct hf_stream);
    push_source_init(&stream->source, batch_ended);
    stream->producer = producer;
    stream->ended = ended;
    stream->context = context;
    pthread_cond_init(&stream->changed, NULL);
    return stream;
}

struct hf_stream *hf_stream_open(struct hf_producer *producer, const struct hf_task *defaults,
                                 void (*ended)(void *context, const struct hf_stream_report *report), void *context,
                                 char *reason, size_t reason_size)
{
    struct error error = ERROR_NONE;
    if (producer == NULL || defaults == NULL || ended == NULL) {
        snprintf(reason, reason_size, "a stream needs a producer, defaults and a function: one of them is NULL");
        return NULL;
    }
    struct hf_task without_text = *defaults;
    without_text.json = NULL;
    struct task_builder *builder = task_builder_create(&without_text, &producer->limits, NULL, &error);
    if (builder == NULL) {
        snprintf(reason, reason_size, "%s", error.text);
        return NULL;
    }
    struct hf_stream *stream = hf_stream_open_built(producer, ended, context);
    stream->builder = builder;
    return stream;
}

void hf_stream_close(struct hf_stream *stream)
{
    struct hf_producer *producer = stream->producer;
    hf_stream_flush(stream);
    pthread_mutex_lock(&producer->mutex);
    while (stream->tasks > 0 || stream->packets > 0)
        pthread_cond_wait(&stream->changed, &producer->mutex);
    pthread_mutex_unlock(&producer->mutex);
    pthread_cond_destroy(&stream->changed);
    task_builder_destroy(stream->builder);
    free(stream);
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

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

/* False with a reason if it is not a task. */
static bool task_take(struct hf_stream *stream, const struct envelope_limits *limits, const struct hf_task *task,
                      uint64_t number, char jid[HF_JID_SIZE], struct error *error)
{
    if (task->json == NULL && task->class_name == NULL)
        return error_set(error, "it has neither a class nor JSON");
    struct task_builder *builder = task_builder_create(task, limits, NULL, error);
    const char *text = task->json != NULL ? task->json : task->args != NULL ? task->args : "[]";
    struct built_task built;
    bool is_sound =
        builder != NULL && task_build(builder, text, strlen(text), hf_producer_now(stream->producer), &built, error);
    if (is_sound && jid != NULL)
        memcpy(jid, built.jid, strlen(built.jid) + 1);
    if (is_sound)
        hf_stream_add_built(stream, &built, number);
    task_builder_destroy(builder);
    return is_sound;
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
    struct hf_stream *stream = hf_stream_open_built(producer, gather, &gathering);
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
