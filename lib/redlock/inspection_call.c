#include "redlock/inspection_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/request.h"
#include "redlock/scripts.h"

#define ID_BEGINNING "%d " /* of the id of a node that is used alone: the scheme */

enum { MARKER, RUN, PLAIN_RUN, EVICTS, POLICY, SPOILT, REPLICA, ID, HIGHEST, TIME, PARTS };

void inspection_call_ask(struct buffer *request, const char *id)
{
    buffer_clear(request);
    redis_request_script(request, &redlock_script_inspect, id != NULL ? 2 : 1, id != NULL);
    redis_request_text(request, MARKER_KEY);
    char text[MARKER_GROUP_DIGITS + 8] = "";
    if (id != NULL && id[0] != '\0')
        snprintf(text, sizeof text, ID_BEGINNING "%s", MARKER_SCHEME, id);
    if (id != NULL)
        redis_request_texts(request, NODE_ID_KEY, text);
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

static bool id_read(struct trust_inspection *inspection, const struct redis_reply *id)
{
    char *end;
    unsigned long scheme = strtoul(id->bytes, &end, 10);
    inspection->is_of_other_scheme = false;
    inspection->node_id[0] = '\0';
    if (id->length == 0)
        return true;
    if (end == id->bytes || *end != ' ' || strlen(id->bytes) != id->length)
        return false;
    inspection->is_of_other_scheme = scheme != MARKER_SCHEME;
    if (!inspection->is_of_other_scheme && marker_is_hex(end + 1, MARKER_GROUP_DIGITS))
        memcpy(inspection->node_id, end + 1, MARKER_GROUP_DIGITS + 1);
    return inspection->is_of_other_scheme || inspection->node_id[0] != '\0';
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
    if (!id_read(inspection, id))
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
    if (policy != NULL)
        snprintf(policy, INSPECTION_POLICY_SIZE, "%s", parts[POLICY].bytes);
    return true;
}
