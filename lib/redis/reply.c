/* Classifies error texts. The first word is the class; if it is only ERR, the beginning of the text decides. Texts
 * differ between versions, so everything unknown is OTHER, which no caller may take for an answer about a lock. */
#include "redis/reply.h"

#include <string.h>

#include "base/invariant.h"

struct meaning {
    const char *text;
    enum redis_error error;
};

static const struct meaning first_words[] = {
    {"NOSCRIPT", REDIS_ERROR_NOSCRIPT},   {"LOADING", REDIS_ERROR_LOADING},
    {"BUSY", REDIS_ERROR_BUSY},           {"MASTERDOWN", REDIS_ERROR_MASTERDOWN},
    {"READONLY", REDIS_ERROR_READONLY},   {"NOREPLICAS", REDIS_ERROR_NOREPLICAS},
    {"MISCONF", REDIS_ERROR_MISCONF},     {"OOM", REDIS_ERROR_OOM},
    {"NOAUTH", REDIS_ERROR_AUTH},         {"WRONGPASS", REDIS_ERROR_AUTH},
    {"NOPERM", REDIS_ERROR_AUTH},         {"MOVED", REDIS_ERROR_CLUSTER},
    {"ASK", REDIS_ERROR_CLUSTER},         {"CLUSTERDOWN", REDIS_ERROR_CLUSTER},
    {"CROSSSLOT", REDIS_ERROR_CLUSTER},   {"TRYAGAIN", REDIS_ERROR_CLUSTER},
    {"WRONGTYPE", REDIS_ERROR_WRONGTYPE}, {"UNBLOCKED", REDIS_ERROR_UNBLOCKED},
};

/* What follows "ERR ". */
static const struct meaning beginnings[] = {
    {"max number of clients", REDIS_ERROR_MAXCLIENTS},
    {"invalid password", REDIS_ERROR_AUTH},
    {"AUTH ", REDIS_ERROR_AUTH},
    {"Client sent AUTH", REDIS_ERROR_AUTH},
    {"syntax error", REDIS_ERROR_SYNTAX},
    {"unknown command", REDIS_ERROR_SYNTAX},
    {"unknown subcommand", REDIS_ERROR_SYNTAX},
    {"Unknown subcommand", REDIS_ERROR_SYNTAX},
    {"wrong number of arguments", REDIS_ERROR_SYNTAX},
};

static bool begins_with(const char *text, size_t length, const char *beginning)
{
    size_t wanted = strlen(beginning);
    return length >= wanted && memcmp(text, beginning, wanted) == 0;
}

static enum redis_error by_first_word(const char *text, size_t length)
{
    const char *space = memchr(text, ' ', length);
    size_t word = space != NULL ? (size_t)(space - text) : length;
    for (size_t i = 0; i < sizeof first_words / sizeof *first_words; i++)
        if (strlen(first_words[i].text) == word && memcmp(text, first_words[i].text, word) == 0)
            return first_words[i].error;
    return REDIS_ERROR_OTHER;
}

static enum redis_error by_beginning(const char *text, size_t length)
{
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (begins_with(text, length, beginnings[i].text))
            return beginnings[i].error;
    return REDIS_ERROR_OTHER;
}

enum redis_error redis_error_classify(const char *text, size_t length)
{
    static const char inside_script[] = "ERR Error running script";
    static const char nested[] = ": -";

    if (begins_with(text, length, inside_script)) {
        /* Servers before 7 wrap the error of a command inside a script: "... @user_script: 1: -OOM command ...". */
        const char *mark = memmem(text, length, nested, sizeof nested - 1);
        if (mark == NULL)
            return REDIS_ERROR_OTHER;
        const char *inner = mark + sizeof nested - 1;
        return by_first_word(inner, length - (size_t)(inner - text));
    }
    if (begins_with(text, length, "ERR "))
        return by_beginning(text + 4, length - 4);
    return by_first_word(text, length);
}

bool redis_error_is_passing(enum redis_error error)
{
    switch (error) {
    case REDIS_ERROR_DOWN:
    case REDIS_ERROR_OVERLOAD:
    case REDIS_ERROR_LOADING:
    case REDIS_ERROR_BUSY:
    case REDIS_ERROR_MASTERDOWN:
    case REDIS_ERROR_READONLY:
    case REDIS_ERROR_NOREPLICAS:
        return true;
    default:
        return false;
    }
}

const char *redis_error_name(enum redis_error error)
{
    switch (error) {
    case REDIS_ERROR_NONE:
        return "none";
    case REDIS_ERROR_DOWN:
        return "down";
    case REDIS_ERROR_OVERLOAD:
        return "overload";
    case REDIS_ERROR_NOSCRIPT:
        return "NOSCRIPT";
    case REDIS_ERROR_LOADING:
        return "LOADING";
    case REDIS_ERROR_BUSY:
        return "BUSY";
    case REDIS_ERROR_MASTERDOWN:
        return "MASTERDOWN";
    case REDIS_ERROR_READONLY:
        return "READONLY";
    case REDIS_ERROR_UNBLOCKED:
        return "UNBLOCKED";
    case REDIS_ERROR_NOREPLICAS:
        return "NOREPLICAS";
    case REDIS_ERROR_MISCONF:
        return "MISCONF";
    case REDIS_ERROR_OOM:
        return "OOM";
    case REDIS_ERROR_AUTH:
        return "AUTH";
    case REDIS_ERROR_CLUSTER:
        return "CLUSTER";
    case REDIS_ERROR_MAXCLIENTS:
        return "MAXCLIENTS";
    case REDIS_ERROR_WRONGTYPE:
        return "WRONGTYPE";
    case REDIS_ERROR_SYNTAX:
        return "SYNTAX";
    case REDIS_ERROR_OTHER:
        return "other";
    }
    invariant_unreachable("a value that is no enum redis_error");
}

static bool bytes_are(const struct redis_reply *reply, const char *text)
{
    return reply->length == strlen(text) && memcmp(reply->bytes, text, reply->length) == 0;
}

bool redis_reply_is_status(const struct redis_reply *reply, const char *text)
{
    return reply->kind == REDIS_STATUS && bytes_are(reply, text);
}

bool redis_reply_is_text(const struct redis_reply *reply, const char *text)
{
    return reply->kind == REDIS_STRING && bytes_are(reply, text);
}
