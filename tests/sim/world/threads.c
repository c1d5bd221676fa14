/* Threads are fibers: one runs until it waits. The linker puts the __wrap_ functions in the place of those of the C
 * library; outside the processes of the world they do what these do. A mutex needs no memory: nobody waits while
 * holding one, but for a condition, which gives it up. */
#undef _FORTIFY_SOURCE /* whose longjmp wants to stay on one stack */

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include "base/invariant.h"
#include "base/memory.h"
#include "tests/sim/world/world.h"
#include "tests/sim/world/wrapped.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define STACK_SIZE ((size_t)1 << 20)
/* The memory of a killed process is nobody's, and no leak. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void); /* the sanitizer asks for it */
int __lsan_is_turned_off(void)
{
    return 1;
}
#else
#define STACK_SIZE ((size_t)256 << 10)
#endif
enum { GUARD_SIZE = 4096, SPARE_STACKS = 64 };

/* How soon a thread runs that may. */
#define LATENCY_MIN_NS (1 * NS_PER_US)
#define LATENCY_MAX_NS (40 * NS_PER_US)

struct thread {
    struct list link; /* of its process */
    struct process *process;
    struct world_event event;
    ucontext_t first; /* where it begins */
    jmp_buf point;    /* where it goes on: unlike swapcontext a jump costs no system call */
    char *stack;
    void *fake_stack; /* of the sanitizer */
    void (*main)(void *argument);
    void *(*start)(void *argument); /* of pthread_create, instead of `main` */
    void *argument, *result;
    const void *waits_for;
    struct instant until; /* by the clock of its host */
    bool was_woken, is_in_cycle, has_begun, has_ended, ends_process;
    unsigned mutexes;
};

static struct {
    jmp_buf outside;
    const void *stack; /* of the outside, for the sanitizer */
    size_t stack_size;
    void *fake_stack;
    struct thread *current;
    char *spare[SPARE_STACKS];
    unsigned spare_count;
} fibers;

/* --- stacks ------------------------------------------------------------------------------------------------------- */

static char *stack_take(void)
{
    if (fibers.spare_count > 0)
        return fibers.spare[--fibers.spare_count];
    char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    invariant(stack != MAP_FAILED);
    invariant(mprotect(stack, GUARD_SIZE, PROT_NONE) == 0); /* an overflow must not reach the neighbour */
    return stack;
}

static void stack_give_back(struct thread *thread)
{
    char *stack = thread->stack;
    thread->stack = NULL;
    if (stack == NULL)
        return;
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(stack + GUARD_SIZE, STACK_SIZE - GUARD_SIZE);
#endif
    if (fibers.spare_count < SPARE_STACKS)
        fibers.spare[fibers.spare_count++] = stack;
    else
        munmap(stack, STACK_SIZE);
}

/* --- switching ---------------------------------------------------------------------------------------------------- */

static void switch_begin(void **fake_stack, const void *stack, size_t size)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(fake_stack, stack, size);
#else
    (void)fake_stack;
    (void)stack;
    (void)size;
#endif
}

static void switch_end(void *fake_stack, const void **stack, size_t *size)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, stack, size);
#else
    (void)fake_stack;
    (void)stack;
    (void)size;
#endif
}

/* Back to the world. Whoever has ended does not return from here. */
static void switch_out(struct thread *self)
{
    switch_begin(self->has_ended ? NULL : &self->fake_stack, fibers.stack, fibers.stack_size);
    if (self->has_ended || _setjmp(self->point) == 0)
        _longjmp(fibers.outside, 1);
    switch_end(self->fake_stack, &fibers.stack, &fibers.stack_size);
}

static void thread_body(void)
{
    struct thread *self = fibers.current;
    switch_end(NULL, &fibers.stack, &fibers.stack_size);
    if (self->start != NULL)
        self->result = self->start(self->argument);
    else
        self->main(self->argument);
    self->has_ended = true;
    switch_out(self);
}

static void jump_in(void)
{
    if (_setjmp(fibers.outside) != 0)
        return; /* it is back */
    if (fibers.current->has_begun)
        _longjmp(fibers.current->point, 1);
    fibers.current->has_begun = true;
    setcontext(&fibers.current->first);
}

