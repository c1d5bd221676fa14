/* What comes into the loop from outside: descriptors, addresses and signals, and that deadlines come before them. */
#include "tests/support/test.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/loop.h"
#include "tests/support/one_loop.h"

/* --- deadlines first ---------------------------------------------------------------------------------------- */

/* Two pipes become readable in the same turn. Whichever is served first moves a deadline near and spends the time until
 * it passes: the deadline must then come before the other one. */
struct race {
    int pipe_fds[2][2];
    struct loop_watch *watches[2];
    struct loop_timer timer;
};

static void race_ready(void *context, int events)
{
    (void)events;
    struct race *race = context;
    note('r');
    if (traced > 1) {
        loop_stop(loop);
        return;
    }
    struct instant due = soon(1);
    loop_timer_set(loop, &race->timer, due);
    while (!instant_reached(instant_now(), due))
        ;
}

static void race_start(struct race *race, void (*fire)(struct loop_timer *timer))
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe2(race->pipe_fds[i], O_NONBLOCK), 0);
        assert_int_equal(write(race->pipe_fds[i][1], "x", 1), 1);
        race->watches[i] = loop_watch_start(loop, race->pipe_fds[i][0], LOOP_READABLE, race_ready, race);
    }
    loop_timer_init(&race->timer, fire);
    loop_timer_set(loop, &race->timer, soon(1000000));
}

static void race_end(struct race *race)
{
    for (int i = 0; i < 2; i++) {
        if (race->watches[i] != NULL)
            loop_watch_stop(race->watches[i]);
        close(race->pipe_fds[i][0]);
        close(race->pipe_fds[i][1]);
    }
}

static void race_due(struct loop_timer *timer)
{
    (void)timer;
    note('D');
}

TEST(a_deadline_that_passes_in_a_turn_comes_before_the_rest_of_it)
{
    struct race race;
    race_start(&race, race_due);
    loop_run(loop);
    assert_memory_equal(trace, "rDr", 3);
    race_end(&race);
}

static void race_due_and_stops_both(struct loop_timer *timer)
{
    struct race *race = list_owner(timer, struct race, timer);
    note('D');
    for (int i = 0; i < 2; i++) {
        loop_watch_stop(race->watches[i]);
        race->watches[i] = NULL;
    }
    stop_at(soon(10));
}

TEST(a_watch_that_a_deadline_has_stopped_is_not_called)
{
    struct race race;
    race_start(&race, race_due_and_stops_both);
    loop_run(loop);
    assert_string_equal(trace, "rD");
    race_end(&race);
}

static void race_due_and_silences_both(struct loop_timer *timer)
{
    struct race *race = list_owner(timer, struct race, timer);
    note('D');
    for (int i = 0; i < 2; i++)
        loop_watch_change(race->watches[i], 0);
    stop_at(soon(10));
}

TEST(a_watch_that_a_deadline_has_changed_reports_only_what_is_asked_now)
{
    struct race race;
    race_start(&race, race_due_and_silences_both);
    loop_run(loop);
    assert_string_equal(trace, "rD");
    race_end(&race);
}

static void eager_fires(struct loop_timer *timer)
{
    loop_timer_set(loop, timer, loop_now(loop));
}

static void ready_stops(void *context, int events)
{
    (void)context;
    (void)events;
    loop_stop(loop);
}

TEST(a_deadline_that_is_always_due_does_not_starve_the_sockets)
{
    int pipe_fds[2];
    assert_int_equal(pipe2(pipe_fds, O_NONBLOCK), 0);
    assert_int_equal(write(pipe_fds[1], "x", 1), 1);
    struct loop_watch *watch = loop_watch_start(loop, pipe_fds[0], LOOP_READABLE, ready_stops, NULL);
    struct loop_timer timer;
    loop_timer_init(&timer, eager_fires);
    loop_timer_set(loop, &timer, soon(0));
    loop_run(loop);
    loop_timer_clear(loop, &timer);
    loop_watch_stop(watch);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

/* --- file descriptors --------------------------------------------------------------------------------------- */

struct peer {
    int fds[2]; /* [0] is watched */
    struct loop_watch *watch;
    int events; /* what was reported last */
    int calls, stop_after;
};

static void peer_ready(void *context, int events)
{
    struct peer *peer = context;
    peer->events = events;
    if (++peer->calls == peer->stop_after)
        loop_stop(loop);
}

static void peer_open(struct peer *peer, int events)
{
    *peer = (struct peer){.stop_after = 1};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, peer->fds), 0);
    peer->watch = loop_watch_start(loop, peer->fds[0], events, peer_ready, peer);
}

