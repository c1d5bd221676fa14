/* Subscriptions: what a server says unasked to a connection that wants to hear it. Loop thread only.
 *
 * A message has no request, so it must be told from a reply, and nothing else may slip through with it. The server says
 * with each reply to SUBSCRIBE and UNSUBSCRIBE how many channels are left, and sends messages exactly while that is not
 * zero; in that state (of RESP2) it answers no command that could be answered with ["message", ...]. So between the two
 * an array of this form is a message and anything else a reply; otherwise there are no messages, and what looks like
 * one is matched like every reply.
 *
 * A subscriber asks nothing for hours, so a server that hangs, or half a message, would go unnoticed: the pulse, a PING
 * while nothing else is unanswered, gives the silence limit something to measure. */
#include "redis/node_private.h"

static bool is_word(const struct redis_reply *reply, const char *word)
{
    return redis_reply_is_text(&reply->elements[0], word);
}

bool node_takes_message(struct redis_node *node, const struct redis_reply *reply)
{
    if (!node->is_subscribed || reply->kind != REDIS_ARRAY || reply->count != 3 || !is_word(reply, "message"))
        return false;
    const struct redis_reply *channel = &reply->elements[1], *payload = &reply->elements[2];
    if (channel->kind != REDIS_STRING || payload->kind != REDIS_STRING)
        return false;
    node->counters.messages++;
    node->options.message(node->options.context, node, channel->bytes, channel->length, payload->bytes,
                          payload->length);
    return true;
}

static void plan_pulse(struct redis_node *node)
{
    loop_timer_set(node->loop, &node->pulse_timer, loop_after(node->loop, node->options.pulse_interval_ns));
}

void node_follow_subscriptions(struct redis_node *node, const struct redis_reply *reply)
{
    bool is_change = node->options.message != NULL && reply->kind == REDIS_ARRAY && reply->count == 3 &&
                     (is_word(reply, "subscribe") || is_word(reply, "unsubscribe")) &&
                     reply->elements[2].kind == REDIS_INTEGER;
    if (!is_change)
        return;
    node->is_subscribed = reply->elements[2].integer > 0;
    if (!node->is_subscribed)
        loop_timer_clear(node->loop, &node->pulse_timer);
    else if (!loop_timer_is_set(&node->pulse_timer))
        plan_pulse(node);
}

static void pulse_fired(struct loop_timer *timer)
{
    struct redis_node *node = list_owner(timer, struct redis_node, pulse_timer);
    plan_pulse(node);
    if (!pending_is_empty(&node->pending))
        return; /* it is being waited for already */
    size_t from = node->out.length;
    redis_request_begin(&node->out, 1);
    redis_request_text(&node->out, "PING");
    (void)node_expect(node, node->out.length - from,
                      (struct pending){.deadline = INSTANT_NEVER, .kind = PENDING_PULSE});
    loop_at_turn_end(node->loop, LOOP_WRITE, &node->write_hook);
}

/* Refused by an access list it is a sign of life too. */
bool node_is_pulse_reply(const struct redis_reply *reply)
{
    return reply->kind == REDIS_FAILURE || redis_reply_is_status(reply, "PONG") ||
           (reply->kind == REDIS_ARRAY && reply->count == 2 && is_word(reply, "pong"));
}

void node_messages_init(struct redis_node *node)
{
    loop_timer_init(&node->pulse_timer, pulse_fired);
    if (node->options.pulse_interval_ns == 0)
        node->options.pulse_interval_ns = 5 * NS_PER_S;
}

void node_messages_end(struct redis_node *node)
{
    node->is_subscribed = false;
    loop_timer_clear(node->loop, &node->pulse_timer);
}
