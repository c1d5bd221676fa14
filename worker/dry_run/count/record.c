/* A record is a frame: the number of its bytes (4 bytes, little-endian), a byte for its kind, and its fields in a fixed
 * order. Numbers are 7 bits a byte, the lowest first, with the eighth bit set in all but the last (so little-endian
 * too, and most take one byte or two). A text is its length, its bytes, and a NUL. An instant is the distance from the
 * first one of the record, moved by one so that 0 is left for "none". A histogram is its sums and the steps that have
 * a count.
 *
 * Reading believes nothing: bytes come from other processes, and over the network. Every length is checked against
 * what is left, and what is left over in a frame makes it none. */
#include "worker/dry_run/count/record.h"

#include <string.h>

enum { FRAME_HEAD = 4, NUMBER_BYTES_MAX = 10, RECORD_SIGNALS = 128 };

_Static_assert(sizeof(struct redlock_counters) % sizeof(uint64_t) == 0, "is made of counters alone");
enum { LOCK_COUNTERS = sizeof(struct redlock_counters) / sizeof(uint64_t) };

/* --- writing ---------------------------------------------------------------------------------------------------- */

static void put_byte(struct buffer *out, unsigned value)
{
    char byte = (char)value;
    buffer_append(out, &byte, 1);
}

static void put_number(struct buffer *out, uint64_t value)
{
    char bytes[NUMBER_BYTES_MAX];
    size_t length = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[length++] = (char)(value | 0x80);
    bytes[length++] = (char)value;
    buffer_append(out, bytes, length);
}

/* Small numbers of either sign become small numbers. */
static void put_signed(struct buffer *out, int64_t value)
{
    put_number(out, ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0));
}

static void put_text(struct buffer *out, const char *text)
{
    size_t length = text != NULL ? strlen(text) : 0;
    put_number(out, length);
    buffer_append(out, text, length);
    put_byte(out, 0);
}

/* `none` says that the instant is missing; its distance is never the one that stands for that. */
static void put_instant(struct buffer *out, struct instant base, struct instant at)
{
    uint64_t distance = (uint64_t)at.ns - (uint64_t)base.ns;
    uint64_t folded = (distance << 1) ^ (distance >> 63 != 0 ? UINT64_MAX : 0);
    put_number(out, at.ns == 0 ? 0 : folded + 1);
}

static void put_resources(struct buffer *out, const char *const *resources, unsigned count)
{
    unsigned written = count < RECORD_RESOURCES_MAX ? count : RECORD_RESOURCES_MAX;
    put_number(out, written);
    for (unsigned i = 0; i < written; i++)
        put_text(out, resources[i]);
}

static void put_histogram(struct buffer *out, const struct histogram *histogram)
{
    unsigned used = 0, before = 0;
    put_number(out, histogram->sum_us);
    put_number(out, histogram->max_us);
    for (unsigned i = 0; i < HISTOGRAM_STEPS; i++)
        used += histogram->counts[i] > 0;
    put_number(out, used);
    for (unsigned i = 0; i < HISTOGRAM_STEPS; i++) {
        if (histogram->counts[i] == 0)
            continue;
        put_number(out, i - before);
        put_number(out, histogram->counts[i]);
        before = i;
    }
}

enum { TASK_HANDED_OVER = 1, TASK_HAD_REFUSAL = 2, TASK_WAS_LOST = 4, TASK_WAS_FENCED_OFF = 8 };

static void put_task(struct buffer *out, const struct observed_task *task)
{
    put_signed(out, task->claimed.ns);
    put_byte(out, (task->handed_over ? TASK_HANDED_OVER : 0u) | (task->had_refusal ? TASK_HAD_REFUSAL : 0u) |
                      (task->was_lost ? TASK_WAS_LOST : 0u) | (task->was_fenced_off ? TASK_WAS_FENCED_OFF : 0u));
    put_number(out, (uint64_t)task->ending);
    put_number(out, (uint64_t)task->refusal);
    put_instant(out, task->claimed, task->asked);
    put_instant(out, task->claimed, task->locked);
    put_instant(out, task->claimed, task->started);
    put_instant(out, task->claimed, task->ended);
    put_instant(out, task->claimed, task->left);
    put_number(out, task->attempts);
    put_number(out, task->token);
    put_text(out, task->jid);
    put_text(out, task->class_name);
    put_resources(out, task->resources, task->resource_count);
}

