/* Plays an operation of node_cases.h on the model, and puts the answer into the words of the table. */
#ifndef TESTS_NODE_CASE_MODEL_H
#define TESTS_NODE_CASE_MODEL_H

#include <stdio.h>
#include <string.h>

#include "tests/integration/node_cases.h"
#include "tests/sim/node_model.h"

static inline unsigned pair_count(const struct operation *operation)
{
    unsigned count = 0;
    while (count < PAIRS_MAX && operation->pairs[count].value != 0)
        count++;
    return count;
}

static inline unsigned keys_of(const struct operation *operation)
{
    unsigned keys = 0;
    for (unsigned i = 0; i < pair_count(operation); i++)
        keys |= 1u << operation->pairs[i].key;
    return keys;
}

static inline int64_t token_at(const struct operation *operation, int64_t now_us)
{
    return operation->token >= AHEAD(0) ? now_us + (operation->token - AHEAD(0)) * US_PER_S : operation->token;
}

static inline int64_t deadline_at(const struct operation *operation, int64_t now_us)
{
    return operation->late_s > 0 ? now_us - operation->late_s * US_PER_S : now_us + 3600 * US_PER_S;
}

static inline void text_add(char *text, const char *more)
{
    size_t length = strlen(text);
    snprintf(text + length, TEXT_MAX - length, "%s", more);
}

/* A token that is near the clock is told by its distance, to the second: the two clocks are not the same one. */
static inline void token_tell(char *text, int64_t token, int64_t now_us)
{
    size_t length = strlen(text);
    if (token < INT64_C(1000000000000))
        snprintf(text + length, TEXT_MAX - length, "%lld", (long long)token);
    else
        snprintf(text + length, TEXT_MAX - length, "now%+lld", (long long)((token - now_us + US_PER_S / 2) / US_PER_S));
}

/* --- the model ------------------------------------------------------------------------------------------------- */

/* The model's clock stands still: only EXPIRE lets time pass, for one key. */
#define CLOCK_MS   INT64_C(1790000000000)
#define CLOCK_US   (CLOCK_MS * 1000)
#define MODEL_TIME ((struct instant){0})

static inline uint16_t model_marker(uint16_t marker)
{
    return marker == 0 ? MODEL_ANY_MARKER : marker == MARKER_ABSENT ? MODEL_NO_MARKER : marker;
}

static inline struct model_request model_request(const struct operation *operation)
{
    return (struct model_request){.marker = model_marker(operation->marker),
                                  .deadline_us = deadline_at(operation, CLOCK_US),
                                  .ttl_ms = operation->ttl_ms,
                                  .fence_ttl_ms = FENCE_MS,
                                  .token = (uint64_t)token_at(operation, CLOCK_US),
                                  .keys = keys_of(operation),
                                  .value = operation->pairs[0].value,
                                  .old = operation->old};
}

static inline const char *code_name(enum model_code code)
{
    return code == MODEL_OTHER_MARKER ? "other marker" : code == MODEL_TOO_LATE ? "too late" : NULL;
}

static inline void grant_tell(char *text, const struct model_answer *answer)
{
    size_t length = strlen(text);
    if (!answer->done && answer->held == MODEL_OTHER_TYPE) {
        snprintf(text + length, TEXT_MAX - length, "!");
    } else if (!answer->done) {
        snprintf(text + length, TEXT_MAX - length, "-v%u", answer->held);
    } else {
        snprintf(text + length, TEXT_MAX - length, answer->replaced ? "=" : "+");
        if (answer->token != 0)
            token_tell(text, (int64_t)answer->token, CLOCK_US);
    }
}

static inline const char *model_grant(struct node_model *model, const struct operation *operation, char *text)
{
    struct model_request request = model_request(operation);
    unsigned locks = operation->kind == GRANT_ALL ? 1 : pair_count(operation);
    for (unsigned i = 0; i < locks; i++) {
        if (operation->kind == GRANT) {
            request.keys = 1u << operation->pairs[i].key;
            request.value = operation->pairs[i].value;
        }
        struct model_answer answer = node_model_grant(model, &request, MODEL_TIME);
        if (answer.code != MODEL_DONE)
            return code_name(answer.code);
        if (i > 0)
            text_add(text, " ");
        grant_tell(text, &answer);
    }
    return text;
}

static inline const char *model_of_token(struct node_model *model, const struct operation *operation, char *text)
{
    struct model_request request = model_request(operation);
    bool raises = operation->kind == RAISE;
    struct model_answer answer =
        raises ? node_model_raise(model, &request, MODEL_TIME) : node_model_replant(model, &request, MODEL_TIME);
    if (answer.code != MODEL_DONE)
        return code_name(answer.code);
    if (!answer.done || !raises)
        return answer.done ? "1" : "0";
    text_add(text, "+");
    token_tell(text, (int64_t)answer.token, CLOCK_US);
    return text;
}

static inline const char *model_batch(struct node_model *model, const struct operation *operation, char *text)
{
    unsigned count = pair_count(operation);
    if (operation->kind == EXTEND && !node_model_has_marker(model, model_marker(operation->marker)))
        return code_name(MODEL_OTHER_MARKER);
    for (unsigned i = 0; i < count; i++) {
        struct pair pair = operation->pairs[i];
        text[i] = operation->kind == EXTEND
                      ? node_model_extend(model, pair.key, pair.value, operation->ttl_ms, CLOCK_MS)
                      : node_model_release(model, pair.key, pair.value, CLOCK_MS);
    }
    text[count] = '\0';
    return text;
}

static inline const char *model_inspect(const struct node_model *model, char *text)
{
    if (model->marker == MODEL_NO_MARKER)
        return "none";
    if (model->marker == MODEL_BAD_MARKER)
        return "?";
    snprintf(text, TEXT_MAX, "m%u", model->marker);
    return text;
}

static inline const char *model_play(struct node_model *model, const struct operation *operation, char *text)
{
    struct pair pair = operation->pairs[0];
    switch (operation->kind) {
    case GRANT:
    case GRANT_ALL:
        return model_grant(model, operation, text);
    case RAISE:
    case REPLANT:
        return model_of_token(model, operation, text);
    case EXTEND:
    case RELEASE:
        return model_batch(model, operation, text);
    case MARK:
        return node_model_mark(model, model_marker(operation->marker), (uint16_t)operation->token) ? "1" : "0";
    case INSPECT:
        return model_inspect(model, text);
    case EXPIRE:
        node_model_put(model, pair.key, pair.value, CLOCK_MS);
        return NULL;
    case EXPIRE_FENCE:
        model->fences[pair.key].expires_ms = CLOCK_MS;
        return NULL;
    case PUT:
        node_model_put(model, pair.key, pair.value, MODEL_NEVER_MS);
        return NULL;
    case PUT_HASH:
        node_model_put(model, pair.key, MODEL_OTHER_TYPE, MODEL_NEVER_MS);
        return NULL;
    case PUT_MARKER:
        model->marker = (uint16_t)operation->token;
        return NULL;
    case PUT_HASH_AS_MARKER:
        model->marker = MODEL_BAD_MARKER;
        return NULL;
    case END:
        break;
    }
    return NULL;
}

#endif
