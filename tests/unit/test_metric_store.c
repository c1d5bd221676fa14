/* The values of metrics and their text, in both forms. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/histogram.h"
#include "worker/flow.h"
#include "worker/monitor/metric_store.h"

static const char *const queues[] = {"jobs", "a\"b\\c\nd"}, *const nodes[] = {"lock1", "lock2"};
static struct metric_store *store;
static struct buffer text;

static void set_up(void)
{
    store = metric_store_create(&(struct metric_names){.queues = queues,
                                                       .nodes = nodes,
                                                       .queue_count = 2,
                                                       .node_count = 2,
                                                       .class_max = 2,
                                                       .process = "host=\"h\",process=\"3\""});
}

static void tear_down(void)
{
    metric_store_destroy(store);
    buffer_fini(&text);
    text = (struct buffer){.bytes = NULL};
}

static const char *printed(enum metric_text form)
{
    buffer_clear(&text);
    metric_store_print(store, form, &text);
    return buffer_text(&text);
}

static void has(enum metric_text form, const char *line)
{
    const char *all = printed(form), *at = strstr(all, line);
    if (at == NULL || (at > all && at[-1] != '\n'))
        fail_msg("lacks: %s", line);
}

TEST(queues_and_classes_have_their_names)
{
    assert_int_equal(metric_class_count(store), 1);
    metric_class_add(store, "echo");
    metric_class_add(store, "sleep");
    assert_int_equal(metric_class_count(store), 3);
    metric_set(store, METRIC_TASKS, (struct metric_at){{0, 1, FLOW_DONE}}, 2);
    metric_set(store, METRIC_TASKS, (struct metric_at){{1, METRIC_CLASS_OTHER, FLOW_DEAD}}, 1);
    has(METRIC_TEXT_PROMETHEUS, "holdfast_tasks_total{queue=\"jobs\",class=\"echo\",outcome=\"done\"} 2\n");
    has(METRIC_TEXT_PROMETHEUS, "holdfast_tasks_total{queue=\"a\\\"b\\\\c\\nd\",class=\"other\",outcome=\"dead\"} 1\n");
    assert_null(strstr(buffer_text(&text), "outcome=\"parked\"")); /* what did not happen, and no alert looks at */
}

/* Else it would not see that the first one grew. */
TEST(what_an_alert_counts_is_there_from_the_start)
{
    static const char *const outcomes[] = {"done", "failed", "dead", "refused", "invalid", "no_resource"};
    char line[128];
    metric_class_add(store, "echo");
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
        snprintf(line, sizeof line, "holdfast_tasks_total{queue=\"jobs\",class=\"echo\",outcome=\"%s\"} 0\n",
                 outcomes[i]);
        has(METRIC_TEXT_PROMETHEUS, line);
    }
    has(METRIC_TEXT_PROMETHEUS, "holdfast_tasks_total{queue=\"jobs\",class=\"other\",outcome=\"invalid\"} 0\n");
    static char alerts[1 << 16];
    int fd = open("conf/alerts.yml", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && read(fd, alerts, sizeof alerts - 1) > 0);
    close(fd);
    const char *all = printed(METRIC_TEXT_PROMETHEUS), *at = alerts;
    while ((at = strstr(at, "holdfast_")) != NULL) {
        size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        snprintf(line, sizeof line, "\n%.*s", (int)length, at);
        assert_contains(all, line);
        at += length;
    }
}

/* Both forms are UTF-8; a producer may call a queue anything. */
TEST(names_that_are_no_text_are_shown_as_text)
{
    struct buffer labels = {0};
    metric_label_append(&labels, "host", "caf\xE9 \xF0\x9F\x98");
    metric_label_append(&labels, "queue", "caf\xC3\xA9\n");
    assert_string_equal(buffer_text(&labels), "host=\"caf\xEF\xBF\xBD \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\","
                                              "queue=\"caf\xC3\xA9\\n\"");
    buffer_fini(&labels);
}

TEST(a_counter_is_called_differently_in_the_two_forms)
{
    metric_set(store, METRIC_LOG_DROPPED, (struct metric_at){{0}}, 7);
    metric_set(store, METRIC_CPU, (struct metric_at){{0}}, 1500000000);
    has(METRIC_TEXT_PROMETHEUS,
        "# TYPE holdfast_log_lines_dropped_total counter\nholdfast_log_lines_dropped_total 7\n");
    assert_null(strstr(buffer_text(&text), "# EOF"));
    assert_null(strstr(buffer_text(&text), "# UNIT"));
    has(METRIC_TEXT_OPENMETRICS, "# TYPE holdfast_log_lines_dropped counter\nholdfast_log_lines_dropped_total 7\n");
    has(METRIC_TEXT_OPENMETRICS, "# UNIT process_cpu_seconds seconds\nprocess_cpu_seconds_total 1.5\n");
    assert_string_equal(buffer_text(&text) + text.length - 6, "# EOF\n");
}