static void put_node(struct buffer *out, const struct redlock_node_counters *node, const struct histogram *latency)
{
    put_number(out, node->requests);
    put_number(out, node->granted);
    put_number(out, node->refused);
    put_number(out, node->errors);
    put_number(out, node->timeouts);
    put_number(out, node->split_votes);
    put_histogram(out, latency);
}

static void put_locks(struct buffer *out, const struct redlock_counters *locks)
{
    uint64_t counters[LOCK_COUNTERS];
    memcpy(counters, locks, sizeof counters);
    for (unsigned i = 0; i < LOCK_COUNTERS; i++)
        put_number(out, counters[i]);
}

/* Without the histograms it fits in any case. */
static void put_process(struct buffer *out, const struct observed_process *process, bool with_histograms)
{
    static const struct histogram nothing;
    unsigned nodes = process->node_count < RECORD_NODES_MAX ? process->node_count : RECORD_NODES_MAX;
    put_signed(out, process->at.ns);
    put_number(out, process->runners);
    put_number(out, process->busy);
    put_signed(out, process->cpu_ns);
    put_number(out, process->claims);
    put_number(out, process->claim_calls);
    put_byte(out, process->locks != NULL);
    if (process->locks != NULL)
        put_locks(out, process->locks);
    put_byte(out, process->extensions != NULL);
    if (process->extensions != NULL)
        put_histogram(out, with_histograms ? process->extensions : &nothing);
    put_number(out, nodes);
    for (unsigned i = 0; i < nodes; i++)
        put_node(out, process->nodes[i], with_histograms ? &process->nodes[i]->latency : &nothing);
}

static void put_witnessed(struct buffer *out, const struct witnessed *witnessed)
{
    put_signed(out, witnessed->at.ns);
    put_byte(out, witnessed->failed);
    put_number(out, witnessed->token);
    put_text(out, witnessed->jid);
    put_resources(out, witnessed->resources, witnessed->resource_count);
}

static size_t frame_begin(struct buffer *out, enum record_kind kind)
{
    size_t start = out->length;
    buffer_append(out, (char[FRAME_HEAD]){0}, FRAME_HEAD);
    put_byte(out, (unsigned)kind);
    return start;
}

/* False when it became too long: then it is gone. */
static bool frame_end(struct buffer *out, size_t start)
{
    size_t length = out->length - start - FRAME_HEAD;
    if (length > RECORD_BYTES_MAX) {
        out->length = start;
        return false;
    }
    for (unsigned i = 0; i < FRAME_HEAD; i++)
        out->bytes[start + i] = (char)(length >> (8 * i));
    return true;
}

/* Texts of a task are shorter than this, all together; what is not one is not written. */
void record_write_task(struct buffer *out, const struct observed_task *task)
{
    size_t start = frame_begin(out, RECORD_TASK);
    put_task(out, task);
    (void)frame_end(out, start);
}

void record_write_witnessed(struct buffer *out, enum record_kind kind, const struct witnessed *witnessed)
{
    size_t start = frame_begin(out, kind);
    put_witnessed(out, witnessed);
    (void)frame_end(out, start);
}

void record_write_crash(struct buffer *out, const struct crash *crash)
{
    size_t start = frame_begin(out, RECORD_CRASH);
    put_signed(out, crash->at.ns);
    put_number(out, (unsigned)crash->signal);
    put_byte(out, crash->hangs);
    put_text(out, crash->class_name);
    (void)frame_end(out, start);
}

