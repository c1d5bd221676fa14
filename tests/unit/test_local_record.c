/* The record of the local nodes: what is read back, and what is refused. */
#include "tests/support/test.h"

#include "worker/config/config.h"
#include "worker/servers/local_record.h"

static const struct local_record sample = {.ports = {20001, 20002, 20003, 29999}};

static enum local_record_found read_of(const char *line, struct local_record *record)
{
    *record = sample;
    return local_record_read(line, record);
}

TEST(what_is_written_is_read_back)
{
    struct buffer text = {0};
    struct local_record record;
    local_record_print(&sample, &text);
    assert_int_equal(read_of(buffer_text(&text), &record), LOCAL_RECORD_GOOD);
    for (unsigned i = 0; i < LOCAL_NODES; i++)
        assert_int_equal(record.ports[i], sample.ports[i]);
    buffer_fini(&text);
}

TEST(of_anything_else_nothing_is_taken)
{
    static const char *const lines[] = {"",
                                        "worker = { };",
                                        "# Local nodes of Holdfast, format 1: ports 1 2 3",
                                        "# Local nodes of Holdfast, format 1: ports 1 2 3 0",
                                        "# Local nodes of Holdfast, format 1: ports 1 2 3 65536",
                                        "# Local nodes of Holdfast, format 1: ports 1 2 x 4",
                                        "# Local nodes of Holdfast, format 0: ports 1 2 3 4"};
    struct local_record record;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(read_of(lines[i], &record), LOCAL_RECORD_NONE);
        for (unsigned node = 0; node < LOCAL_NODES; node++)
            assert_int_equal(record.ports[node], 0);
    }
}

TEST(a_newer_format_is_told_from_damage)
{
    struct local_record record;
    assert_int_equal(read_of("# Local nodes of Holdfast, format 2: ports 1 2 3 4", &record), LOCAL_RECORD_NEWER);
    assert_int_equal(read_of("# Local nodes of Holdfast, format 17: something else", &record), LOCAL_RECORD_NEWER);
    assert_int_equal(record.ports[0], 0);
}

/* The password files are not there, which is all that is wrong with them. */
TEST(both_texts_are_configurations)
{
    for (int is_sample = 0; is_sample < 2; is_sample++) {
        struct buffer text = {0};
        struct findings findings = {0};
        if (is_sample)
            local_record_print_sample(&sample, "/nowhere/a \"quoted\" place/password", false, &text);
        else
            local_record_print(&sample, &text);
        struct config *config = config_read_written(&text, &findings);
        assert_non_null(config);
        assert_int_equal(findings.errors, LOCAL_NODES);
        for (size_t i = 0; i < findings.count; i++)
            assert_contains(findings.items[i].text, "cannot be opened");
        assert_int_equal(config->queue_node.port, 20001);
        assert_int_equal(config->lock_node_count, 3);
        assert_int_equal(config->lock_nodes[2].port, 29999);
        assert_int_equal(config->class_count, 2);
        config_free(config);
        findings_fini(&findings);
        buffer_fini(&text);
    }
}

RUN_TESTS
