/* Records of a dry run: what is written is read again, and bytes of any kind do no harm. */
#include "tests/support/test.h"

#include "base/memory.h"
#include "base/random.h"
#include "worker/dry_run/count/record.h"

enum { TRIALS = 100000, GARBAGE_MAX = 400 };

static struct buffer bytes;
static struct record *record;

static void set_up(void)
{
    record = memory_new(struct record);
    buffer_clear(&bytes);
}

static void tear_down(void)
{
    free(record);
    buffer_fini(&bytes);
}

static const char *const resources[] = {"account:1", "account:2", ""};

static const struct observed_task a_task = {
    .jid = "0123456789ab",
    .resources = resources,
    .resource_count = 3,
    .ending = FLOW_LOCK_LOST,
    .claimed = {INT64_C(123456789012345)},
    .asked = {INT64_C(123456789012346)},
    .locked = {INT64_C(123456789099999)},
    .started = {INT64_C(123456790000000)},
    .ended = {INT64_C(123456000000000)}, /* before it was claimed: of another clock */
    .left = {INT64_MAX},
    .handed_over = true,
    .had_refusal = true};

/* The only record there is. */
static void read_one(void)
{
    const char *at = bytes.bytes;
    size_t left = bytes.length;
    assert_true(record_read(&at, &left, record));
    assert_int_equal(left, 0);
    assert_ptr_equal(at, bytes.bytes + bytes.length);
}

static void tasks_are_equal(const struct observed_task *a, const struct observed_task *b)
{
    assert_string_equal(a->jid, b->jid);
    assert_int_equal(a->resource_count, b->resource_count);
    for (unsigned i = 0; i < a->resource_count; i++)
        assert_string_equal(a->resources[i], b->resources[i]);
    assert_int_equal(a->ending, b->ending);
    assert_int_equal(a->claimed.ns, b->claimed.ns);
    assert_int_equal(a->asked.ns, b->asked.ns);
    assert_int_equal(a->locked.ns, b->locked.ns);
    assert_int_equal(a->started.ns, b->started.ns);
    assert_int_equal(a->ended.ns, b->ended.ns);
    assert_int_equal(a->left.ns, b->left.ns);
    assert_int_equal(a->handed_over, b->handed_over);
    assert_int_equal(a->had_refusal, b->had_refusal);
    assert_int_equal(a->was_lost, b->was_lost);
}

TEST(a_task_is_read_as_it_was_written)
{
    record_write_task(&bytes, &a_task);
    read_one();
    assert_int_equal(record->kind, RECORD_TASK);
    tasks_are_equal(&record->task, &a_task);
    assert_in_range((uintptr_t)record->task.jid, (uintptr_t)bytes.bytes, (uintptr_t)bytes.bytes + bytes.length);
}

TEST(a_task_that_did_nothing_has_no_instants)
{
    struct observed_task task = {.jid = "a", .ending = FLOW_DONE, .claimed = {77}, .left = {77}};
    record_write_task(&bytes, &task);
    read_one();
    tasks_are_equal(&record->task, &task);
}

TEST(each_flag_is_its_own)
{
    for (unsigned flags = 0; flags < 8; flags++) {
        struct observed_task task = {
            .jid = "", .handed_over = flags & 1, .had_refusal = flags & 2, .was_lost = flags & 4};
        buffer_clear(&bytes);
        record_write_task(&bytes, &task);
        read_one();
        tasks_are_equal(&record->task, &task);
    }
}

TEST(what_a_handler_saw_is_read_as_it_wrote)
{
    struct handler_event seen = {
        .at = {55}, .jid = "jid", .resources = resources, .resource_count = 2, .token = 17, .failed = true};
    record_write_handler(&bytes, RECORD_LEAVE, &seen);
    read_one();
    assert_int_equal(record->kind, RECORD_LEAVE);
    assert_int_equal(record->event.at.ns, 55);
    assert_int_equal(record->event.token, 17);
    assert_true(record->event.failed);
    assert_string_equal(record->event.jid, "jid");
    assert_int_equal(record->event.resource_count, 2);
    assert_string_equal(record->event.resources[1], "account:2");
}

/* --- processes -------------------------------------------------------------------------------------------------- */