static void peer_close(struct peer *peer)
{
    if (peer->watch != NULL)
        loop_watch_stop(peer->watch);
    close(peer->fds[0]);
    close(peer->fds[1]);
}

TEST(a_watch_reports_what_it_was_asked_for)
{
    struct peer peer;
    peer_open(&peer, LOOP_READABLE);
    stop_at(soon(10));
    loop_run(loop); /* writable all the time, but nobody asked */
    assert_int_equal(peer.calls, 0);

    loop_watch_change(peer.watch, LOOP_READABLE | LOOP_WRITABLE);
    loop_run(loop);
    assert_int_equal(peer.events, LOOP_WRITABLE);

    loop_watch_change(peer.watch, LOOP_READABLE);
    loop_watch_change(peer.watch, LOOP_READABLE);
    peer.stop_after = peer.calls + 1;
    assert_int_equal(write(peer.fds[1], "x", 1), 1);
    loop_run(loop);
    assert_int_equal(peer.events, LOOP_READABLE);

    loop_watch_change(peer.watch, 0);
    int calls = peer.calls;
    stop_at(soon(10));
    loop_run(loop);
    assert_int_equal(peer.calls, calls);
    peer_close(&peer);
}

TEST(a_watch_goes_on_reporting_what_is_not_read)
{
    struct peer peer;
    peer_open(&peer, LOOP_READABLE);
    assert_int_equal(write(peer.fds[1], "x", 1), 1);
    peer.stop_after = 3;
    loop_run(loop);
    peer_close(&peer);
}

static void peer_ready_stops_itself(void *context, int events)
{
    (void)events;
    struct peer *peer = context;
    peer->calls++;
    loop_watch_stop(peer->watch);
    peer->watch = NULL;
    stop_at(soon(10));
}

TEST(a_watch_may_be_stopped_in_its_own_callback)
{
    struct peer peer = {.calls = 0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, peer.fds), 0);
    assert_int_equal(write(peer.fds[1], "x", 1), 1);
    peer.watch = loop_watch_start(loop, peer.fds[0], LOOP_READABLE, peer_ready_stops_itself, &peer);
    loop_run(loop);
    assert_int_equal(peer.calls, 1);
    peer_close(&peer);
}

TEST(a_number_can_be_watched_again_in_the_same_turn)
{
    struct peer old, new;
    peer_open(&old, LOOP_READABLE);
    int number = old.fds[0];
    peer_close(&old);
    peer_open(&new, LOOP_READABLE);
    assert_int_equal(new.fds[0], number);
    assert_int_equal(write(new.fds[1], "x", 1), 1);
    loop_run(loop);
    assert_true(new.calls >= 1);
    assert_int_equal(old.calls, 0);
    peer_close(&new);
}

TEST(an_error_is_reported_as_both_until_the_watch_is_stopped)
{
    struct peer peer = {.stop_after = 3};
    assert_int_equal(pipe2(peer.fds, O_NONBLOCK), 0);
    /* the writing end of a pipe without a reader has an error and nothing else */
    int reading_end = peer.fds[0];
    peer.fds[0] = peer.fds[1];
    peer.fds[1] = dup(peer.fds[0]);
    close(reading_end);
    peer.watch = loop_watch_start(loop, peer.fds[0], LOOP_READABLE, peer_ready, &peer);
    loop_run(loop);
    assert_true(peer.calls >= 3);
    assert_int_equal(peer.events, LOOP_READABLE | LOOP_WRITABLE);
    assert_int_equal(write(peer.fds[0], "x", 1), -1); /* and no SIGPIPE */
    assert_int_equal(errno, EPIPE);
    peer_close(&peer);
}

