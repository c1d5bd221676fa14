/* Waiting for calls; see control.h. The wait ends by itself after a while, which reveals a connection that died
 * silently. A node that refuses the pop would be asked in a tight loop, so a rest follows a refusal. */
#include "queue/control.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "queue/envelope.h"
#include "queue/scripts.h"

#define WAIT_S        10
#define WAIT_SLACK_NS (2 * NS_PER_S)
#define REST_NS       (1 * NS_PER_S)
#define CONFIRMED_MS  60000

/* Callers send a few words. */
enum { REPLY_LIMIT = 64 * 1024 };

struct control {
    struct loop *loop;
    struct control_options options;
    struct redis_node *node;
    struct redis_call wait;
    struct loop_timer rest;
    struct buffer request;
};

/* --- what is called -------------------------------------------------------------------------------------------- */

bool control_parse(const char *text, size_t length, enum control_call *call, const char **jid)
{
    static const struct {
        const char *word;
        enum control_call call;
    } words[] = {{"TSTP", CONTROL_QUIET}, {"TERM", CONTROL_STOP}, {"INT", CONTROL_STOP},
                 {"TTIN", CONTROL_DUMP},  {"LOOK", CONTROL_LOOK}, {"DRAIN", CONTROL_DRAIN}};
    static const struct {
        const char *before;
        enum control_call call;
    } tasks[] = {{"CANCEL ", CONTROL_CANCEL}, {"LOSE ", CONTROL_LOSE}};
    *jid = NULL;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i].word) == length && memcmp(words[i].word, text, length) == 0) {
            *call = words[i].call;
            return true;
        }
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        size_t before = strlen(tasks[i].before);
        if (length <= before || memcmp(text, tasks[i].before, before) != 0 ||
            !envelope_jid_is_sound(text + before, length - before))
            continue;
        *call = tasks[i].call;
        *jid = text + before;
        return true;
    }
    return false;
}

static void call_confirm(struct control *control, const struct redis_reply *text)
{
    struct buffer *out = &control->request;
    buffer_clear(out);
    redis_request_begin(out, 5);
    redis_request_texts(out, "SET", control->options.keys->heard);
    redis_request_bytes(out, text->bytes, text->length);
    redis_request_text(out, "PX");
    redis_request_integer(out, CONFIRMED_MS);
    if (!redis_node_call(control->node, out, loop_after(control->loop, WAIT_SLACK_NS), NULL))
        return; /* the caller sees that no confirmation came */
}

static void call_deliver(struct control *control, const struct redis_reply *text)
{
    enum control_call call;
    const char *jid;
    char said[LOG_QUOTE_MAX];
    bool is_known = control_parse(text->bytes, text->length, &call, &jid);
    log_value_bytes(text->bytes, text->length, said);
    log_event(is_known ? LOG_INFO : LOG_WARN, is_known ? "called" : "call_unknown", "text=%s", said);
    if (is_known)
        control->options.called(control->options.context, call, jid); /* a reply ends with a NUL */
    if (is_known && call == CONTROL_LOSE)
        call_confirm(control, text);
}

/* --- waiting --------------------------------------------------------------------------------------------------- */

static void wait_send(struct control *control)
{
    struct buffer *out = &control->request;
    if (redis_call_is_outstanding(&control->wait) || loop_timer_is_set(&control->rest))
        return;
    buffer_clear(out);
    redis_request_begin(out, 4);
    redis_request_texts(out, "BRPOP", control->options.keys->signals, control->options.keys->calls);
    redis_request_integer(out, WAIT_S);
    struct instant deadline = loop_after(control->loop, WAIT_S * NS_PER_S + WAIT_SLACK_NS);
    if (!redis_node_call(control->node, out, deadline, &control->wait))
        return; /* sent when the connection is up */
}

static void wait_over(struct redis_call *call, const struct redis_result *result)
{
    struct control *control = list_owner(call, struct control, wait);
    const struct redis_reply *reply = result->reply;
    bool is_call = result->outcome == REDIS_VALUE && reply->kind == REDIS_ARRAY && reply->count == 2;
    if (is_call && reply->elements[1].kind == REDIS_STRING)
        call_deliver(control, &reply->elements[1]);
    if (result->outcome == REDIS_ERROR && reply != NULL) {
        char why[LOG_QUOTE_MAX];
        log_event(LOG_WARN, "control_refused", "error=%s reason=%s advice=\"it is asked again\"",
                  redis_error_name(result->error), log_value(result->reason, why));
        loop_timer_set(control->loop, &control->rest, loop_after(control->loop, REST_NS));
    }
    wait_send(control);
}

static void rest_over(struct loop_timer *timer)
{
    wait_send(list_owner(timer, struct control, rest));
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    (void)node;
    (void)reason;
    if (state == REDIS_NODE_UP)
        wait_send(context);
}

struct control *control_create(struct loop *loop, const struct control_options *options)
{
    struct control *control = memory_new(struct control);
    struct redis_node_options node = options->node;
    struct buffer name = {0};
    control->loop = loop;
    control->options = *options;
    control->wait.done = wait_over;
    loop_timer_init(&control->rest, rest_over);
    buffer_format(&name, "%s/control", node.name);
    node.name = buffer_text(&name);
    node.scripts = NULL;
    node.script_count = 0;
    node.changed = node_changed;
    node.context = control;
    node.silence_limit_ns = WAIT_S * NS_PER_S + 2 * WAIT_SLACK_NS;
    node.reply_limit = REPLY_LIMIT;
    control->node = redis_node_create(loop, &node);
    buffer_fini(&name);
    return control;
}

void control_destroy(struct control *control)
{
    redis_node_destroy(control->node);
    loop_timer_clear(control->loop, &control->rest);
    buffer_fini(&control->request);
    free(control);
}

void control_request_call(const struct queue_keys *keys, const char *identity, const char *text, struct buffer *out)
{
    redis_request_script(out, &queue_script_call, 1, 5);
    redis_request_texts(out, keys->processes, keys->calls_prefix, keys->process_prefix, text, identity,
                        keys->heard_prefix);
}

void control_request_heard(const struct queue_keys *keys, const char *identity, struct buffer *out)
{
    redis_request_begin(out, 2);
    redis_request_text(out, "GET");
    queue_keys_request(keys->heard_prefix, identity, out);
}
