#include "worker/dry_run/run/shadow_holds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "queue/keys.h"
#include "worker/dry_run/run/apart.h"
#include "worker/nodes/node_client.h"
#include "worker/presence/lock_counts.h"
#include "worker/print/exit_code.h"

#define DAY_US (24 * 3600 * US_PER_S)
/* Durations that stand for a class: the longest thousandth of its holds is one of them. */
enum { QUANTILES = 1000, DAYS = 2 };
/* Classes that a warning names. */
enum { NAMED_MAX = 8 };

struct holds_question {
    const struct config *live;
    const struct plugins *plugins;
};

/* What the process apart reports of a class. */
struct holds_answer {
    size_t handler; /* its index among those of the plugins */
    double seconds[QUANTILES];
};

/* --- in the process apart ----------------------------------------------------------------------------------------- */

static void days_ask(struct node_client *client)
{
    struct queue_keys keys;
    struct wall_time now = wall_now();
    queue_keys_init(&keys, "", "");
    node_client_begin(client);
    for (int64_t day = 0; day < DAYS; day++) {
        struct buffer *request = node_client_compose(client);
        redis_request_begin(request, 2);
        redis_request_text(request, "HGETALL");
        queue_keys_request_locks(&keys, (struct wall_time){now.us - day * DAY_US}, request);
    }
    queue_keys_fini(&keys);
}

/* Of all resources that the class locked. */
static void class_restore(const struct lock_counts *counts, const char *class_name, struct histogram *holds)
{
    char name[ENVELOPE_CLASS_BYTES_MAX + 1];
    *name_part_write(name, class_name, strnlen(class_name, ENVELOPE_CLASS_BYTES_MAX)) = '\0';
    *holds = (struct histogram){.count = 0};
    for (size_t i = 0; i < counts->row_count; i++) {
        const struct lock_counts_row *row = &counts->rows[i];
        for (size_t step = 0; strcmp(row->class_name, name) == 0 && step < HISTOGRAM_COARSE_STEPS; step++)
            histogram_restore(holds, step, row->hold.steps[step]);
    }
}

static bool classes_tell(const struct plugins *plugins, const struct lock_counts *counts, int descriptor)
{
    struct holds_answer answer;
    struct histogram holds;
    for (size_t i = 0; i < plugins_handler_count(plugins); i++) {
        class_restore(counts, plugins_handler_at(plugins, i)->class_name, &holds);
        if (holds.count == 0)
            continue;
        memset(&answer, 0, sizeof answer);
        answer.handler = i;
        for (size_t j = 0; j < QUANTILES; j++)
            answer.seconds[j] = (double)histogram_quantile(&holds, ((double)j + 0.5) / QUANTILES) / (double)US_PER_S;
        if (write(descriptor, &answer, sizeof answer) != (ssize_t)sizeof answer)
            return false;
    }
    return true;
}

static int holds_ask(void *context, int descriptor)
{
    const struct holds_question *question = context;
    struct lock_counts counts = {0};
    struct error error = ERROR_NONE;
    struct node_client *client = node_client_open(
        &(struct node_client_options){.node = &question->live->queue_node, .client_name = "dry-run"}, &error);
    if (client == NULL) {
        dprintf(descriptor, "%s", error.text);
        return EXIT_CODE_FAILURE;
    }
    days_ask(client);
    if (!node_client_run(client)) {
        dprintf(descriptor, "%s", node_client_reason(client));
        return EXIT_CODE_FAILURE;
    }
    for (size_t day = 0; day < DAYS; day++) {
        const struct redis_reply *fields = node_client_reply_of(client, day, REDIS_ARRAY);
        if (fields != NULL)
            lock_counts_read(&counts, fields);
    }
    lock_counts_fold(&counts);
    bool is_told = classes_tell(question->plugins, &counts, descriptor);
    lock_counts_free(&counts);
    node_client_close(client);
    return is_told ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}

/* --- here --------------------------------------------------------------------------------------------------------- */

/* Both are in the order of the handlers. */
static void missing_tell(const struct shadow_holds *holds, const struct plugins *plugins, struct findings *findings)
{
    struct buffer names = {0};
    size_t missing = 0, known = 0, count = plugins_handler_count(plugins);
    for (size_t i = 0; i < count; i++) {
        const char *name = plugins_handler_at(plugins, i)->class_name;
        if (known < holds->count && strcmp(holds->classes[known].name, name) == 0)
            known++;
        else if (missing++ < NAMED_MAX)
            buffer_format(&names, "%s%s", names.length > 0 ? ", " : "", name);
    }
    if (missing > NAMED_MAX)
        buffer_format(&names, " and %zu more", missing - NAMED_MAX);
    if (missing > 0)
        findings_warn(findings,
                      "the fleet has counted no locks of these classes today and yesterday, so their tasks hold as "
                      "--hold says: %s",
                      buffer_text(&names));
    buffer_fini(&names);
}

void shadow_holds_read(struct shadow_holds *holds, const struct config *live, const struct plugins *plugins,
                       struct findings *findings)
{
    struct holds_question question = {.live = live, .plugins = plugins};
    struct buffer output = {0};
    holds->classes = memory_zeroed(plugins_handler_count(plugins) + 1, sizeof holds->classes[0]);
    if (apart_do(holds_ask, &question, &output) == EXIT_CODE_OK) {
        struct holds_answer answer;
        for (size_t at = 0; at + sizeof answer <= output.length; at += sizeof answer) {
            memcpy(&answer, output.bytes + at, sizeof answer);
            struct simulated_class *class = &holds->classes[holds->count++];
            class->name = plugins_handler_at(plugins, answer.handler)->class_name;
            class->hold = (struct distribution){0};
            distribution_measure(&class->hold, answer.seconds, QUANTILES);
        }
        missing_tell(holds, plugins, findings);
    } else {
        findings_warn(findings,
                      "the queue node does not tell how long locks are held, so all tasks hold as --hold says: %s",
                      buffer_text(&output));
    }
    buffer_fini(&output);
}

void shadow_holds_fini(struct shadow_holds *holds)
{
    for (size_t i = 0; i < holds->count; i++)
        distribution_fini(&holds->classes[i].hold);
    free(holds->classes);
    *holds = (struct shadow_holds){.classes = NULL};
}