struct process_parts {
    struct histogram extensions;
    struct redlock_node_counters nodes[2];
    const struct redlock_node_counters *list[RECORD_NODES_MAX];
};

static struct observed_process a_process(struct process_parts *parts)
{
    histogram_record(&parts->extensions, 700);
    for (int64_t value = 1; value < INT64_C(1) << 40; value *= 3)
        histogram_record(&parts->nodes[1].latency, value);
    parts->nodes[0].requests = 9;
    parts->nodes[1].split_votes = 4;
    parts->list[0] = &parts->nodes[0];
    parts->list[1] = &parts->nodes[1];
    return (struct observed_process){.at = {99},
                                     .runners = 16,
                                     .busy = 7,
                                     .cpu_ns = 12345,
                                     .claim_calls = 6,
                                     .extensions = &parts->extensions,
                                     .nodes = parts->list,
                                     .node_count = 2};
}

TEST(a_process_is_read_as_it_was_written)
{
    struct process_parts *parts = memory_new(struct process_parts);
    struct observed_process process = a_process(parts);
    record_write_process(&bytes, &process);
    read_one();
    const struct observed_process *read = &record->process;
    assert_int_equal(record->kind, RECORD_PROCESS);
    assert_int_equal(read->at.ns, 99);
    assert_int_equal(read->runners, 16);
    assert_int_equal(read->busy, 7);
    assert_int_equal(read->cpu_ns, 12345);
    assert_int_equal(read->claim_calls, 6);
    assert_memory_equal(read->extensions, &parts->extensions, sizeof parts->extensions);
    assert_int_equal(read->node_count, 2);
    for (unsigned i = 0; i < 2; i++)
        assert_memory_equal(read->nodes[i], &parts->nodes[i], sizeof parts->nodes[i]);
    free(parts);
}

TEST(a_process_without_lock_nodes_says_so)
{
    struct observed_process process = {.at = {1}};
    record_write_process(&bytes, &process);
    read_one();
    assert_null(record->process.extensions);
    assert_int_equal(record->process.node_count, 0);
}

TEST(a_text_that_no_task_has_makes_no_record)
{
    char *text = memory_zeroed(RECORD_BYTES_MAX + 1, 1);
    memset(text, 'x', RECORD_BYTES_MAX);
    record_write_task(&bytes, &(struct observed_task){.jid = text});
    assert_int_equal(bytes.length, 0);
    free(text);
}

/* --- streams ---------------------------------------------------------------------------------------------------- */

TEST(records_are_taken_one_by_one)
{
    size_t left, count = 0;
    for (unsigned i = 0; i < 10; i++)
        record_write_handler(&bytes, RECORD_ENTER, &(struct handler_event){.at = {i}, .jid = "x"});
    left = bytes.length;
    for (const char *at = bytes.bytes; record_read(&at, &left, record); count++)
        assert_int_equal(record->event.at.ns, count);
    assert_int_equal(count, 10);
    assert_int_equal(left, 0);
}

TEST(half_a_record_is_left_alone)
{
    record_write_task(&bytes, &a_task);
    for (size_t part = 0; part < bytes.length; part++) {
        char *copy = memory_zeroed(part + 1, 1); /* so that reading too far is seen */
        memcpy(copy, bytes.bytes, part);
        char *exact = memory_resize(copy, part > 0 ? part : 1, 1);
        const char *at = exact;
        size_t left = part;
        assert_false(record_read(&at, &left, record));
        assert_ptr_equal(at, exact);
        assert_int_equal(left, part);
        free(exact);
    }
}

static void is_none(const char *frame, size_t length)
{
    char *exact = memory_zeroed(length, 1);
    memcpy(exact, frame, length);
    const char *at = exact;
    size_t left = length;
    assert_false(record_read(&at, &left, record));
    assert_int_equal(left, 0);
    free(exact);
}

TEST(what_is_no_record_ends_the_stream)
{
    is_none("\0\0\0\0\0\0\0\0", 8);
    is_none("\1\0\0\0\7\0\0\0x", 9);
    is_none("\xFF\xFF\xFF\xFF\0\0\0\0", 8); /* longer than any */
    record_write_task(&bytes, &a_task);
    bytes.bytes[0]++;
    buffer_append(&bytes, "", 1);
    is_none(bytes.bytes, bytes.length); /* something is left over in it */
    bytes.bytes[0] = (char)(bytes.bytes[0] - 3);
    is_none(bytes.bytes, bytes.length);
}

