/* SPDX-License-Identifier: MIT */
/* libholdfast: puts tasks into the queues that Holdfast workers (and Sidekiq) serve, from any C or C++ program.
 *
 *     #include <holdfast/holdfast.h> // cc program.c $(pkg-config --cflags --libs holdfast)
 *
 *     char reason[HF_REASON_SIZE];
 *     struct hf_producer_options options = {.host = "redis.example"};
 *     struct hf_producer *producer = hf_producer_create(&options, reason, sizeof reason);
 *     if (producer == NULL)
 *         return fail(reason);
 *
 *     struct hf_task task = {.class_name = "transfer", .args = "[1, 2, 500]", .queue = "bank"};
 *     struct hf_receipt receipt;
 *     switch (hf_push(producer, &task, &receipt)) {
 *     case HF_PUSH_QUEUED:
 *         printf("%s\n", receipt.jid);
 *         break;
 *     case HF_PUSH_UNREACHABLE: // it was not pushed: try again later
 *     default:
 *         fail(receipt.reason);
 *     }
 *     hf_producer_destroy(producer);
 *
 * A producer is one connection with a thread of its own, which keeps it up. Create one for the life of the program, not
 * one a task. Three ways to push through it: hf_push (one task), hf_push_many (an array), and a stream (any number,
 * with bounded memory).
 *
 * ## What may be relied on
 *
 * The server has acknowledged every task that is reported as queued or scheduled. One that is refused, denied, invalid,
 * unreachable or dropped is certainly not there. HF_PUSH_UNKNOWN means that it was sent, and no answer came in time. A
 * lost reply alone does not cause that: the library asks again on a new connection. The server knows what this producer
 * has pushed, so asking again doubles nothing, however late the first try arrives.
 *
 * What to do about HF_PUSH_UNKNOWN: look for the jid in the queue, or push it again if the handler tolerates that the
 * task runs twice, or make tasks `unique`. If you push the same task with the same jid and `unique` again, the answer
 * is queued if it is there, unless it was finished in between.
 *
 * ## Tasks
 *
 * A task is a JSON object in the Sidekiq job format; docs/data-model.md lists our own members. Give either its parts,
 * or the whole object in `json`; then the other members of struct hf_task fill in what the object lacks. Bytes of
 * arguments are passed on as they are.
 *
 * ## Rules
 *
 * Threads: any number may push through one producer at once; what they push at the same time leaves in one write. A
 * stream belongs to one thread at a time. Texts are UTF-8 and NUL-terminated; they are copied before a call returns.
 * A required pointer that is NULL, also of a counted list, is refused with a reason.
 * Durations are milliseconds (`_ms`). Those of tasks count by the server's clock, whatever the clock of this host says;
 * the first push waits until the first attempt to connect has ended. The process ignores SIGPIPE from the first
 * producer on. A child after fork must not use the producers of its parent. Running out of memory ends the process.
 * If the process dies: what was reported as pushed is pushed. Of the rest each batch (up to 1,000 tasks of one queue)
 * is pushed as a whole or not at all. Nothing has to be cleaned up.
 * If the server dies: what it forgets is lost with it; see its persistence settings. */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_API __attribute__((visibility("default")))

enum {
    HF_REASON_SIZE = 256, /* bytes that a reason needs at most, with its NUL; longer ones are cut */
    HF_JID_SIZE = 129,    /* a jid is 1 to 128 printable ASCII characters; a new one is 24 hexadecimal digits */
    HF_QUEUE_SIZE = 129,  /* a queue's name is 1 to 128 bytes without blanks, not beginning with "hf:" */
    HF_RESOURCES_MAX = 16,
    HF_TAGS_MAX = 64,
};

struct hf_producer;

