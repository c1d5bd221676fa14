/* The world itself: time, threads, clocks and streams, before anything of the product runs in it. */
#include "tests/sim/world/world.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/loop.h"
#include "tests/sim/world/network.h"
#include "tests/support/test.h"

static struct instant after(int64_t ns)
{
    return instant_after(world_time(), ns);
}

static int begin(void **state)
{
    (void)state;
    world_begin(1);
    network_begin();
    return 0;
}

/* --- threads and time --------------------------------------------------------------------------------------------- */

static struct {
    sem_t semaphore;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    unsigned count;
    int64_t slept_ns;
    bool was_late;
} shared;

static void *post_later(void *argument)
{
    (void)argument;
    process_sleep(50 * NS_PER_MS);
    pthread_mutex_lock(&shared.mutex);
    shared.count++;
    pthread_cond_signal(&shared.condition);
    pthread_mutex_unlock(&shared.mutex);
    sem_post(&shared.semaphore);
    return &shared;
}

static void waiting_main(void *argument)
{
    (void)argument;
    pthread_t thread;
    void *result = NULL;
    struct instant begun = instant_now();
    assert_int_equal(pthread_create(&thread, NULL, post_later, NULL), 0);
    pthread_mutex_lock(&shared.mutex);
    while (shared.count == 0)
        pthread_cond_wait(&shared.condition, &shared.mutex);
    pthread_mutex_unlock(&shared.mutex);
    sem_wait(&shared.semaphore);
    pthread_join(thread, &result);
    assert_ptr_equal(result, &shared);
    shared.slept_ns = instant_since(begun, instant_now());
}

TEST(threads_wait_for_one_another)
{
    memset(&shared, 0, sizeof shared);
    sem_init(&shared.semaphore, 0, 0);
    struct process *process = process_start(host_create("a"), "p", waiting_main, NULL);
    world_run(after(NS_PER_S));
    assert_true(process->has_ended && !process->is_alive);
    assert_in_range(shared.slept_ns, 50 * NS_PER_MS, 51 * NS_PER_MS);
}

static void looking_main(void *argument)
{
    int64_t *ns = argument;
    struct instant begun = instant_now();
    struct wall_time wall = wall_now();
    process_sleep(NS_PER_S);
    ns[0] = instant_since(begun, instant_now());
    ns[1] = (wall_now().us - wall.us) * NS_PER_US;
}

TEST(clocks_go_as_their_host_says)
{
    int64_t fast[2], stepped[2];
    struct host *a = host_create("a"), *b = host_create("b");
    host_set_rate(a, 50000000); /* 5 % fast */
    struct instant begun = world_time();
    process_start(a, "p", looking_main, fast);
    struct process *process = process_start(b, "q", looking_main, stepped);
    world_run(after(500 * NS_PER_MS));
    host_step_wall(b, 10 * NS_PER_S);
    world_run(after(460 * NS_PER_MS));
    assert_in_range(fast[0], NS_PER_S, NS_PER_S + NS_PER_MS); /* by its own clock */
    assert_true(process->is_alive);
    world_run(after(NS_PER_S));
    assert_in_range(stepped[0], NS_PER_S, NS_PER_S + NS_PER_MS);
    assert_in_range(stepped[1], 11 * NS_PER_S, 11 * NS_PER_S + NS_PER_MS);
    assert_int_equal(host_truth(a, host_boot(a, begun)).ns, begun.ns);
}

static void counting_main(void *argument)
{
    for (;;) {
        process_sleep(10 * NS_PER_MS);
        ++*(unsigned *)argument;
    }
}

TEST(processes_pause_stall_and_die)
{
    unsigned count = 0;
    struct process *process = process_start(host_create("a"), "p", counting_main, &count);
    world_run(after(105 * NS_PER_MS));
    assert_in_range(count, 9, 10);
    process_pause(process);
    world_run(after(100 * NS_PER_MS));
    assert_in_range(count, 9, 10);
    process_resume(process);
    world_run(after(5 * NS_PER_MS));
    assert_in_range(count, 10, 11);
    process_kill(process, false);
    world_run(after(100 * NS_PER_MS));
    assert_in_range(count, 10, 11);
}

static void stalling_main(void *argument)
{
    int64_t *ns = argument;
    process_stall(process_current(), 2, NS_PER_S);
    struct instant first = instant_now(), second = instant_now();
    *ns = instant_since(first, second);
}

TEST(a_process_stands_still_between_two_looks)
{
    int64_t ns = 0;
    process_start(host_create("a"), "p", stalling_main, &ns);
    world_run(after(NS_PER_MS));
    assert_in_range(ns, NS_PER_S, NS_PER_S + NS_PER_MS);
}

/* --- streams ------------------------------------------------------------------------------------------------------ */

enum { MESSAGES = 200 };

struct echo {
    struct listener listener;
    unsigned accepted, gone;
};

static void *echo_accepted(struct listener *listener, struct peer *peer)
{
    list_owner(listener, struct echo, listener)->accepted++;
    return peer;
}

static void echo_received(void *owner, const char *bytes, size_t length)
{
    peer_send(owner, bytes, length);
}

static void echo_gone(void *owner)
{
    (void)owner;
}

