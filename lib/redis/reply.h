/* What a Redis server answered, in our own types; hiredis is invisible outside lib/redis.
 *
 * A call ends in one of three ways. A lock that confuses them is broken (edge cases E1, E11):
 *   REDIS_VALUE    the server executed the command and this is its reply;
 *   REDIS_ERROR    the command was certainly not executed: the server refused it with an error of a named class, or
 *                  it was never written (REDIS_ERROR_DOWN). Never "taken", never a vote;
 *   REDIS_UNKNOWN it was written, and no reply came in time: the server may have executed it, or may still.
 * A reply and its bytes live until the callback that received it returns. */
#ifndef REDIS_REPLY_H
#define REDIS_REPLY_H

#include <stdbool.h>
#include <stddef.h>

enum redis_reply_kind { REDIS_NIL, REDIS_STATUS, REDIS_INTEGER, REDIS_STRING, REDIS_ARRAY, REDIS_FAILURE };

struct redis_reply {
    enum redis_reply_kind kind;
    long long integer; /* REDIS_INTEGER */
    const char *bytes; /* REDIS_STATUS, REDIS_STRING, REDIS_FAILURE; followed by a NUL */
    size_t length;
    const struct redis_reply *elements; /* REDIS_ARRAY */
    size_t count;
};

enum redis_error {
    REDIS_ERROR_NONE,
    REDIS_ERROR_DOWN,     /* not connected: nothing was written */
    REDIS_ERROR_OVERLOAD, /* too much unanswered already: nothing was written */
    REDIS_ERROR_NOSCRIPT, /* seen by callers only if reloading failed */
    REDIS_ERROR_LOADING,
    REDIS_ERROR_BUSY, /* a script on the server runs too long */
    REDIS_ERROR_MASTERDOWN,
    REDIS_ERROR_READONLY,
    REDIS_ERROR_UNBLOCKED, /* a blocking command was ended by force, and took nothing */
    REDIS_ERROR_NOREPLICAS,
    REDIS_ERROR_MISCONF,
    REDIS_ERROR_OOM,
    REDIS_ERROR_AUTH,    /* NOAUTH, WRONGPASS, NOPERM: the configuration is wrong */
    REDIS_ERROR_CLUSTER, /* MOVED, ASK, CLUSTERDOWN, CROSSSLOT, TRYAGAIN: a cluster where a master was expected */
    REDIS_ERROR_MAXCLIENTS,
    REDIS_ERROR_WRONGTYPE, /* another program's value is in our key */
    REDIS_ERROR_SYNTAX,    /* an older server that lacks an option, or an unknown command */
    REDIS_ERROR_OTHER,
};

enum redis_outcome { REDIS_VALUE, REDIS_ERROR, REDIS_UNKNOWN };

struct redis_result {
    enum redis_outcome outcome;
    enum redis_error error;          /* of REDIS_ERROR */
    const struct redis_reply *reply; /* of REDIS_VALUE; of REDIS_ERROR when the server sent it, else NULL */
    const char *reason;              /* of REDIS_ERROR and REDIS_UNKNOWN: text for people, never NULL */
};

/* The class of a server's error text, by its first word. */
enum redis_error redis_error_classify(const char *text, size_t length);
/* True for errors that pass by themselves: the call can be repeated a moment later. */
bool redis_error_is_passing(enum redis_error error);
const char *redis_error_name(enum redis_error error); /* "READONLY", "down", ... */

/* True when `reply` is the simple string `text`. */
bool redis_reply_is_status(const struct redis_reply *reply, const char *text);
/* True when it is the string `text`, as scripts answer it. */
bool redis_reply_is_text(const struct redis_reply *reply, const char *text);

#endif