/* Zero means the default in brackets. */
struct hf_producer_options {
    /* A name, an IP address, or redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], with TLS rediss:// ["127.0.0.1"] */
    const char *host;
    unsigned port;         /* [that of the address, or 6379] */
    const char *unix_path; /* instead of host and port */
    /* Or ask Redis Sentinel where the master of this name is: addresses are "host:port", "[IPv6]:port", or
     * "rediss://host:port", which means TLS to the master, too. */
    const char *sentinel_master;
    const char *const *sentinels;
    size_t sentinel_count;
    const char *sentinel_user, *sentinel_password; /* of the sentinels themselves */
    const char *user;                              /* NULL: the password alone */
    const char *password;                          /* NULL: none; wiped when the producer ends, never logged */
    /* Instead of a password: a file that only its owner may read, or one of root with a group of ours. Its first line
     * is the password. It is read for each connection, so it can be replaced at any time. */
    const char *password_file, *sentinel_password_file;
    unsigned database;
    const char *client_name;    /* shown by CLIENT LIST ["holdfast-producer"] */
    int64_t connect_timeout_ms; /* of one attempt [1000] */
    int64_t wait_ms;            /* how long a push waits for a server that cannot be reached [2000] */
    int64_t answer_ms;          /* how long it waits for the answer after sending [10000], at most 30 minutes */
    size_t task_bytes_max;      /* [1 MiB]; workers have their own limit */
    size_t task_depth_max;      /* of nesting [64] */
    size_t task_keys_max;       /* members of all objects in it [4096] */
    const char *key_space;      /* before the name of every key [""] */
    bool logs_to_stderr;        /* logs events of the connection; otherwise the library is silent */
    bool tls; /* speak TLS, to sentinels too; the certificate has to be for the host, or for tls_server_name */
    const char *tls_ca_file;   /* PEM: the authorities that are trusted; NULL: those of the system */
    const char *tls_cert_file; /* PEM: sent to a server that requests it; with its key, in a file without passphrase */
    const char *tls_key_file;
    const char *tls_server_name;
};

/* Connects in the background: a server that is down is no error here. NULL with a reason when the options are wrong.
 * The reason may be NULL with size 0, here and below. */
HF_API struct hf_producer *hf_producer_create(const struct hf_producer_options *options, char *reason,
                                              size_t reason_size);
/* No call may be at work in it, and its streams must be closed. */
HF_API void hf_producer_destroy(struct hf_producer *producer);

struct hf_task {
    const char *json; /* a whole task object; or NULL, then: */
    const char *class_name;
    const char *args; /* a JSON array ["[]"] */

    const char *queue;            /* ["default"] */
    const char *jid;              /* [a new one] */
    const char *const *resources; /* what to lock while it runs */
    size_t resource_count;
    const char *retry;       /* how often after a failure: "false", "true" (25 times), or a number ["true"] */
    const char *const *tags; /* shown by dashboards */
    size_t tag_count;
    int64_t at_ms;         /* when to run it, since 1970 [now]; a time that is past means now */
    int64_t in_ms;         /* or how long from now */
    int64_t expires_in_ms; /* it must have been started by then, counted from when it may run [never] */
    /* Refuse it while a task of the same class and with the same bytes of arguments waits or runs: until that one is
     * done, dead, discarded, expired or cancelled, or an operator buries or deletes it, or `unique_ms` after it may run
     * [24 h], whichever is first. A push can notice that another program deleted it, which takes that push a second
     * longer (docs/data-model.md has the conditions). */
    bool unique;
    int64_t unique_ms;
    /* The trace it belongs to, as in the HTTP header of that name (W3C Trace Context): its handler, and the tasks that
     * follow from it, have it too [none]. */
    const char *traceparent;
};