TEST(the_end_of_a_stream_is_reported_as_readable)
{
    struct peer peer;
    peer_open(&peer, LOOP_READABLE);
    shutdown(peer.fds[1], SHUT_RDWR);
    loop_run(loop);
    assert_true((peer.events & LOOP_READABLE) != 0);
    peer_close(&peer);
}

/* --- names -------------------------------------------------------------------------------------------------- */

struct answer {
    int calls;
    bool failed;
    char reason[200];
    struct sockaddr_storage address;
};

static void answer_given(void *context, const struct loop_addresses *found, const char *reason)
{
    struct answer *answer = context;
    answer->calls++;
    answer->failed = found == NULL;
    if (found != NULL)
        answer->address = found->items[0].bytes;
    else
        strncpy(answer->reason, reason, sizeof answer->reason - 1);
    loop_stop(loop);
}

static struct answer resolve(const char *host, unsigned port)
{
    struct answer answer = {.calls = 0};
    loop_resolve(loop, host, port, answer_given, &answer);
    assert_int_equal(answer.calls, 0); /* never at once */
    loop_run(loop);
    assert_int_equal(answer.calls, 1);
    return answer;
}

TEST(digits_are_addresses)
{
    struct answer four = resolve("127.0.0.5", 6379);
    const struct sockaddr_in *in = (const void *)&four.address;
    struct answer six = resolve("::1", 65535);
    const struct sockaddr_in6 *in6 = (const void *)&six.address;
    assert_false(four.failed || six.failed);
    assert_int_equal(in->sin_family, AF_INET);
    assert_int_equal(ntohs(in->sin_port), 6379);
    assert_int_equal(ntohl(in->sin_addr.s_addr), 0x7F000005);
    assert_int_equal(in6->sin6_family, AF_INET6);
    assert_int_equal(ntohs(in6->sin6_port), 65535);
}

TEST(a_name_is_looked_up)
{
    if (!test_knows_localhost())
        test_skip("localhost is not known here");
    struct answer answer = resolve("localhost", 80);
    assert_false(answer.failed);
    assert_true(answer.address.ss_family == AF_INET || answer.address.ss_family == AF_INET6);
}

TEST(what_cannot_be_a_name_fails_with_a_reason)
{
    char long_name[400];
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    assert_true(resolve(long_name, 80).failed);
    assert_true(resolve("", 80).failed);
    struct answer answer = resolve("127.0.0.1", 65536);
    assert_true(answer.failed);
    assert_string_equal(answer.reason, "the port is above 65535");
}

TEST(a_cancelled_resolution_gives_no_answer)
{
    struct answer answer = {.calls = 0};
    loop_resolve_cancel(loop_resolve(loop, "127.0.0.1", 1, answer_given, &answer));
    loop_resolve_cancel(loop_resolve(loop, "localhost", 1, answer_given, &answer));
    stop_at(soon(20));
    loop_run(loop);
    for (int i = 0; i < 10; i++) /* some of these are still with the resolver when the loop goes */
        loop_resolve_cancel(loop_resolve(loop, "localhost", 1, answer_given, &answer));
    assert_int_equal(answer.calls, 0);
}

/* --- signals ------------------------------------------------------------------------------------------------ */

static void signal_noted(void *context, int number)
{
    *(int *)context = number;
    loop_stop(loop);
}

TEST(a_signal_arrives_in_the_loop)
{
    int number = 0;
    struct loop_signal *watch = loop_signal_start(loop, SIGUSR1, signal_noted, &number);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(number, 0);
    loop_run(loop);
    assert_int_equal(number, SIGUSR1);
    loop_signal_stop(watch);
}

RUN_TESTS_WITH(one_loop_set_up, one_loop_tear_down)
