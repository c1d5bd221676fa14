#include "worker/commands/culprit_note.h"

#include "base/log.h"
#include "queue/culprit.h"
#include "queue/scripts.h"
#include "worker/inquiry.h"

#define PATIENCE_NS (10 * NS_PER_S)

static void failure_tell(const char *reason)
{
    char text[LOG_QUOTE_MAX];
    log_event(LOG_WARN, "culprit_not_noted",
              "reason=%s advice=\"the tasks that ran beside it count as if they had crashed the worker, too\"",
              log_value(reason, text));
}

static void outcome_tell(const struct inquiry *inquiry, const struct berth *berth)
{
    char jid[LOG_QUOTE_MAX];
    const struct redis_reply *reply = inquiry_reply(inquiry, 0);
    if (reply->kind == REDIS_FAILURE)
        failure_tell(reply->bytes);
    else if (inquiry_integer(inquiry, 0, 0) != 1)
        failure_tell("it was recovered before");
    else
        log_event(LOG_INFO, "culprit_noted", "jid=%s", log_value(berth->jid, jid));
}

void culprit_note(const void *config, const struct board *board, unsigned culprit)
{
    static const struct redis_script *const scripts[] = {&queue_script_culprit};
    const struct config *own = config;
    struct error error = ERROR_NONE;
    struct queue_keys keys;
    struct inquiry *inquiry = inquiry_open(&(struct inquiry_options){.node = &own->queue_node,
                                                                     .client_name = "holdfast-zygote",
                                                                     .scripts = scripts,
                                                                     .script_count = 1,
                                                                     .patience_ns = PATIENCE_NS,
                                                                     .keeps_trying = true},
                                           &error);
    if (inquiry == NULL) {
        failure_tell(error.text);
        return;
    }
    queue_keys_init(&keys, "", "");
    inquiry_begin(inquiry);
    culprit_request(inquiry_compose(inquiry), &keys, board->identity, culprit);
    if (inquiry_run(inquiry))
        outcome_tell(inquiry, &board->berths[culprit]);
    else
        failure_tell(inquiry_reason(inquiry));
    queue_keys_fini(&keys);
    inquiry_close(inquiry);
}