TEST(values_of_nodes_have_their_names_and_signs)
{
    metric_set(store, METRIC_NODE_CLOCK, (struct metric_at){{1}}, -2500000);
    metric_set(store, METRIC_NODE_ANSWERS, (struct metric_at){{0, 3}}, 4);
    has(METRIC_TEXT_PROMETHEUS, "holdfast_lock_node_clock_offset_seconds{node=\"lock1\"} 0\n");
    has(METRIC_TEXT_PROMETHEUS, "holdfast_lock_node_clock_offset_seconds{node=\"lock2\"} -0.0025\n");
    has(METRIC_TEXT_PROMETHEUS, "holdfast_lock_node_answers_total{node=\"lock1\",answer=\"timeout\"} 4\n");
    metric_set(store, METRIC_INFO, (struct metric_at){{0}}, 1);
    has(METRIC_TEXT_PROMETHEUS, "holdfast_process_info{host=\"h\",process=\"3\"} 1\n");
}

TEST(buckets_add_up)
{
    static struct histogram runs, cycles;
    metric_class_add(store, "echo");
    histogram_record(&runs, 980);       /* to within a step */
    histogram_record(&runs, 1001);      /* beyond the bound */
    histogram_record(&runs, 900000000); /* beyond all */
    histogram_record(&runs, -5);        /* a clock was set back */
    metric_spread(store, METRIC_TASK_RUN, (struct metric_at){{1}}, &runs);
    has(METRIC_TEXT_PROMETHEUS, "holdfast_task_run_seconds_bucket{class=\"echo\",le=\"0.0005\"} 1\n");
    has(METRIC_TEXT_PROMETHEUS, "holdfast_task_run_seconds_bucket{class=\"echo\",le=\"0.001\"} 2\n");
    has(METRIC_TEXT_PROMETHEUS, "holdfast_task_run_seconds_bucket{class=\"echo\",le=\"0.0025\"} 3\n");
    has(METRIC_TEXT_PROMETHEUS, "holdfast_task_run_seconds_bucket{class=\"echo\",le=\"300\"} 3\n");
    has(METRIC_TEXT_PROMETHEUS, "holdfast_task_run_seconds_bucket{class=\"echo\",le=\"+Inf\"} 4\n");
    has(METRIC_TEXT_PROMETHEUS, "holdfast_task_run_seconds_sum{class=\"echo\"} 900.001981\n");
    has(METRIC_TEXT_PROMETHEUS, "holdfast_task_run_seconds_count{class=\"echo\"} 4\n");

    histogram_record(&cycles, 90);
    histogram_record(&cycles, 40000);
    metric_spread(store, METRIC_LOOP_CYCLE, (struct metric_at){{0}}, &cycles);
    metric_spread(store, METRIC_LOOP_CYCLE, (struct metric_at){{0}}, &cycles); /* instead, not in addition */
    has(METRIC_TEXT_PROMETHEUS, "holdfast_loop_cycle_seconds_bucket{le=\"0.0001\"} 1\n");
    has(METRIC_TEXT_PROMETHEUS, "holdfast_loop_cycle_seconds_bucket{le=\"0.05\"} 2\n");
    has(METRIC_TEXT_PROMETHEUS, "holdfast_loop_cycle_seconds_sum 0.04009\n");
    has(METRIC_TEXT_PROMETHEUS, "holdfast_loop_cycle_seconds_count 2\n");
}

TEST(a_copy_stays_as_it_was)
{
    struct metric_store *original = store, *twin = metric_store_twin(store);
    metric_class_add(store, "echo");
    metric_set(store, METRIC_RUNNERS, (struct metric_at){{0}}, 4);
    metric_store_copy(twin, store);
    metric_set(store, METRIC_RUNNERS, (struct metric_at){{0}}, 5);
    assert_int_equal(metric_class_count(twin), 2);
    store = twin;
    has(METRIC_TEXT_PROMETHEUS, "holdfast_runners 4\n");
    store = original;
    metric_store_destroy(twin);
}

/* Names are unique and end as their unit says; the words of labels are as many as their counters. */
TEST(the_table_keeps_the_conventions)
{
    for (unsigned i = 0; i < METRICS; i++) {
        const struct metric_row *row = &metric_table[i];
        assert_non_null(row->name);
        assert_true(row->help[strlen(row->help) - 1] != '.');
        assert_true(row->per_unit > 0 && (row->kind != METRIC_HISTOGRAM || row->per_unit == US_PER_S));
        if (row->unit != NULL)
            assert_string_equal(row->name + strlen(row->name) - strlen(row->unit), row->unit);
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(row->name, metric_table[j].name);
    }
}

RUN_TESTS_BETWEEN(set_up, tear_down)
