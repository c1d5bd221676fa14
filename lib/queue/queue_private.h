/* Private to lib/queue: queue.c (the start and the end), claim.c (the claim script), claim_slots.c (what slots hold),
 * moves.c (of single tasks), blocking_claim.c (waking), enlist.c, process_lease.c, waiting.c (for locks), recovery.c
 * (of dead processes), unlisted.c (of processes in no list). */
#ifndef QUEUE_QUEUE_PRIVATE_H
#define QUEUE_QUEUE_PRIVATE_H

#include "base/quantity.h"
#include "queue/envelope.h"
#include "queue/keys.h"
#include "queue/queue.h"
#include "queue/recovery_permit.h"
#include "queue/retried_call.h"
#include "redis/request.h"

enum { FREED_LISTS_MAX = 32 }; /* more than the locks of a task */

/* What a slot on the node holds, and the call that is about to change it. */
struct claim_slot {
    unsigned char id[CLAIM_ID_BYTES];
    unsigned char next[CLAIM_ID_BYTES];
    bool has_id;              /* false: the slot was never written */
    bool asking;              /* a call is outstanding or gathered */
    bool wants;               /* the call claims */
    bool sets_right;          /* the call gives back what the node has instead of a lost claim */
    bool holds;               /* the slot holds a task that the process knows */
    bool opens;               /* the call is queue_open, */
    bool opens_empty;         /* and ends the task */
    bool may_refuse;          /* the call is queue_finish_with or queue_unserved */
    struct retried_call move; /* the moves of one task */
    struct retried_call uncount;
    bool uncounting;
    /* waiting.c */
    struct retried_call wait;
    struct buffer freed; /* the keys of the lists whose locks end with the call, encoded */
    uint16_t freed_groups[FREED_LISTS_MAX];
    char freed_jid[ENVELOPE_JID_BYTES_MAX + 1]; /* that leaves these lists; "" = nobody */
    unsigned freed_lists;
    bool is_handed_on; /* the locks go to a successor */
    bool has_waiters;
    bool has_no_progress;                   /* its task, as of the claim */
    struct retried_call keep;               /* of its claim as a successor */
    bool is_confirmed;                      /* by that call, or by the one of another slot, */
    unsigned char confirms[CLAIM_ID_BYTES]; /* as long as it holds this id */
    unsigned settles_for;                   /* the slot that its queue_claim_successor confirms */
    int64_t seen_us; /* the node's time of its last claim, or later, but before its lock was requested */
};

/* The server's name of a connection. */
struct claim_connection {
    long long id; /* 0 = not known */
    char address[160];
};

struct blocking_claim {
    struct queue *queue;
    const char *name; /* of the queue */
    struct redis_node *node;
    struct redis_call wait;   /* the blocking move */
    struct redis_call asking; /* CLIENT INFO */
    struct redis_call ending; /* of a wait */
    struct loop_timer rest;   /* after a refusal */
    struct retried_call put_back;
    bool putting_back;
    unsigned puts_due;                  /* tasks that arrived meanwhile */
    bool doubtful;                      /* a wait ended without an answer */
    bool introduced;                    /* the connection is known, and no other one waits */
    bool waits;                         /* a wait was sent over `waiting`, and its end is unknown */
    bool is_paused;                     /* its queue is */
    struct claim_connection connection; /* that is up */
    struct claim_connection waiting;
};

struct recovery;

/* The terms of the process (terms.h). Texts are NULL before the first. */
struct queue_announcement {
    char *terms;                   /* as they are to be announced */
    char *sent;                    /* by the call that is outstanding */
    char *answered;                /* of the last answer, */
    char *waits;                   /* and the items that are not to be served */
    bool is_due;                   /* once more after the outstanding call */
    struct instant cautious_until; /* others may have been forgotten, and announce themselves until then */
    struct loop_timer look;        /* while something waits */
    long long other_scheme;        /* of processes that keep this one from being listed; 0 = none */
};

struct queue {
    struct loop *loop;
    struct redis_node *node;
    struct queue_options options;
    struct queue_keys keys;
    char *identity;
    char **names;
    struct retried_calls retried_calls;
    struct claim_slot *slots;
    unsigned *gathered; /* slots whose call leaves at the end of this cycle of the loop, or of the next ones */
    unsigned gathered_count;
    struct loop_hook gather;
    struct loop_timer gather_rest;
    struct list idle_claim_calls;
    struct list claim_calls;
    struct blocking_claim *blocking_claims;
    bool listening;
    bool was_up; /* else nothing can have been claimed */
    struct buffer request;
    struct queue_counters counters;
    struct list frees; /* retried calls of queue_free, used and idle */
    struct list idle_frees;
    /* leaving */
    bool leaving;
    struct loop_timer leave_timer;
    struct instant leave_by;
    struct instant settle_by; /* waits until then for the calls of slots */
    struct redis_call leave_call;
    void (*left)(void *context, bool left);
    /* counting */
    struct redis_call count_call;
    void (*counted)(void *context, const struct queue_backlog *backlog);
    struct retried_call presence; /* enlists the process */
    bool presenting;
    bool must_enlist; /* once more, after that */
    struct queue_announcement announcement;
    bool is_listed; /* as of the node's last answer about it, it lists the process */
    bool has_cancels;
    bool asks_for_progress; /* with each claim */
    /* queue_now */
    int64_t told_us; /* 0 = the node has not sent its time yet */
    struct instant told_at;
    /* the lease */
    struct loop_timer lease_timer;
    struct redis_call lease_call;
    struct instant lease_sent;
    struct recovery_permit permit;
    unsigned serving; /* queue_serving */
    struct recovery *recovery;
    struct retried_call stray; /* gives back a claim that this process does not know */
    struct {
        bool busy;
        unsigned slot;
        unsigned char next[CLAIM_ID_BYTES];
    } strayed;
    struct {
        struct loop_timer timer;
        struct redis_call call;
        char cursor[24]; /* "" = no walk is under way */
    } unlisted;
};

