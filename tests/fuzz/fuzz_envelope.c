/* Any bytes as a task: its envelope, what is read out of its arguments, and what is written of it. */
#include "queue/envelope.h"
#include "tests/fuzz/fuzz.h"

static const struct envelope_limits strict = {.size = 1 << 16, .depth = 16, .keys = 128};
/* Members that workers add may go beyond them, but for the depth. */
static const struct envelope_limits roomy = {.size = SIZE_MAX, .depth = 16, .keys = SIZE_MAX};
static const struct envelope_limits loose = {.size = SIZE_MAX, .depth = SIZE_MAX, .keys = SIZE_MAX};

static bool is_inside(struct text_span span, struct text_span text)
{
    return span.bytes >= text.bytes && span.length <= text.length &&
           span.bytes + span.length <= text.bytes + text.length;
}

static void parsed_holds(const struct envelope *envelope)
{
    for (size_t i = 0; i < envelope->member_count; i++) {
        struct text_span value = envelope->members[i].value;
        invariant(is_inside(envelope->members[i].name, envelope->text));
        invariant(is_inside(value, envelope->text));
        invariant(json_check(value.bytes, value.length, &roomy, NULL));
    }
    invariant(envelope->member_count <= ENVELOPE_MEMBERS_MAX + ENVELOPE_OWN_MEMBERS);
    invariant(is_inside(envelope->args, envelope->text) && envelope->args.bytes[0] == '[');
    invariant(envelope->class_name[0] != '\0' && strlen(envelope->class_name) <= ENVELOPE_CLASS_BYTES_MAX);
    invariant(strlen(envelope->jid) <= ENVELOPE_JID_BYTES_MAX && strlen(envelope->queue) <= ENVELOPE_QUEUE_BYTES_MAX);
    invariant(envelope->resource_count <= ENVELOPE_RESOURCES_MAX && envelope->retry_max <= ENVELOPE_RETRIES_MAX);
    for (unsigned i = 0; i < envelope->resource_count; i++) {
        const char *resource = envelope->resources[i];
        invariant(resource[0] != '\0' && strlen(resource) <= ENVELOPE_RESOURCE_BYTES_MAX);
        invariant(strncmp(resource, "hf:", 3) != 0);
        invariant(i == 0 || strcmp(envelope->resources[i - 1], resource) < 0);
    }
}

static void arguments_hold(struct text_span args)
{
    struct buffer string = {.bytes = NULL};
    int64_t integer;
    for (size_t i = 0; i < 8; i++) {
        struct text_span element = json_array_element(args, i);
        if (element.bytes == NULL)
            break;
        invariant(is_inside(element, args));
        invariant(!(json_string_read(element, &string) && json_integer_read(element, &integer)));
        /* What was read as a string is written as one that reads the same. */
        struct buffer again = {.bytes = NULL}, read = {.bytes = NULL};
        envelope_append_string(&again, string.bytes, string.length);
        invariant(json_string_read((struct text_span){again.bytes, again.length}, &read));
        invariant(read.length == string.length);
        invariant(read.length == 0 || memcmp(read.bytes, string.bytes, read.length) == 0);
        buffer_fini(&again);
        buffer_fini(&read);
        buffer_clear(&string);
    }
    buffer_fini(&string);
}

static bool same_bytes(struct text_span a, struct text_span b)
{
    return a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0;
}

/* The members of `text` are those of `envelope`, in order and byte for byte. */
static void rewritten_holds(const struct envelope *envelope, const struct buffer *text, struct buffer *again)
{
    struct envelope rewritten = {.member_count = 0};
    struct error error = ERROR_NONE;
    invariant(envelope_parse(&rewritten, text->bytes, text->length, &loose, &error));
    invariant(rewritten.member_count == envelope->member_count);
    for (size_t i = 0; i < envelope->member_count; i++) {
        invariant(same_bytes(rewritten.members[i].name, envelope->members[i].name));
        invariant(same_bytes(rewritten.members[i].value, envelope->members[i].value));
    }
    invariant(rewritten.resource_count == envelope->resource_count);
    envelope_rewrite(&rewritten, NULL, 0, again);
    envelope_fini(&rewritten);
}

static void rewriting_holds(const struct envelope *envelope)
{
    static const struct envelope_change changes[] = {
        {"retry_count", {"7", 1}}, {"error_message", {"\"boom\"", 6}}, {"resource", {NULL, 0}}};
    struct buffer text = {.bytes = NULL}, again = {.bytes = NULL};
    envelope_rewrite(envelope, NULL, 0, &text);
    invariant(text.length <= envelope->text.length);
    rewritten_holds(envelope, &text, &again);
    invariant(again.length == text.length && memcmp(again.bytes, text.bytes, text.length) == 0);

    buffer_clear(&text);
    envelope_rewrite(envelope, changes, 3, &text);
    struct envelope changed = {.member_count = 0};
    struct error error = ERROR_NONE;
    invariant(envelope_parse(&changed, text.bytes, text.length, &strict, &error));
    invariant(changed.retry_count == 7 && changed.resource_count == 0);
    invariant(same_bytes(changed.args, envelope->args));
    envelope_fini(&changed);
    buffer_fini(&text);
    buffer_fini(&again);
}

static void record_holds(const char *text, size_t size, const char *reason)
{
    struct buffer record = {.bytes = NULL}, out = {.bytes = NULL};
    struct envelope envelope = {.member_count = 0};
    struct error error = ERROR_NONE;
    envelope_write_invalid(text, size, "fuzz", reason, (struct wall_time){1}, &record);
    invariant(envelope_parse(&envelope, record.bytes, record.length, &loose, &error));
    invariant(envelope_recover_invalid(record.bytes, record.length, &out, &error));
    invariant(out.length == size && (size == 0 || memcmp(out.bytes, text, size) == 0));
    buffer_clear(&out);
    if (!envelope_recover_invalid(text, size, &out, NULL))
        invariant(out.length == 0);
    envelope_fini(&envelope);
    buffer_fini(&record);
    buffer_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* The envelope is reused from input to input, as the worker does it. */
    static struct envelope envelope;
    char *text = fuzz_copy(data, size);
    struct error error = ERROR_NONE;
    bool valid_json = json_check(text, size, &roomy, NULL);
    bool valid_task = envelope_parse(&envelope, text, size, &strict, &error);
    invariant(valid_task == !error_is_set(&error));
    if (valid_task) {
        invariant(valid_json);
        parsed_holds(&envelope);
        arguments_hold(envelope.args);
        rewriting_holds(&envelope);
    } else {
        record_holds(text, size, error.text);
    }
    free(text);
    return 0;
}