static void switch_in(struct thread *thread)
{
    fibers.current = thread;
    process_enter(thread->process);
    switch_begin(&fibers.fake_stack, thread->stack + GUARD_SIZE, STACK_SIZE - GUARD_SIZE);
    jump_in();
    switch_end(fibers.fake_stack, NULL, NULL);
    process_leave(thread->process);
    fibers.current = NULL;
}

/* Who joins it may still ask for its result. */
static void thread_over(struct thread *thread)
{
    struct process *process = thread->process;
    stack_give_back(thread);
    if (!process->is_alive)
        return;
    if (thread->ends_process) {
        process->has_ended = true;
        process_kill(process, false);
    } else {
        thread_wake(process, thread, true);
    }
}

static void thread_fire(struct world_event *event)
{
    struct thread *thread = list_owner(event, struct thread, event);
    struct process *process = thread->process;
    if (!process->is_alive || process->is_paused)
        return; /* threads_look finds it when the process goes on */
    if (instant_before(world_time(), process->free_at)) {
        world_at(event, process->free_at);
        return;
    }
    switch_in(thread);
    if (thread->has_ended)
        thread_over(thread);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void thread_due(struct thread *thread)
{
    int64_t latency_ns = chance_between(world_chance(), LATENCY_MIN_NS, LATENCY_MAX_NS);
    if (thread->was_woken)
        world_at(&thread->event, instant_after(world_time(), latency_ns));
    else if (thread->until.ns != INT64_MAX)
        world_at(&thread->event, instant_after(host_truth(thread->process->host, thread->until), latency_ns));
}

static struct thread *thread_create(struct process *process, void *argument)
{
    struct thread *thread = memory_new(struct thread);
    thread->process = process;
    thread->argument = argument;
    thread->event.fire = thread_fire;
    thread->was_woken = true;
    list_init(&thread->link);
    list_append(&process->threads, &thread->link);
    thread->stack = stack_take();
    getcontext(&thread->first);
    thread->first.uc_stack.ss_sp = thread->stack + GUARD_SIZE;
    thread->first.uc_stack.ss_size = STACK_SIZE - GUARD_SIZE;
    makecontext(&thread->first, thread_body, 0);
    thread_due(thread);
    return thread;
}

struct thread *thread_start(struct process *process, void (*main)(void *argument), void *argument)
{
    bool is_first = list_is_empty(&process->threads);
    struct thread *thread = world_owns(thread_create(process, argument));
    thread->main = main;
    thread->ends_process = is_first;
    return thread;
}

struct thread *thread_current(void)
{
    return fibers.current;
}

void threads_end(struct process *process)
{
    bool is_inside = false;
    for (struct list *link = process->threads.next; link != &process->threads; link = link->next) {
        struct thread *thread = list_owner(link, struct thread, link);
        world_cancel(&thread->event);
        thread->has_ended = true;
        if (thread == fibers.current)
            is_inside = true;
        else
            stack_give_back(thread);
    }
    if (is_inside)
        switch_out(fibers.current);
}

void threads_look(struct process *process)
{
    for (struct list *link = process->threads.next; link != &process->threads; link = link->next) {
        struct thread *thread = list_owner(link, struct thread, link);
        if (!thread->has_ended)
            thread_due(thread);
    }
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

void thread_set_in_cycle(bool is_in_cycle)
{
    fibers.current->is_in_cycle = is_in_cycle;
}

bool thread_wait(const void *what, struct instant until)
{
    struct thread *self = fibers.current;
    invariant(self != NULL && !self->is_in_cycle && self->mutexes == 0);
    self->waits_for = what;
    self->until = until;
    self->was_woken = false;
    thread_due(self);
    switch_out(self);
    world_cancel(&self->event);
    self->waits_for = NULL;
    return self->was_woken;
}

void thread_wake(struct process *process, const void *what, bool all)
{
    for (struct list *link = process->threads.next; link != &process->threads; link = link->next) {
        struct thread *thread = list_owner(link, struct thread, link);
        if (thread->waits_for != what || thread->was_woken || thread->has_ended)
            continue;
        thread->was_woken = true;
        thread_due(thread);
        if (!all)
            return;
    }
}

void process_sleep(int64_t ns)
{
    struct process *process = process_current();
    struct instant until = instant_after(host_boot(process->host, world_time()), ns);
    while (thread_wait(&until, until))
        ;
}

/* --- what the linker puts in the place of the C library's --------------------------------------------------------- */

WRAPPED(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
        void *argument);
WRAPPED(int, pthread_join, pthread_t thread, void **result);
WRAPPED(int, pthread_detach, pthread_t thread);
WRAPPED(pthread_t, pthread_self, void);
WRAPPED(int, pthread_setname_np, pthread_t thread, const char *name);
WRAPPED(int, pthread_sigmask, int how, const sigset_t *set, sigset_t *before);
WRAPPED(int, pthread_mutex_lock, pthread_mutex_t *mutex);
WRAPPED(int, pthread_mutex_unlock, pthread_mutex_t *mutex);
WRAPPED(int, pthread_cond_wait, pthread_cond_t *condition, pthread_mutex_t *mutex);
WRAPPED(int, pthread_cond_timedwait, pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until);
WRAPPED(int, pthread_cond_signal, pthread_cond_t *condition);
WRAPPED(int, pthread_cond_broadcast, pthread_cond_t *condition);
WRAPPED(int, sem_wait, sem_t *semaphore);
WRAPPED(int, sem_post, sem_t *semaphore);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    if (fibers.current == NULL)
        return __real_pthread_create(thread, attributes, start, argument);
    struct thread *made = thread_create(process_current(), argument);
    made->start = start;
    *thread = (pthread_t)made;
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    if (fibers.current == NULL)
        return __real_pthread_join(thread, result);
    struct thread *joined = (struct thread *)thread;
    while (!joined->has_ended)
        thread_wait(joined, INSTANT_NEVER);
    if (result != NULL)
        *result = joined->result;
    list_remove(&joined->link);
    free(joined);
    return 0;
}

int __wrap_pthread_detach(pthread_t thread)
{
    return fibers.current == NULL ? __real_pthread_detach(thread) : 0;
}

pthread_t __wrap_pthread_self(void)
{
    return fibers.current == NULL ? __real_pthread_self() : (pthread_t)fibers.current;
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    return fibers.current == NULL ? __real_pthread_setname_np(thread, name) : 0;
}

int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    return fibers.current == NULL ? __real_pthread_sigmask(how, set, before) : 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (fibers.current == NULL)
        return __real_pthread_mutex_lock(mutex);
    fibers.current->mutexes++;
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    if (fibers.current == NULL)
        return __real_pthread_mutex_unlock(mutex);
    fibers.current->mutexes--;
    return 0;
}

