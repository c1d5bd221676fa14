#include "base/mailbox.h"

#include <stddef.h>

bool mailbox_send(struct mailbox *mailbox, struct mail *mail)
{
    struct mail *newest = atomic_load_explicit(&mailbox->newest, memory_order_relaxed);
    do {
        mail->next = newest;
    } while (!atomic_compare_exchange_weak_explicit(&mailbox->newest, &newest, mail, memory_order_release,
                                                    memory_order_relaxed));
    return newest == NULL; /* `mail` may belong to the receiver by now */
}

struct mail *mailbox_take(struct mailbox *mailbox)
{
    /* each mail links to the one sent before it: reverse the list */
    struct mail *mail = atomic_exchange_explicit(&mailbox->newest, NULL, memory_order_acquire);
    struct mail *oldest = NULL;
    while (mail != NULL) {
        struct mail *before = mail->next;
        mail->next = oldest;
        oldest = mail;
        mail = before;
    }
    return oldest;
}
