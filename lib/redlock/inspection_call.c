#include "redlock/inspection_call.h"

#include <stdio.h>
#include <string.h>

#include "redis/request.h"
#include "redlock/scripts.h"

enum { MARKER, RUN, PLAIN_RUN, EVICTS, POLICY, SPOILT, REPLICA, ID, HIGHEST, TIME, PARTS };

void inspection_call_ask(struct buffer *request, const char *id)
{
    buffer_clear(request);
    redis_request_script(request, &redlock_script_inspect, id != NULL ? 2 : 1, id != NULL);
    redis_request_text(request, MARKER_KEY);
    if (id != NULL)
        redis_request_texts(request, NODE_ID_KEY, id);
}

void inspection_call_mark(struct buffer *request, const char *seen, const char *wanted, int64_t highest)
{
    char token[24] = "";
    if (highest != TRUST_KEEPS_FENCES)
        snprintf(token, sizeof token, "%lld", (long long)highest);
    buffer_clear(request);
    redis_request_script(request, &redlock_script_mark, 1, 3);
    redis_request_texts(request, MARKER_KEY, seen, wanted, token);
}

bool inspection_call_read(struct trust_inspection *inspection, char *policy, const struct redis_reply *reply)
{
    if (reply->kind != REDIS_ARRAY || reply->count != PARTS || reply->elements[TIME].kind != REDIS_INTEGER ||
        reply->elements[HIGHEST].kind != REDIS_INTEGER)
        return false;
    const struct redis_reply *parts = reply->elements, *run = &parts[RUN], *plain = &parts[PLAIN_RUN],
                             *text = &parts[MARKER], *id = &parts[ID];
    for (size_t i = 0; i < HIGHEST; i++)
        if (parts[i].kind != REDIS_STRING)
            return false;
    if (run->length == 0 || run->length > MARKER_RUN_DIGITS || plain->length > MARKER_RUN_DIGITS ||
        parts[TIME].integer <= 0)
        return false;
    if (id->length > 0 && (id->length != MARKER_GROUP_DIGITS || !marker_is_hex(id->bytes, MARKER_GROUP_DIGITS)))
        return false;
    /* what C would cut is no marker: scripts compare all of it */
    bool is_cut = text->length >= sizeof inspection->marker_text || strlen(text->bytes) != text->length;
    snprintf(inspection->marker_text, sizeof inspection->marker_text, "%s", is_cut ? "?" : text->bytes);
    memcpy(inspection->run_id, run->bytes, run->length + 1);
    memcpy(inspection->plain_run_id, plain->bytes, plain->length + 1);
    inspection->evicts = redis_reply_is_text(&parts[EVICTS], "1");
    inspection->has_bad_fences = redis_reply_is_text(&parts[SPOILT], "1");
    inspection->is_replica = redis_reply_is_text(&parts[REPLICA], "1");
    inspection->highest_token = parts[HIGHEST].integer;
    inspection->reading.node_us = parts[TIME].integer;
    memcpy(inspection->node_id, id->bytes, id->length + 1);
    if (policy != NULL)
        snprintf(policy, INSPECTION_POLICY_SIZE, "%s", parts[POLICY].bytes);
    return true;
}
