/* Threads with the blocking client that want one lock again and again, beside other programs that do the same
 * (tests/bench/beside). Under the lock each adds one to a number in a file, which takes --hold-ms: what two do at once
 * is missing at the end.
 *
 *     beside-bench PORTS FILE SECONDS USERS [HOLD_MS REST_MS]
 *
 * Prints how often the lock was had, and the longest wait in milliseconds. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "redlock/redlock.h"

enum { USERS_MAX = 64 };

static struct redlock_client *client;
static struct instant end;
static const char *file;
static unsigned hold_ms = 20, rest_ms = 20;

struct user {
    pthread_t thread;
    unsigned holds, seed;
    int64_t longest_ns;
};

static void pause_us(unsigned us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L}, NULL);
}

static unsigned number(const char *text)
{
    return (unsigned)strtoul(text, NULL, 10);
}

static void count(struct user *user)
{
    long counted = 0;
    FILE *in = fopen(file, "r");
    if (in == NULL || fscanf(in, "%ld", &counted) != 1)
        exit(1);
    fclose(in);
    pause_us(hold_ms * 1000);
    FILE *out = fopen(file, "w");
    if (out == NULL || fprintf(out, "%ld\n", counted + 1) < 0 || fclose(out) != 0)
        exit(1);
    user->holds++;
}

static void *use(void *argument)
{
    struct user *user = argument;
    const struct redlock_terms terms = {.ttl_ms = 8000, .wait_ms = 60000};
    const char *resource = "beside";
    const struct redlock_request request = {.resources = &resource, .resource_count = 1, .owner = "bench"};
    while (instant_before(instant_now(), end)) {
        struct redlock_held *held = NULL;
        struct instant asked = instant_now();
        if (redlock_client_acquire(client, &terms, &request, &held, NULL, 0) != REDLOCK_ACQUIRED)
            exit(1);
        int64_t waited_ns = instant_since(asked, instant_now());
        user->longest_ns = waited_ns > user->longest_ns ? waited_ns : user->longest_ns;
        count(user);
        redlock_client_release(held, REDLOCK_AWAIT);
        pause_us((unsigned)rand_r(&user->seed) % (rest_ms * 1000 + 1));
    }
    return NULL;
}

int main(int count_of_words, char **words)
{
    struct redlock_node nodes[REDLOCK_NODES_MAX] = {0};
    struct redlock_options options = {.nodes = nodes, .key_prefix = "lock:"};
    struct user users[USERS_MAX] = {0};
    char reason[256] = "usage: beside-bench PORTS FILE SECONDS USERS [HOLD_MS REST_MS]", *word = NULL;
    unsigned user_count = count_of_words > 4 ? number(words[4]) : 0, holds = 0;
    int64_t longest_ns = 0;
    while (user_count > 0 && (word = strsep(&words[1], ",")) != NULL && options.node_count < REDLOCK_NODES_MAX)
        nodes[options.node_count++] =
            (struct redlock_node){.host = "127.0.0.1", .port = number(word), .timeout_ms = 500};
    if (user_count > USERS_MAX || (client = redlock_client_open(&options, reason, sizeof reason)) == NULL) {
        fprintf(stderr, "%s\n", reason);
        return 2;
    }
    file = words[2];
    end = instant_after(instant_now(), number(words[3]) * NS_PER_S);
    if (count_of_words > 6) {
        hold_ms = number(words[5]);
        rest_ms = number(words[6]);
    }
    for (unsigned i = 0; i < user_count; i++) {
        users[i].seed = i;
        pthread_create(&users[i].thread, NULL, use, &users[i]);
    }
    for (unsigned i = 0; i < user_count; i++) {
        pthread_join(users[i].thread, NULL);
        holds += users[i].holds;
        longest_ns = users[i].longest_ns > longest_ns ? users[i].longest_ns : longest_ns;
    }
    redlock_client_close(client);
    printf("%u %lld\n", holds, (long long)(longest_ns / NS_PER_MS));
    return 0;
}
