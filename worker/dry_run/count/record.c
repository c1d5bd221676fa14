/* A record is a frame: the number of its bytes (4 bytes, little-endian), a byte for its kind, and its fields in a
 * fixed order. Numbers are 7 bits a byte, the lowest first, with the eighth bit set in all but the last
 * (so little-endian too, and most take one byte or two). A text is its length, its bytes, and a NUL. An instant is the
 * distance from the first one of the record, moved by one so that 0 is left for "none". A histogram is its sums and the
 * steps that have a count.
 *
 * One walk over the fields serves both directions: each pass_* writes the value it is given, or reads and returns the
 * one that is there. Reading believes nothing: bytes come from other processes. Every length is
 * checked against what is left, and a frame with something left over is none. */
#include "worker/dry_run/count/record.h"

#include <string.h>

enum { FRAME_HEAD = 4, NUMBER_BYTES_MAX = 10, RECORD_SIGNALS = 128 };

struct codec {
    struct buffer *out;            /* what is written goes here; NULL = it reads */
    const unsigned char *at, *end; /* what is left to read */
    bool is_wrong;                 /* from then on all that is read is 0 */
    bool has_histograms;           /* else they are written as empty */
};

/* --- numbers and texts -------------------------------------------------------------------------------------------- */

static uint64_t wrong(struct codec *codec)
{
    codec->is_wrong = true;
    codec->at = codec->end;
    return 0;
}

static unsigned pass_byte(struct codec *codec, unsigned value)
{
    if (codec->out == NULL)
        return codec->at < codec->end ? *codec->at++ : (unsigned)wrong(codec);
    buffer_append(codec->out, &(char){(char)value}, 1);
    return value;
}

static void number_write(struct buffer *out, uint64_t value)
{
    char bytes[NUMBER_BYTES_MAX];
    size_t length = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[length++] = (char)(value | 0x80);
    bytes[length++] = (char)value;
    buffer_append(out, bytes, length);
}

static uint64_t number_read(struct codec *codec)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        unsigned byte = pass_byte(codec, 0);
        if (shift == 63 && byte > 1)
            return wrong(codec);
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return codec->is_wrong ? 0 : value;
    }
    return wrong(codec);
}

static uint64_t pass_number(struct codec *codec, uint64_t value, uint64_t most)
{
    if (codec->out != NULL) {
        number_write(codec->out, value);
        return value;
    }
    value = number_read(codec);
    return value <= most ? value : wrong(codec);
}

#define PASS(codec, field, most) ((field) = (__typeof__(field))pass_number(codec, (uint64_t)(field), most))

/* Small numbers of either sign become small numbers. */
static uint64_t folded(uint64_t value)
{
    return (value << 1) ^ (value >> 63 != 0 ? UINT64_MAX : 0);
}

static uint64_t unfolded(uint64_t value)
{
    return (value >> 1) ^ (0 - (value & 1));
}

static int64_t pass_signed(struct codec *codec, int64_t value)
{
    return (int64_t)unfolded(pass_number(codec, folded((uint64_t)value), UINT64_MAX));
}

static void pass_instant(struct codec *codec, struct instant base, struct instant *at)
{
    uint64_t distance = at->ns == 0 ? 0 : folded((uint64_t)at->ns - (uint64_t)base.ns) + 1;
    PASS(codec, distance, UINT64_MAX);
    at->ns = distance == 0 ? 0 : (int64_t)((uint64_t)base.ns + unfolded(distance - 1));
}

/* What is read points into the bytes, and is never NULL. */
static const char *pass_text(struct codec *codec, const char *text)
{
    uint64_t length = pass_number(codec, text != NULL ? strlen(text) : 0, UINT64_MAX);
    if (codec->out != NULL) {
        buffer_append(codec->out, text, length);
        pass_byte(codec, 0);
        return text;
    }
    if (length >= (uint64_t)(codec->end - codec->at) || codec->at[length] != '\0') {
        wrong(codec);
        return "";
    }
    text = (const char *)codec->at;
    codec->at += length + 1;
    return text;
}

static void pass_resources(struct codec *codec, const char *const **resources, unsigned *count, struct record *record)
{
    if (*count > RECORD_RESOURCES_MAX)
        *count = RECORD_RESOURCES_MAX;
    PASS(codec, *count, RECORD_RESOURCES_MAX);
    for (unsigned i = 0; i < *count; i++) {
        const char *text = pass_text(codec, record == NULL ? (*resources)[i] : NULL);
        if (record != NULL)
            record->texts[i] = text;
    }
    if (record != NULL)
        *resources = record->texts;
    if (codec->is_wrong)
        *count = 0;
}