struct talk {
    struct loop *loop;
    struct loop_watch *watch;
    struct loop_timer timer;
    struct buffer sent, heard;
    int fd, failure;
    bool is_open;
};

static void talk_ready(void *context, int events)
{
    struct talk *talk = context;
    char bytes[64];
    (void)events;
    talk->is_open = true;
    for (ssize_t got; (got = recv(talk->fd, bytes, sizeof bytes, 0)) != -1 || errno != EAGAIN;) {
        if (got <= 0) {
            talk->failure = got < 0 ? errno : -1;
            loop_stop(talk->loop);
            return;
        }
        buffer_append(&talk->heard, bytes, (size_t)got);
    }
    loop_watch_change(talk->watch, LOOP_READABLE);
}

static void talk_fire(struct loop_timer *timer)
{
    struct talk *talk = list_owner(timer, struct talk, timer);
    char text[32];
    loop_timer_set(talk->loop, timer, loop_after(talk->loop, 5 * NS_PER_MS));
    if (!talk->is_open)
        return;
    int length = snprintf(text, sizeof text, "message %zu;", talk->sent.length);
    ssize_t sent = send(talk->fd, text, (size_t)length, 0);
    if (sent > 0)
        buffer_append(&talk->sent, text, (size_t)sent);
}

static void talk_main(void *argument)
{
    struct talk *talk = argument;
    struct error error = ERROR_NONE;
    struct sockaddr_in address;
    int patience_ms = 3000;
    talk->loop = loop_create(&error);
    talk->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(setsockopt(talk->fd, IPPROTO_TCP, 18, &patience_ms, sizeof patience_ms), 0);
    assert_true(network_resolve("server", 6379, &address));
    assert_int_equal(connect(talk->fd, (struct sockaddr *)&address, sizeof address), -1);
    talk->watch = loop_watch_start(talk->loop, talk->fd, LOOP_WRITABLE, talk_ready, talk);
    loop_timer_init(&talk->timer, talk_fire);
    loop_timer_set(talk->loop, &talk->timer, loop_now(talk->loop));
    loop_run(talk->loop);
    loop_watch_stop(talk->watch);
    loop_timer_clear(talk->loop, &talk->timer);
    close(talk->fd);
    loop_destroy(talk->loop);
}

static struct {
    struct echo echo;
    struct talk talk;
    struct host *here, *there;
    struct process *process;
} pair;

static void pair_begin(void)
{
    memset(&pair, 0, sizeof pair);
    pair.here = host_create("here");
    pair.there = host_create("there");
    pair.echo.listener = (struct listener){
        .host = pair.there, .port = 6379, .accepted = echo_accepted, .received = echo_received, .gone = echo_gone};
    network_listen(&pair.echo.listener);
    network_name("server", pair.there);
    pair.process = process_start(pair.here, "talk", talk_main, &pair.talk);
}

static void assert_prefix(void)
{
    assert_true(pair.talk.heard.length <= pair.talk.sent.length);
    assert_memory_equal(pair.talk.heard.bytes, pair.talk.sent.bytes, pair.talk.heard.length);
}

TEST(bytes_come_whole_and_in_order)
{
    pair_begin();
    network_path(pair.here, pair.there)->late_per_mille = 20;
    world_run(after(20 * NS_PER_S));
    assert_prefix();
    assert_true(pair.talk.heard.length > 1000);
    assert_true(pair.talk.sent.length - pair.talk.heard.length < 10000);
    assert_int_equal(pair.talk.failure, 0);
}

TEST(a_cut_path_delays_and_loses_nothing)
{
    pair_begin();
    world_run(after(NS_PER_S));
    network_path(pair.there, pair.here)->is_cut = true;
    size_t heard = pair.talk.heard.length;
    world_run(after(2 * NS_PER_S));
    assert_true(pair.talk.heard.length - heard < 100); /* what was under way */
    network_path(pair.there, pair.here)->is_cut = false;
    network_heal();
    world_run(after(NS_PER_S));
    assert_true(pair.talk.heard.length - heard > 3000);
    assert_prefix();
}

TEST(silence_ends_by_the_patience_of_the_socket)
{
    pair_begin();
    world_run(after(NS_PER_S));
    network_shut(&pair.echo.listener, true);
    world_run(after(2 * NS_PER_S));
    assert_int_equal(pair.talk.failure, 0);
    world_run(after(5 * NS_PER_S));
    assert_int_equal(pair.talk.failure, ETIMEDOUT);
}

TEST(a_break_is_told_after_a_part_of_the_bytes)
{
    for (unsigned i = 0; i < 20; i++) {
        pair_begin();
        world_run(after(NS_PER_S));
        network_shut(&pair.echo.listener, false);
        world_run(after(NS_PER_S));
        assert_prefix();
        assert_int_not_equal(pair.talk.failure, 0);
        assert_true(pair.process->has_ended);
    }
}

TEST(nobody_listens_is_refused)
{
    pair_begin();
    network_shut(&pair.echo.listener, false);
    world_run(after(NS_PER_S));
    assert_int_equal(pair.talk.failure, ECONNREFUSED);
}

RUN_TESTS_WITH(begin, NULL)