enum hf_push_answer {
    HF_PUSH_QUEUED,      /* it is in its queue */
    HF_PUSH_SCHEDULED,   /* it waits for its time */
    HF_PUSH_DUPLICATE,   /* it is not there: `holder` is, with the same class and arguments */
    HF_PUSH_REFUSED,     /* the server says why: out of memory, a replica, ...: it is not there */
    HF_PUSH_DENIED,      /* the server wants another user or password: it is not there */
    HF_PUSH_INVALID,     /* it is no task, and the reason says why: it was not sent */
    HF_PUSH_UNREACHABLE, /* no server within wait_ms: it was not sent */
    HF_PUSH_DROPPED,     /* hf_stream_drop: it was not sent */
    HF_PUSH_UNKNOWN,     /* it may be there */
};
HF_API const char *hf_push_answer_name(enum hf_push_answer answer); /* "queued", "scheduled", ... */

struct hf_receipt {
    enum hf_push_answer answer;
    char jid[HF_JID_SIZE];       /* of the task; "" when it is invalid */
    char holder[HF_JID_SIZE];    /* for HF_PUSH_DUPLICATE, else "" */
    char reason[HF_REASON_SIZE]; /* "" for HF_PUSH_QUEUED and HF_PUSH_SCHEDULED */
};

/* Pushes one task and waits for the answer: at most wait_ms + answer_ms. While the server has never been reached, the
 * first wait for its clock comes on top: wait_ms, but at most 2 s. `receipt` may be NULL. */
HF_API enum hf_push_answer hf_push(struct hf_producer *producer, const struct hf_task *task,
                                   struct hf_receipt *receipt);

/* Pushes many and waits for all answers. Returns how many are queued or scheduled. `receipts` has one a task, or is
 * NULL. Tasks of one queue come out of it in the order of the array. Every task is tried, even if others fail. */
HF_API size_t hf_push_many(struct hf_producer *producer, const struct hf_task *tasks, size_t count,
                           struct hf_receipt *receipts);

/* --- streams: more tasks than fit into memory ---------------------------------------------------------------------
 *
 *     char reason[HF_REASON_SIZE];
 *     struct hf_stream *stream = hf_stream_open(producer, &defaults, ended, NULL, reason, sizeof reason);
 *     if (stream == NULL)
 *         return fail(reason);
 *     for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++)
 *         if (!hf_stream_add(stream, texts[i], strlen(texts[i]), i, reason, sizeof reason))
 *             fail(reason); // that text is no task; the stream goes on
 *     hf_stream_close(stream);
 */

struct hf_stream;

/* The outcome of some tasks that were pushed together. */
struct hf_stream_report {
    enum hf_push_answer answer;
    const char *queue; /* their common queue; for HF_PUSH_SCHEDULED that of the first */
    size_t count;
    const uint64_t *numbers; /* as given to hf_stream_add */
    const char *holder, *reason;
};

/* `defaults` fills in what the texts lack; its `json` and `args` are ignored. With a class name the texts are arrays of
 * arguments, otherwise whole tasks. `ended` is called for every added task, on the producer's thread: it must not block
 * or call the library. Its arguments live until it returns. */
HF_API struct hf_stream *hf_stream_open(struct hf_producer *producer, const struct hf_task *defaults,
                                        void (*ended)(void *context, const struct hf_stream_report *report),
                                        void *context, char *reason, size_t reason_size);
/* Takes one text; false with a reason when it is no task. Waits while the stream is full. */
HF_API bool hf_stream_add(struct hf_stream *stream, const char *text, size_t length, uint64_t number, char *reason,
                          size_t reason_size);
/* True while 8,000 tasks or 8 MiB have no end yet. This can change only before a call of `ended`. */
HF_API bool hf_stream_is_full(const struct hf_stream *stream);
/* True when every task that was added has its end. */
HF_API bool hf_stream_is_idle(const struct hf_stream *stream);
/* Sends what was added; otherwise a batch waits until it is full. Does not wait. */
HF_API void hf_stream_flush(struct hf_stream *stream);
/* Ends what was added and not sent as HF_PUSH_DROPPED. Does not wait. */
HF_API void hf_stream_drop(struct hf_stream *stream);
/* Sends what was added, waits until every task has its end, and frees the stream. */
HF_API void hf_stream_close(struct hf_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
