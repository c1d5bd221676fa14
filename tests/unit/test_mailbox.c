/* The mailbox between threads: nothing is lost, each sender's order is kept, and only one wakes. */
#include "tests/support/test.h"

#include <pthread.h>

#include "base/list.h"
#include "base/mailbox.h"

TEST(an_empty_mailbox_gives_nothing)
{
    struct mailbox mailbox = {.newest = NULL};
    assert_null(mailbox_take(&mailbox));
}

TEST(mail_comes_in_the_order_it_was_sent)
{
    struct mailbox mailbox = {.newest = NULL};
    struct mail mails[5];
    for (int i = 0; i < 5; i++)
        mailbox_send(&mailbox, &mails[i]);
    const struct mail *mail = mailbox_take(&mailbox);
    for (int i = 0; i < 5; i++, mail = mail->next)
        assert_ptr_equal(mail, &mails[i]);
    assert_null(mail);
    assert_null(mailbox_take(&mailbox));
}

TEST(only_the_sender_that_finds_it_empty_has_to_wake)
{
    struct mailbox mailbox = {.newest = NULL};
    struct mail a, b, c;
    assert_true(mailbox_send(&mailbox, &a));
    assert_false(mailbox_send(&mailbox, &b));
    mailbox_take(&mailbox);
    assert_true(mailbox_send(&mailbox, &c));
}

enum { SENDERS = 4, LETTERS = 20000 };

struct letter {
    struct mail mail;
    int sender, number;
};

struct sender {
    pthread_t thread;
    struct mailbox *mailbox;
    int index, wakes;
    struct letter *letters;
};

static void *sender_run(void *argument)
{
    struct sender *sender = argument;
    for (int i = 0; i < LETTERS; i++) {
        sender->letters[i] = (struct letter){.sender = sender->index, .number = i};
        sender->wakes += mailbox_send(sender->mailbox, &sender->letters[i].mail);
    }
    return NULL;
}

TEST(many_senders_lose_nothing_and_keep_their_order)
{
    struct mailbox mailbox = {.newest = NULL};
    struct sender senders[SENDERS];
    for (int i = 0; i < SENDERS; i++) {
        senders[i] =
            (struct sender){.mailbox = &mailbox, .index = i, .letters = calloc(LETTERS, sizeof(struct letter))};
        assert_int_equal(pthread_create(&senders[i].thread, NULL, sender_run, &senders[i]), 0);
    }

    int next[SENDERS] = {0}, received = 0, takes = 0, wakes = 0;
    while (received < SENDERS * LETTERS) {
        const struct mail *mail = NULL;
        test_await((mail = mailbox_take(&mailbox)) != NULL);
        takes++;
        for (; mail != NULL; mail = mail->next, received++) {
            const struct letter *letter = list_owner(mail, struct letter, mail);
            assert_int_equal(letter->number, next[letter->sender]++);
        }
    }
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(senders[i].thread, NULL);
        wakes += senders[i].wakes;
        free(senders[i].letters);
    }
    assert_int_equal(wakes, takes); /* each time there was something, exactly one sender knew */
}

RUN_TESTS