void record_write_process(struct buffer *out, const struct observed_process *process)
{
    size_t start = frame_begin(out, RECORD_PROCESS);
    put_process(out, process, true);
    if (frame_end(out, start))
        return;
    frame_begin(out, RECORD_PROCESS);
    put_process(out, process, false);
    (void)frame_end(out, start);
}

void record_write(struct buffer *out, const struct record *record)
{
    if (record->kind == RECORD_TASK)
        record_write_task(out, &record->task);
    else if (record->kind == RECORD_PROCESS)
        record_write_process(out, &record->process);
    else if (record->kind == RECORD_CRASH)
        record_write_crash(out, &record->crash);
    else
        record_write_witnessed(out, record->kind, &record->witnessed);
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

/* Once something is wrong all that follows is 0. */
struct reading {
    const unsigned char *at, *end;
    bool is_wrong;
};

static uint64_t wrong(struct reading *reading)
{
    reading->is_wrong = true;
    reading->at = reading->end;
    return 0;
}

static unsigned get_byte(struct reading *reading)
{
    return reading->at < reading->end ? *reading->at++ : (unsigned)wrong(reading);
}

static uint64_t get_number(struct reading *reading)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        unsigned byte = get_byte(reading);
        if (shift == 63 && byte > 1)
            return wrong(reading);
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return reading->is_wrong ? 0 : value;
    }
    return wrong(reading);
}

static unsigned get_below(struct reading *reading, uint64_t limit)
{
    uint64_t value = get_number(reading);
    return (unsigned)(value < limit ? value : wrong(reading));
}

static uint64_t unfolded(uint64_t folded)
{
    return (folded >> 1) ^ (0 - (folded & 1));
}

static int64_t get_signed(struct reading *reading)
{
    return (int64_t)unfolded(get_number(reading));
}

static struct instant get_instant(struct reading *reading, struct instant base)
{
    uint64_t value = get_number(reading);
    return (struct instant){value == 0 ? 0 : (int64_t)((uint64_t)base.ns + unfolded(value - 1))};
}

/* Never NULL, and always with its NUL. */
static const char *get_text(struct reading *reading)
{
    uint64_t length = get_number(reading);
    if (length >= (uint64_t)(reading->end - reading->at) || reading->at[length] != '\0') {
        wrong(reading);
        return "";
    }
    const char *text = (const char *)reading->at;
    reading->at += length + 1;
    return text;
}

static unsigned get_resources(struct reading *reading, struct record *record)
{
    unsigned count = get_below(reading, RECORD_RESOURCES_MAX + 1);
    for (unsigned i = 0; i < count; i++)
        record->texts[i] = get_text(reading);
    return reading->is_wrong ? 0 : count;
}

static void get_histogram(struct reading *reading, struct histogram *histogram)
{
    memset(histogram, 0, sizeof *histogram);
    histogram->sum_us = get_number(reading);
    histogram->max_us = get_number(reading);
    unsigned used = get_below(reading, HISTOGRAM_STEPS + 1), step = 0;
    for (unsigned i = 0; i < used && !reading->is_wrong; i++) {
        step += get_below(reading, HISTOGRAM_STEPS);
        if (step >= HISTOGRAM_STEPS) {
            wrong(reading);
            return;
        }
        uint64_t count = get_number(reading);
        histogram->counts[step] += count;
        histogram->count += count;
    }
}

static void get_task(struct reading *reading, struct record *record)
{
    struct observed_task *task = &record->task;
    *task = (struct observed_task){.claimed = {get_signed(reading)}};
    unsigned flags = get_byte(reading);
    task->handed_over = (flags & TASK_HANDED_OVER) != 0;
    task->had_refusal = (flags & TASK_HAD_REFUSAL) != 0;
    task->was_lost = (flags & TASK_WAS_LOST) != 0;
    task->was_fenced_off = (flags & TASK_WAS_FENCED_OFF) != 0;
    task->ending = (enum flow_ending)get_below(reading, FLOW_ENDINGS);
    task->refusal = (enum redlock_answer)get_below(reading, REDLOCK_INVALID + 1);
    task->asked = get_instant(reading, task->claimed);
    task->locked = get_instant(reading, task->claimed);
    task->started = get_instant(reading, task->claimed);
    task->ended = get_instant(reading, task->claimed);
    task->left = get_instant(reading, task->claimed);
    task->attempts = get_below(reading, UINT64_C(1) << 32);
    task->token = get_number(reading);
    task->jid = get_text(reading);
    task->class_name = get_text(reading);
    task->resource_count = get_resources(reading, record);
    task->resources = record->texts;
}

