/* Private to shadow.c (life and telling), shadow_look.c (what is asked, and in which order) and shadow_text.c (what a
 * text is). All on the loop. */
#ifndef WORKER_DRY_RUN_SHADOW_PRIVATE_H
#define WORKER_DRY_RUN_SHADOW_PRIVATE_H

#include "queue/envelope.h"
#include "queue/keys.h"
#include "redis/node.h"
#include "worker/class_resources.h"
#include "worker/dry_run/shadow/seen_set.h"
#include "worker/dry_run/shadow/shadow.h"
#include "worker/task_resources.h"

/* A task that was read and not told yet. */
struct shadow_entry {
    struct list link;
    int64_t at_us; /* 0 = now */
    size_t length;
    char queue[ENVELOPE_QUEUE_BYTES_MAX + 1];
    char payload[];
};

enum shadow_step {
    SHADOW_PROCESSES, /* who is there */
    SHADOW_CLAIMS,    /* what each of them runs */
    SHADOW_LENGTH,    /* of a queue */
    SHADOW_PAGE,      /* of it */
    SHADOW_SCHEDULE,
    SHADOW_PARKED, /* those in the schedule that wait for a lock */
    SHADOW_RETRY,
    SHADOW_TOTAL, /* how many tasks the fleet has run */
};

struct shadow {
    struct shadow_options options;
    struct redis_node *node;
    struct redis_call call;
    struct buffer request;
    struct queue_keys keys;
    struct loop_timer look, tell;
    struct instant told_until; /* the allowance is counted from there */
    double rate;
    bool is_ended;
    /* the look that goes on */
    enum shadow_step step;
    bool is_opening;  /* before the first look */
    bool is_first;    /* the first look at everything */
    size_t place;     /* which process, which queue */
    int64_t offset;   /* in it */
    size_t news;      /* texts of the page that were not known */
    struct list page; /* of this queue, the oldest first */
    char **processes; /* identities */
    size_t process_count;
    int64_t lengths; /* of all queues, and how many wait for a lock, in this look */
    struct instant schedule_again;
    size_t schedule_entries; /* that this look has read of it */
    int64_t schedule_until_us;
    uint64_t timed;        /* tasks that were found waiting for their time */
    long long total_first; /* -1 = not known yet */
    /* what was found */
    struct seen_set seen;
    struct list waiting; /* to be told, in this order */
    struct shadow_counts counts;
    struct envelope envelope;
    struct task_resources resources;
    struct class_resources *known;
    struct envelope_limits limits;
};

/* shadow_look.c */
void shadow_look(struct loop_timer *timer);
void shadow_answered(struct redis_call *call, const struct redis_result *result);
void shadow_processes_forget(struct shadow *shadow);

/* shadow_text.c: notes a task, unless it is known or none. NULL: it is not to be told. */
struct shadow_entry *shadow_take(struct shadow *shadow, const char *queue, const char *payload, size_t length,
                                 int64_t at_us);
/* Tells the entry. */
void shadow_tell(struct shadow *shadow, const struct shadow_entry *entry);

#endif
