/* One exchange with an HTTP server: a request, and the answer up to a limit.
 *
 *     struct webhook_caller *caller = webhook_caller_create();                 one a thread; keeps connections
 *     struct webhook_call call = {.url = url, .method = "POST", ...};
 *     enum webhook_end end = webhook_caller_run(caller, &call);                blocks
 *     ... call.status, call.reply ...
 *     webhook_call_fini(&call);
 *
 * The address is checked at connect, so a name that resolves differently in between is harmless. The environment is
 * ignored: no proxy, no .netrc. Redirects are answers like any other. */
#ifndef JOBS_WEBHOOK_CALL_H
#define JOBS_WEBHOOK_CALL_H

#include <curl/curl.h>
#include <stddef.h>
#include <stdint.h>

enum { WEBHOOK_REPLY_MAX = 65536, WEBHOOK_HEAD_MAX = 65536 };

enum webhook_end {
    WEBHOOK_ANSWERED,    /* status, reply and the members after it are set */
    WEBHOOK_REFUSED,     /* address.h refuses all addresses of the host; nothing was sent */
    WEBHOOK_UNREACHABLE, /* `trouble` says why; whether the request arrived may be unknown */
    WEBHOOK_LATE,        /* not answered by the deadline */
    WEBHOOK_STOPPED,     /* must_stop() said so */
};

struct webhook_call {
    /* the request; the caller owns all of it */
    const char *url, *method;
    const struct curl_slist *headers;
    const char *body; /* NULL: none */
    size_t body_length;
    int64_t deadline_ns; /* as kit_now_ns() */
    int is_private_allowed;
    const char *ca_file;         /* NULL: the certificates of the system */
    int (*must_stop)(void *job); /* asked every 50 ms or more often */
    void *job;
    int wake_fd; /* if readable, must_stop is called at once; -1: none */
    /* the answer */
    long status;
    char *reply; /* at most WEBHOOK_REPLY_MAX bytes; NULL: nothing */
    size_t reply_length;
    int is_cut;            /* the reply was longer */
    int64_t retry_after_s; /* 0: missing, or not in the future */
    char *redirect;        /* the absolute target of a redirect; NULL: none */
    const char *refusal;   /* the kind of the refused address */
    char trouble[CURL_ERROR_SIZE];
    size_t head_length, sockets; /* private */
};

struct webhook_caller; /* opaque; belongs to one thread at a time */

struct webhook_caller *webhook_caller_create(void); /* NULL without memory */
void webhook_caller_destroy(void *caller);
enum webhook_end webhook_caller_run(struct webhook_caller *caller, struct webhook_call *call);
void webhook_call_fini(struct webhook_call *call); /* frees the answer */

#endif