static void get_node(struct reading *reading, struct redlock_node_counters *node)
{
    node->requests = get_number(reading);
    node->granted = get_number(reading);
    node->refused = get_number(reading);
    node->errors = get_number(reading);
    node->timeouts = get_number(reading);
    node->split_votes = get_number(reading);
    get_histogram(reading, &node->latency);
}

static void get_locks(struct reading *reading, struct redlock_counters *locks)
{
    uint64_t counters[LOCK_COUNTERS];
    for (unsigned i = 0; i < LOCK_COUNTERS; i++)
        counters[i] = get_number(reading);
    memcpy(locks, counters, sizeof counters);
}

static void get_process(struct reading *reading, struct record *record)
{
    struct observed_process *process = &record->process;
    *process = (struct observed_process){.at = {get_signed(reading)}};
    process->runners = get_below(reading, UINT64_C(1) << 32);
    process->busy = get_below(reading, UINT64_C(1) << 32);
    process->cpu_ns = get_signed(reading);
    process->claims = get_number(reading);
    process->claim_calls = get_number(reading);
    if (get_byte(reading) != 0) {
        get_locks(reading, &record->locks);
        process->locks = &record->locks;
    }
    if (get_byte(reading) != 0) {
        get_histogram(reading, &record->extensions);
        process->extensions = &record->extensions;
    }
    unsigned nodes = get_below(reading, RECORD_NODES_MAX + 1);
    for (unsigned i = 0; i < nodes; i++) {
        get_node(reading, &record->nodes[i]);
        record->node_list[i] = &record->nodes[i];
    }
    process->nodes = record->node_list;
    process->node_count = nodes;
}

static void get_witnessed(struct reading *reading, struct record *record)
{
    struct witnessed *witnessed = &record->witnessed;
    *witnessed = (struct witnessed){.at = {get_signed(reading)}};
    witnessed->failed = get_byte(reading) != 0;
    witnessed->token = get_number(reading);
    witnessed->jid = get_text(reading);
    witnessed->resource_count = get_resources(reading, record);
    witnessed->resources = record->texts;
}

static void get_crash(struct reading *reading, struct record *record)
{
    struct crash *crash = &record->crash;
    *crash = (struct crash){.at = {get_signed(reading)}};
    crash->signal = (int)get_below(reading, RECORD_SIGNALS);
    crash->hangs = get_byte(reading) != 0;
    crash->class_name = get_text(reading);
}

static bool frame_get(struct reading *reading, struct record *record)
{
    unsigned kind = get_byte(reading);
    if (reading->is_wrong || kind > RECORD_CRASH)
        return false;
    record->kind = (enum record_kind)kind;
    if (record->kind == RECORD_TASK)
        get_task(reading, record);
    else if (record->kind == RECORD_PROCESS)
        get_process(reading, record);
    else if (record->kind == RECORD_CRASH)
        get_crash(reading, record);
    else
        get_witnessed(reading, record);
    return !reading->is_wrong && reading->at == reading->end;
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
    struct reading reading = {.at = head + FRAME_HEAD, .end = head + FRAME_HEAD + size};
    if (size > RECORD_BYTES_MAX || !frame_get(&reading, record)) {
        *bytes += *length;
        *length = 0;
        return false;
    }
    *bytes += FRAME_HEAD + size;
    *length -= FRAME_HEAD + size;
    return true;
}