TEST(a_text_without_its_end_is_none)
{
    record_write_handler(&bytes, RECORD_ENTER, &(struct handler_event){.jid = "abc"});
    char *end = memchr(bytes.bytes, 'c', bytes.length);
    end[1] = 'd';
    is_none(bytes.bytes, bytes.length);
}

/* Whatever comes: texts have an end, counts have room. The sanitizers see the rest. */
static void look_at_all(void)
{
    size_t length = 0;
    if (record->kind == RECORD_TASK) {
        length += strlen(record->task.jid);
        assert_in_range(record->task.ending, 0, FLOW_ENDINGS - 1);
        for (unsigned i = 0; i < record->task.resource_count; i++)
            length += strlen(record->task.resources[i]);
    } else if (record->kind == RECORD_PROCESS) {
        for (unsigned i = 0; i < record->process.node_count; i++)
            length += record->process.nodes[i]->latency.count > 0;
    } else if (record->kind == RECORD_CRASH) {
        length += strlen(record->crash.class_name);
    } else {
        length += strlen(record->event.jid);
        for (unsigned i = 0; i < record->event.resource_count; i++)
            length += strlen(record->event.resources[i]);
    }
    assert_true(length <= RECORD_BYTES_MAX);
}

/* Of its own memory, to the byte. Returns how many records it was. */
static unsigned read_all(const char *from, size_t length)
{
    unsigned count = 0;
    char *exact = memory_zeroed(length > 0 ? length : 1, 1);
    memcpy(exact, from, length);
    const char *at = exact;
    for (size_t left = length; record_read(&at, &left, record); count++)
        look_at_all();
    free(exact);
    return count;
}

TEST(a_crash_is_read_as_it_was_written)
{
    record_write_crash(&bytes, &(struct crash){.at = {7}, .class_name = "transfer", .signal = SIGSEGV, .hangs = true});
    const char *at = bytes.bytes;
    size_t left = bytes.length;
    assert_true(record_read(&at, &left, record));
    assert_int_equal(left, 0);
    assert_int_equal(record->kind, RECORD_CRASH);
    assert_int_equal(record->crash.at.ns, 7);
    assert_string_equal(record->crash.class_name, "transfer");
    assert_int_equal(record->crash.signal, SIGSEGV);
    assert_true(record->crash.hangs);
}

TEST(random_bytes_do_no_harm)
{
    char garbage[GARBAGE_MAX];
    unsigned found = 0;
    for (unsigned trial = 0; trial < TRIALS; trial++) {
        size_t length = (size_t)random_between(8, GARBAGE_MAX);
        random_bytes(garbage, length);
        garbage[0] = (char)(length - 8); /* else hardly any is looked into */
        garbage[1] = (char)((length - 8) >> 8);
        garbage[2] = garbage[3] = garbage[5] = garbage[6] = garbage[7] = 0;
        garbage[4] = (char)random_between(0, 5);
        if (trial % 2 == 0)
            for (size_t i = 8; i < length; i++)
                garbage[i] = (char)(garbage[i] & 7); /* small numbers reach further */
        found += read_all(garbage, length);
    }
    (void)found; /* none has to be */
}

TEST(records_with_a_wrong_byte_do_no_harm)
{
    record_write_task(&bytes, &a_task);
    record_write_handler(&bytes, RECORD_ENTER,
                         &(struct handler_event){.at = {1}, .jid = "x", .resources = resources, .resource_count = 3});
    assert_int_equal(read_all(bytes.bytes, bytes.length), 2);
    for (size_t i = 0; i < bytes.length; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes.bytes[i] = (char)(bytes.bytes[i] ^ (1 << bit));
            assert_true(read_all(bytes.bytes, bytes.length) <= 2);
            bytes.bytes[i] = (char)(bytes.bytes[i] ^ (1 << bit));
        }
}

RUN_TESTS_BETWEEN(set_up, tear_down)
