/* Messages from any thread to one. Senders push onto a stack with one compare-and-swap; the receiver takes all of it
 * at once and sees the messages in the order in which they were sent. There is no ABA problem, because single
 * messages are never popped. The sender that finds the mailbox empty must wake the receiver. */
#ifndef BASE_MAILBOX_H
#define BASE_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>

struct mail {
    struct mail *next; /* owned by the mailbox from mailbox_send until mailbox_take returned it */
};

struct mailbox {
    _Atomic(struct mail *) newest;
};

/* Any thread. Returns true when the mailbox was empty, so that the caller wakes the receiver once for many. */
bool mailbox_send(struct mailbox *mailbox, struct mail *mail);
/* The receiving thread. All messages, oldest first, linked by `next`; NULL when there are none. */
struct mail *mailbox_take(struct mailbox *mailbox);

#endif
