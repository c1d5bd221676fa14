#include "worker/dry_run/stage/node_question.h"

#include <stdlib.h>

#include "base/memory.h"

#define CALL_LIMIT_NS  (3600 * NS_PER_S) /* a stopped node answers when it goes on */
#define BACKOFF_MAX_NS (50 * NS_PER_MS)

struct node_asker {
    struct loop *loop;
    struct redis_node *node;
    struct list waiting; /* until it is up */
};

static void question_send(struct node_question *question)
{
    static const char *const commands[] = {[NODE_QUESTION_PING] = "PING",
                                           [NODE_QUESTION_KEYS] = "DBSIZE",
                                           [NODE_QUESTION_FLUSH] = "FLUSHALL",
                                           [NODE_QUESTION_TIME] = "TIME"};
    struct buffer request = {0};
    struct node_asker *asker = question->asker;
    redis_request_begin(&request, 1);
    redis_request_text(&request, commands[question->kind]);
    if (!redis_node_call(asker->node, &request, loop_after(asker->loop, CALL_LIMIT_NS), &question->call))
        list_append(&asker->waiting, &question->link);
    buffer_fini(&request);
}

static int64_t number_of(enum node_question_kind kind, const struct redis_reply *reply)
{
    if (kind == NODE_QUESTION_TIME && reply->kind == REDIS_ARRAY && reply->count == 2 &&
        reply->elements[0].kind == REDIS_STRING && reply->elements[1].kind == REDIS_STRING)
        return strtoll(reply->elements[0].bytes, NULL, 10) * US_PER_S + strtoll(reply->elements[1].bytes, NULL, 10) -
               wall_now().us;
    return reply->kind == REDIS_INTEGER ? reply->integer : 0;
}

static void call_done(struct redis_call *call, const struct redis_result *result)
{
    struct node_question *question = list_owner(call, struct node_question, call);
    if (result->outcome != REDIS_VALUE) { /* it was killed meanwhile, or is being started */
        list_append(&question->asker->waiting, &question->link);
        return;
    }
    const struct node_answer answer = {.took_ns = instant_since(question->asked, instant_now()),
                                       .number = number_of(question->kind, result->reply)};
    question->answered(question, &answer);
}

static void node_changed(void *context, struct redis_node *node, enum redis_node_state state, const char *reason)
{
    struct node_asker *asker = context;
    struct list batch;
    (void)node, (void)reason;
    list_init(&batch);
    for (struct list *link; state == REDIS_NODE_UP && (link = list_take_first(&asker->waiting)) != NULL;)
        list_append(&batch, link);
    for (struct list *link; (link = list_take_first(&batch)) != NULL;)
        question_send(list_owner(link, struct node_question, link));
}

struct node_asker *node_asker_create(struct loop *loop, const struct private_nodes *nodes, unsigned number)
{
    struct node_asker *asker = memory_new(struct node_asker);
    asker->loop = loop;
    list_init(&asker->waiting);
    asker->node = redis_node_create(loop, &(struct redis_node_options){.name = private_nodes_name(nodes, number),
                                                                       .host = private_nodes_host(nodes),
                                                                       .port = private_nodes_port(nodes, number),
                                                                       .password = private_nodes_password(nodes),
                                                                       .client_name = "holdfast-dry-run",
                                                                       .backoff_max_ns = BACKOFF_MAX_NS,
                                                                       .silence_limit_ns = CALL_LIMIT_NS,
                                                                       .changed = node_changed,
                                                                       .context = asker});
    return asker;
}

void node_asker_destroy(struct node_asker *asker)
{
    if (asker == NULL)
        return;
    redis_node_destroy(asker->node);
    free(asker);
}

void node_question_init(struct node_question *question)
{
    *question = (struct node_question){.call.done = call_done};
    list_init(&question->link);
}

void node_question_ask(struct node_asker *asker, struct node_question *question, enum node_question_kind kind)
{
    node_question_cancel(question);
    question->asker = asker;
    question->kind = kind;
    question->asked = instant_now();
    question_send(question);
}

void node_question_cancel(struct node_question *question)
{
    redis_call_cancel(&question->call);
    list_remove(&question->link);
}
