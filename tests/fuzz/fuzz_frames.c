/* Any bytes as frames from a runner process, or for one. A message that is written and read again is the same. */
#include "tests/fuzz/fuzz.h"
#include "worker/isolation/runner_message.h"

static bool hello_rewrite(const struct frame *frame, struct buffer *out)
{
    struct runner_hello hello;
    struct config_pairs settings = {.count = 0};
    bool is_hello = runner_hello_read(frame, &hello, &settings);
    if (is_hello)
        runner_hello_write(&hello, out);
    free(settings.items);
    return is_hello;
}

static bool order_rewrite(const struct frame *frame, struct buffer *out)
{
    struct runner_order order = {.run = 0};
    struct hf_job job = {.jid = NULL};
    bool is_order = runner_order_read(frame, &order, &job);
    if (is_order)
        runner_order_write(&order, &job, out);
    return is_order;
}

static bool end_rewrite(const struct frame *frame, struct buffer *out)
{
    struct runner_end end = {.run = 0};
    struct job_outcome outcome = {.has_result = false};
    job_outcome_clear(&outcome);
    bool is_end = runner_end_read(frame, &end, &outcome);
    if (is_end)
        runner_end_write(&end, &outcome, out);
    job_outcome_fini(&outcome);
    return is_end;
}

static bool log_rewrite(const struct frame *frame, struct buffer *out)
{
    enum hf_log_level level;
    const char *text;
    bool is_log = runner_log_read(frame, &level, &text);
    if (is_log)
        runner_log_write(level, text, out);
    return is_log;
}

static bool event_rewrite(const struct frame *frame, struct buffer *out)
{
    struct runner_event event;
    bool is_event = runner_event_read(frame, &event);
    if (is_event)
        runner_event_write(event.level, event.name, event.fields, event.count, out);
    return is_event;
}

static bool (*const rewrites[FRAME_KINDS])(const struct frame *frame, struct buffer *out) = {
    [FRAME_HELLO] = hello_rewrite, [FRAME_RUN] = order_rewrite,   [FRAME_END] = end_rewrite,
    [FRAME_LOG] = log_rewrite,     [FRAME_EVENT] = event_rewrite,
};

static void frame_holds(const struct frame *frame)
{
    struct buffer once = {.bytes = NULL}, twice = {.bytes = NULL};
    struct frame again;
    size_t whole;
    if (rewrites[frame->kind] != NULL && rewrites[frame->kind](frame, &once)) {
        invariant(frame_find(once.bytes, once.length, RUNNER_FRAME_MAX, &again, &whole) == FRAME_WHOLE);
        invariant(again.kind == frame->kind && whole == once.length);
        /* What no reader looks at may be left out; nothing else may change. */
        invariant(again.length != frame->length || memcmp(again.body, frame->body, again.length) == 0);
        invariant(rewrites[frame->kind](&again, &twice) && fuzz_same(&once, &twice));
    }
    buffer_fini(&once);
    buffer_fini(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = fuzz_copy(data, size);
    struct frame frame;
    size_t whole;
    for (size_t at = 0; frame_find(bytes + at, size - at, RUNNER_FRAME_MAX, &frame, &whole) == FRAME_WHOLE;
         at += whole) {
        invariant(whole <= size - at && frame.length + FRAME_HEAD_BYTES == whole);
        frame_holds(&frame);
    }
    free(bytes);
    return 0;
}
