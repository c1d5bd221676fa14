#include "worker/task/job_verifier.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "base/thread.h"

struct question {
    struct job_verifier *verifier;
    struct loop_message message;
    struct list link; /* in the verifier's questions, until it is answered */
    struct redlock_verify verify;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t is_over;
    bool is_answered, is_held;
    bool was_left; /* no thread waits for the answer */
};

static void question_free(struct question *question)
{
    pthread_cond_destroy(&question->is_over);
    pthread_mutex_destroy(&question->mutex);
    free(question);
}

/* --- on the loop -------------------------------------------------------------------------------------------------- */

static void question_answer(struct question *question, bool is_held)
{
    pthread_mutex_lock(&question->mutex);
    bool was_left = question->was_left;
    question->is_held = is_held;
    question->is_answered = true;
    pthread_cond_signal(&question->is_over);
    pthread_mutex_unlock(&question->mutex);
    if (was_left) /* else the waiting thread frees it, perhaps already */
        question_free(question);
}

static void verify_done(struct redlock_verify *verify, bool is_held)
{
    struct question *question = list_owner(verify, struct question, verify);
    list_remove(&question->link);
    question_answer(question, is_held);
}

static bool is_left(struct question *question)
{
    pthread_mutex_lock(&question->mutex);
    bool was_left = question->was_left;
    pthread_mutex_unlock(&question->mutex);
    return was_left;
}

static void question_arrived(struct loop_message *message)
{
    struct question *question = list_owner(message, struct question, message);
    struct job_verifier *verifier = question->verifier;
    if (verifier->lock == NULL || is_left(question)) {
        question_answer(question, false);
        return;
    }
    question->verify.done = verify_done;
    list_append(&verifier->questions, &question->link);
    redlock_lock_verify(verifier->lock, &question->verify);
}

void job_verifier_init(struct job_verifier *verifier, struct loop *loop, int64_t patience_ns)
{
    *verifier = (struct job_verifier){.loop = loop, .patience_ns = patience_ns};
    list_init(&verifier->questions);
}

void job_verifier_open(struct job_verifier *verifier, struct redlock_lock *lock)
{
    verifier->lock = lock;
}

void job_verifier_close(struct job_verifier *verifier)
{
    verifier->lock = NULL;
    for (struct list *link; (link = list_take_first(&verifier->questions)) != NULL;)
        question_answer(list_owner(link, struct question, link), false);
}

/* --- on a runner -------------------------------------------------------------------------------------------------- */

static struct question *question_create(struct job_verifier *verifier)
{
    struct question *question = memory_new(struct question);
    question->verifier = verifier;
    question->message.deliver = question_arrived;
    list_init(&question->link);
    pthread_mutex_init(&question->mutex, NULL);
    thread_condition_init(&question->is_over);
    return question;
}

static struct timespec monotonic_after(int64_t ns)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t sum = at.tv_nsec + ns % NS_PER_S;
    at.tv_sec += ns / NS_PER_S + sum / NS_PER_S;
    at.tv_nsec = sum % NS_PER_S;
    return at;
}

bool job_verifier_ask(struct job_verifier *verifier, int64_t limit_ns)
{
    struct question *question = question_create(verifier);
    struct timespec until = monotonic_after(limit_ns < verifier->patience_ns ? limit_ns : verifier->patience_ns);
    int status = 0;
    loop_post(verifier->loop, &question->message);
    pthread_mutex_lock(&question->mutex);
    while (!question->is_answered && status == 0)
        status = pthread_cond_timedwait(&question->is_over, &question->mutex, &until);
    bool is_answered = question->is_answered, is_held = question->is_held;
    question->was_left = true;
    pthread_mutex_unlock(&question->mutex);
    if (is_answered)
        question_free(question);
    return is_answered && is_held;
}
