/* The result of a finished task: the JSON record in hf:2:result:JID (docs/data-model.md). That of a cancelled one says
 * only that:
 *
 *     {"jid":"...","class":"...","ended_at":1795194374.5,"result":...}
 *     {"jid":"...","class":"...","ended_at":1795194374.5,"cancelled":true}
 *
 * Pure; any thread. */
#ifndef QUEUE_TASK_RESULT_H
#define QUEUE_TASK_RESULT_H

#include "base/buffer.h"
#include "base/clock.h"
#include "queue/json.h"

/* Appends the record. `result` is a JSON text. */
void task_result_write(const char *jid, const char *class_name, struct wall_time ended_at, struct text_span result,
                       struct buffer *out);
void task_result_write_cancelled(const char *jid, const char *class_name, struct wall_time ended_at,
                                 struct buffer *out);

/* The parts of a record; reading fails if another program wrote it. `result` points into the text. */
struct task_result {
    struct wall_time ended_at;
    bool was_cancelled; /* then it has no result */
    struct text_span result;
};
bool task_result_read(const char *record, size_t length, struct task_result *out);

#endif