static bool condition_wait(const void *condition, struct instant until)
{
    invariant(fibers.current->mutexes == 1);
    fibers.current->mutexes = 0;
    bool was_woken = thread_wait(condition, until);
    fibers.current->mutexes = 1;
    return was_woken;
}

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    if (fibers.current == NULL)
        return __real_pthread_cond_wait(condition, mutex);
    condition_wait(condition, INSTANT_NEVER);
    return 0;
}

/* All our conditions go by CLOCK_MONOTONIC, which in the world is that of the boot. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    if (fibers.current == NULL)
        return __real_pthread_cond_timedwait(condition, mutex, until);
    struct instant at = {until->tv_sec * NS_PER_S + until->tv_nsec};
    return condition_wait(condition, at) ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_signal(pthread_cond_t *condition)
{
    if (fibers.current == NULL)
        return __real_pthread_cond_signal(condition);
    thread_wake(process_current(), condition, false);
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *condition)
{
    if (fibers.current == NULL)
        return __real_pthread_cond_broadcast(condition);
    thread_wake(process_current(), condition, true);
    return 0;
}

int __wrap_sem_wait(sem_t *semaphore)
{
    if (fibers.current == NULL)
        return __real_sem_wait(semaphore);
    while (sem_trywait(semaphore) != 0)
        thread_wait(semaphore, INSTANT_NEVER);
    return 0;
}

int __wrap_sem_post(sem_t *semaphore)
{
    int status = __real_sem_post(semaphore);
    if (fibers.current != NULL)
        thread_wake(process_current(), semaphore, false);
    return status;
}