/* --- counters and histograms -------------------------------------------------------------------------------------- */

/* So many bytes of a struct that has counters there alone; `from` is written, `into` is read. */
static void pass_counters(struct codec *codec, const void *from, void *into, size_t size)
{
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
        uint64_t counter = 0;
        if (into == NULL)
            memcpy(&counter, (const char *)from + at, sizeof counter);
        PASS(codec, counter, UINT64_MAX);
        if (into != NULL)
            memcpy((char *)into + at, &counter, sizeof counter);
    }
}

static void histogram_write(struct buffer *out, const struct histogram *histogram)
{
    unsigned used = 0, before = 0;
    number_write(out, histogram->sum_us);
    number_write(out, histogram->max_us);
    for (unsigned i = 0; i < HISTOGRAM_STEPS; i++)
        used += histogram->counts[i] > 0;
    number_write(out, used);
    for (unsigned i = 0; i < HISTOGRAM_STEPS; i++) {
        if (histogram->counts[i] == 0)
            continue;
        number_write(out, i - before);
        number_write(out, histogram->counts[i]);
        before = i;
    }
}

static void pass_histogram(struct codec *codec, const struct histogram *from, struct histogram *into)
{
    static const struct histogram nothing;
    if (into == NULL) {
        histogram_write(codec->out, codec->has_histograms ? from : &nothing);
        return;
    }
    memset(into, 0, sizeof *into);
    into->sum_us = number_read(codec);
    into->max_us = number_read(codec);
    uint64_t used = pass_number(codec, 0, HISTOGRAM_STEPS), step = 0;
    for (uint64_t i = 0; i < used && !codec->is_wrong; i++) {
        step += pass_number(codec, 0, HISTOGRAM_STEPS - 1);
        uint64_t count = number_read(codec);
        if (step >= HISTOGRAM_STEPS) {
            wrong(codec);
            return;
        }
        into->counts[step] += count;
        into->count += count;
    }
}

/* --- records ------------------------------------------------------------------------------------------------------ */

/* `record` is where what is read has its room; NULL = it is written. */
static void pass_task(struct codec *codec, struct observed_task *task, struct record *record)
{
    task->claimed.ns = pass_signed(codec, task->claimed.ns);
    unsigned flags =
        pass_byte(codec, (task->handed_over ? 1U : 0) | (task->had_refusal ? 2U : 0) | (task->was_lost ? 4U : 0));
    task->handed_over = flags & 1;
    task->had_refusal = flags & 2;
    task->was_lost = flags & 4;
    PASS(codec, task->ending, FLOW_ENDINGS - 1);
    pass_instant(codec, task->claimed, &task->asked);
    pass_instant(codec, task->claimed, &task->locked);
    pass_instant(codec, task->claimed, &task->started);
    pass_instant(codec, task->claimed, &task->ended);
    pass_instant(codec, task->claimed, &task->left);
    task->jid = pass_text(codec, task->jid);
    pass_resources(codec, &task->resources, &task->resource_count, record);
}

static void pass_node(struct codec *codec, const struct redlock_node_counters *from, struct redlock_node_counters *into)
{
    pass_counters(codec, from, into, offsetof(struct redlock_node_counters, latency));
    pass_histogram(codec, from != NULL ? &from->latency : NULL, into != NULL ? &into->latency : NULL);
}

static void pass_process(struct codec *codec, struct observed_process *process, struct record *record)
{
    process->at.ns = pass_signed(codec, process->at.ns);
    PASS(codec, process->runners, UINT32_MAX);
    PASS(codec, process->busy, UINT32_MAX);
    process->cpu_ns = pass_signed(codec, process->cpu_ns);
    PASS(codec, process->claim_calls, UINT64_MAX);
    if (pass_byte(codec, process->extensions != NULL) != 0) {
        pass_histogram(codec, process->extensions, record != NULL ? &record->extensions : NULL);
        process->extensions = record != NULL ? &record->extensions : process->extensions;
    }
    if (process->node_count > RECORD_NODES_MAX)
        process->node_count = RECORD_NODES_MAX;
    PASS(codec, process->node_count, RECORD_NODES_MAX);
    for (unsigned i = 0; i < process->node_count; i++) {
        pass_node(codec, record == NULL ? process->nodes[i] : NULL, record != NULL ? &record->nodes[i] : NULL);
        if (record != NULL)
            record->node_list[i] = &record->nodes[i];
    }
    if (record != NULL)
        process->nodes = record->node_list;
}

