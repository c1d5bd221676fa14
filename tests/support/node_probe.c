#include "tests/support/node_probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/loop_until.h"
#include "tests/support/test.h"

static const int64_t wait_limit_ns = TEST_PATIENCE_NS;
static unsigned completions;

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    struct node_probe *probe = context;
    (void)node;
    if (state == REDIS_NODE_UP)
        probe->ups++;
    else
        probe->downs++;
    snprintf(probe->reason, sizeof probe->reason, "%s", reason);
    if (probe->on_change != NULL)
        probe->on_change(probe, state);
}

void node_probe_start(struct node_probe *probe, struct loop *loop, const struct redis_node_options *options)
{
    struct redis_node_options own = *options;
    own.changed = node_changed;
    own.context = probe;
    probe->loop = loop;
    probe->node = redis_node_create(loop, &own);
}

void node_probe_stop(struct node_probe *probe)
{
    redis_node_destroy(probe->node);
    probe->node = NULL;
}

static bool is_up(void *context)
{
    const struct node_probe *probe = context;
    return redis_node_state(probe->node) == REDIS_NODE_UP;
}

void node_probe_wait_up(struct node_probe *probe)
{
    if (!loop_until(probe->loop, is_up, probe, wait_limit_ns))
        fail_msg("the node did not come up: %s", redis_node_reason(probe->node));
}

struct downs {
    struct node_probe *probe;
    unsigned wanted;
};

static bool has_downs(void *context)
{
    const struct downs *downs = context;
    return downs->probe->downs >= downs->wanted;
}

void node_probe_wait_downs(struct node_probe *probe, unsigned downs)
{
    struct downs wanted = {probe, downs};
    if (!loop_until(probe->loop, has_downs, &wanted, wait_limit_ns))
        fail_msg("the node was not reported down %u times", downs);
}

static void call_done(struct redis_call *call, const struct redis_result *result)
{
    struct call_probe *probe = list_owner(call, struct call_probe, call);
    assert_false(redis_call_is_outstanding(call));
    assert_non_null(result->reason);
    probe->completions++;
    probe->order = ++completions;
    probe->outcome = result->outcome;
    probe->error = result->error;
    snprintf(probe->reason, sizeof probe->reason, "%s", result->reason);
    if (result->reply != NULL) {
        probe->kind = result->reply->kind;
        probe->integer = result->reply->integer;
        probe->count = result->reply->count;
        probe->length = result->reply->length;
        snprintf(probe->text, sizeof probe->text, "%s", result->reply->bytes != NULL ? result->reply->bytes : "");
    }
    if (probe->on_done != NULL)
        probe->on_done(probe);
}

static size_t count_words(const char *line)
{
    size_t words = 1;
    for (; *line != '\0'; line++)
        words += *line == ' ';
    return words;
}

bool call_probe_send(struct call_probe *probe, struct node_probe *node, int64_t timeout_ns, const char *format, ...)
{
    struct buffer request = {0};
    char *line = NULL, *rest = NULL;
    va_list arguments;
    va_start(arguments, format);
    assert_true(vasprintf(&line, format, arguments) >= 0);
    va_end(arguments);

    redis_request_begin(&request, count_words(line));
    for (char *word = strtok_r(line, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        redis_request_text(&request, word);
    probe->call.done = call_done;
    bool is_sent = redis_node_call(node->node, &request, instant_after(instant_now(), timeout_ns), &probe->call);
    buffer_fini(&request);
    free(line);
    return is_sent;
}

static bool has_completed(void *context)
{
    const struct call_probe *probe = context;
    return probe->completions > 0;
}

void call_probe_wait(struct call_probe *probe, struct loop *loop)
{
    if (!loop_until(loop, has_completed, probe, wait_limit_ns))
        fail_msg("the call did not complete");
}

void call_probe_run(struct call_probe *probe, struct node_probe *node, const char *command)
{
    assert_true(call_probe_send(probe, node, TEST_PATIENCE_NS, "%s", command));
    call_probe_wait(probe, node->loop);
    if (probe->outcome != REDIS_VALUE)
        fail_msg("%s: %s", command, probe->reason);
}