static inline struct queue *retried_call_queue(const struct retried_call *retried_call)
{
    return list_owner(retried_call->retried_calls, struct queue, retried_calls);
}

static inline void queue_request_lease(const struct queue *queue, struct buffer *out)
{
    redis_request_seconds(out, queue->options.lease_ns / NS_PER_US);
}

/* claim.c */
void claims_init(struct queue *queue);
void claims_free(struct queue *queue);

/* claim_slots.c */
struct claim_slot *queue_slot_ask(struct queue *queue, unsigned number);
void queue_slot_holds(struct claim_slot *slot, const void *id);
void queue_slot_answer(struct queue *queue, unsigned number, enum queue_answer answer);
/* The claim is gone; `claim` is what the node has instead of it. */
void queue_slot_lost(struct queue *queue, unsigned number, const char *claim, size_t length);
/* What a claim left in the slot, at the node's time `seen_us`. */
void queue_slot_read(struct queue *queue, unsigned number, const struct redis_reply *claim, int64_t seen_us);
void queue_slot_gather(struct queue *queue, unsigned number, bool claim_next);
/* The slot and the ids that it has and gets. */
void claim_encode(const struct claim_slot *slot, unsigned number, struct buffer *out);
/* The key that a unique task holds, or an empty one. */
void claim_encode_unique(const struct queue *queue, const struct queue_task_name *task, struct buffer *out);
/* Cuts "queue newline payload"; the payload's start, or NULL when our script did not write this. */
enum { TASK_NAME_MAX = 256 };
const char *claim_cut(const char *text, size_t length, char name[TASK_NAME_MAX]);
void claim_give_back(struct queue *queue, unsigned number, const char *name);
/* An answer of the node says that its clock stands at `us`. */
void queue_note_time(struct queue *queue, int64_t us);
/* One '0' or '1' for each queue, in the order of `order` (NULL: as configured). */
void queue_note_paused(struct queue *queue, const unsigned *order, const char *flags, size_t length);

/* enlist.c */
void enlist_init(struct queue *queue);
void enlist_stop(struct queue *queue); /* the process leaves */
void enlist_fini(struct queue *queue);
void queue_enlist(struct queue *queue);
void queue_enlist_anew(struct queue *queue); /* the node says that others have recovered it */

/* moves.c */
void moves_init(struct queue *queue);
void moves_fini(struct queue *queue);

/* The number and a blank. */
static inline void queue_append_number(struct buffer *text, unsigned number)
{
    char *end = decimal_write(buffer_reserve(text, DECIMAL_MAX + 1), number);
    *end++ = ' ';
    text->length = (size_t)(end - text->bytes);
}

/* waiting.c */
void waiting_init(struct queue *queue);
void waiting_fini(struct queue *queue);
/* Keys and arguments of what was freed by these slots, as the claim script wants them; one of them freed something. */
void waiting_encode_freed_keys(const struct queue *queue, const unsigned *slots, unsigned count, struct buffer *out);
void waiting_encode_freed(struct queue *queue, const unsigned *slots, unsigned count, struct buffer *out);
/* A queue_free waits for its answer. */
bool waiting_frees(const struct queue *queue);

/* process_lease.c */
void process_lease_create(struct queue *queue);
void process_lease_destroy(struct queue *queue);
void process_lease_stop(struct queue *queue); /* the process leaves */

void blocking_claims_create(struct queue *queue);
void blocking_claims_destroy(struct queue *queue);
void blocking_claims_arm(struct queue *queue);
/* The queue was paused or resumed. */
void blocking_claim_pause(struct blocking_claim *claim, bool is_paused);
/* Ends the blocking moves; true once none can move a task any more. */
bool blocking_claims_end(struct queue *queue);

/* recovery.c */
/* Enough for the processes of a few hosts and those that are checked again: one renewal recovers all of them. */
enum { RECOVERY_DEAD_MAX = 64 };

struct recovery *recovery_create(struct queue *queue);
void recovery_destroy(struct recovery *recovery);
/* `dead` is an array of identities; nothing happens while a recovery is under way. */
void recovery_start(struct recovery *recovery, const struct redis_reply *dead);
void recovery_stop(struct recovery *recovery);

/* unlisted.c */
void unlisted_create(struct queue *queue);
void unlisted_look(struct queue *queue); /* the process is listed now */
void unlisted_stop(struct queue *queue);

#endif