static void pass_handler(struct codec *codec, struct handler_event *event, struct record *record)
{
    event->at.ns = pass_signed(codec, event->at.ns);
    event->failed = pass_byte(codec, event->failed) != 0;
    PASS(codec, event->token, UINT64_MAX);
    event->jid = pass_text(codec, event->jid);
    pass_resources(codec, &event->resources, &event->resource_count, record);
}

static void pass_crash(struct codec *codec, struct crash *crash)
{
    crash->at.ns = pass_signed(codec, crash->at.ns);
    PASS(codec, crash->signal, RECORD_SIGNALS - 1);
    crash->hangs = pass_byte(codec, crash->hangs) != 0;
    crash->class_name = pass_text(codec, crash->class_name);
}

/* `body` is the struct that belongs to the kind. */
static void pass_body(struct codec *codec, enum record_kind kind, void *body, struct record *record)
{
    if (kind == RECORD_TASK)
        pass_task(codec, body, record);
    else if (kind == RECORD_PROCESS)
        pass_process(codec, body, record);
    else if (kind == RECORD_CRASH)
        pass_crash(codec, body);
    else
        pass_handler(codec, body, record);
}

/* --- frames ------------------------------------------------------------------------------------------------------- */

/* False when it would be too long: then nothing is written. */
static bool frame_write(struct buffer *out, enum record_kind kind, void *body, bool has_histograms)
{
    struct codec codec = {.out = out, .has_histograms = has_histograms};
    size_t start = out->length;
    buffer_append(out, (char[FRAME_HEAD]){0}, FRAME_HEAD);
    pass_byte(&codec, (unsigned)kind);
    pass_body(&codec, kind, body, NULL);
    size_t length = out->length - start - FRAME_HEAD;
    if (length > RECORD_BYTES_MAX) {
        out->length = start;
        return false;
    }
    for (unsigned i = 0; i < FRAME_HEAD; i++)
        out->bytes[start + i] = (char)(length >> (8 * i));
    return true;
}

/* Texts of a task are shorter than a record, all together; what is not one is not written. */
void record_write_task(struct buffer *out, const struct observed_task *task)
{
    struct observed_task copy = *task;
    (void)frame_write(out, RECORD_TASK, &copy, true);
}

void record_write_handler(struct buffer *out, enum record_kind kind, const struct handler_event *event)
{
    struct handler_event copy = *event;
    (void)frame_write(out, kind, &copy, true);
}

void record_write_crash(struct buffer *out, const struct crash *crash)
{
    struct crash copy = *crash;
    (void)frame_write(out, RECORD_CRASH, &copy, true);
}

/* Without the histograms it fits in any case. */
void record_write_process(struct buffer *out, const struct observed_process *process)
{
    struct observed_process copy = *process;
    if (!frame_write(out, RECORD_PROCESS, &copy, true))
        (void)frame_write(out, RECORD_PROCESS, &copy, false);
}

bool record_read(const char **bytes, size_t *length, struct record *record)
{
    if (*length < FRAME_HEAD)
        return false;
    const unsigned char *head = (const unsigned char *)*bytes;
    size_t size = 0;
    for (unsigned i = 0; i < FRAME_HEAD; i++)
        size |= (size_t)head[i] << (8 * i);
    if (size <= RECORD_BYTES_MAX && size > *length - FRAME_HEAD)
        return false;
    struct codec codec = {.at = head + FRAME_HEAD, .end = head + FRAME_HEAD + (size <= RECORD_BYTES_MAX ? size : 0)};
    unsigned kind = pass_byte(&codec, 0);
    if (kind > RECORD_CRASH)
        wrong(&codec);
    record->kind = (enum record_kind)kind;
    memset(&record->task, 0, offsetof(struct record, texts) - offsetof(struct record, task));
    pass_body(&codec, record->kind, &record->task, record); /* the members of the union begin at one place */
    if (codec.is_wrong || codec.at != codec.end) {
        *bytes += *length;
        *length = 0;
        return false;
    }
    *bytes += FRAME_HEAD + size;
    *length -= FRAME_HEAD + size;
    return true;
}
