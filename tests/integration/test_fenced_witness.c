/* The witness at its socket: it says what the register says, to many at once, and outlives those who talk to it. */
#include "tests/support/test.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/support/fenced_witness.h"
#include "tests/support/private_directory.h"

enum { CLIENTS = 4, ROUNDS = 200, MESSAGE_MAX = 512 };

static char directory[PRIVATE_DIRECTORY_MAX], path[100];
static struct fenced_witness *witness;

static int start(void **state)
{
    (void)state;
    private_directory_create(directory);
    snprintf(path, sizeof path, "%.80s/witness", directory);
    witness = fenced_witness_start(path);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    fenced_witness_destroy(witness);
    return rmdir(directory);
}

static int client_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (connect(file, (struct sockaddr *)&address, sizeof address) != 0)
        abort();
    return file;
}

static void ask(int file, char message[MESSAGE_MAX])
{
    ssize_t length = -1;
    if (send(file, message, strlen(message), MSG_NOSIGNAL) > 0)
        length = recv(file, message, MESSAGE_MAX - 1, 0);
    message[length > 0 ? length : 0] = '\0';
}

#define assert_answer(file, question, answer)                                                                          \
    do {                                                                                                               \
        char message[MESSAGE_MAX] = question;                                                                          \
        ask(file, message);                                                                                            \
        assert_string_equal(message, answer);                                                                          \
    } while (0)

static void it_answers_what_the_register_says(void **state)
{
    (void)state;
    int file = client_connect(), other = client_connect();
    assert_answer(file, "read r 10", "0 0");
    assert_answer(other, "read r 11", "0 0");
    assert_answer(other, "write r 11 k2 1 1", "done");
    assert_answer(file, "write r 10 k1 1 1", "stale");
    assert_answer(file, "read r 10", "stale 1");
    assert_answer(file, "read r 12", "1 1");
    assert_answer(file, "write r 12 k2 2 2", "repeated");
    assert_answer(file, "write r 12 k3 - 2", "done");
    assert_answer(file, "held r 10 k1 5 7", "done");
    assert_answer(file, "held r 11 k2 6 8", "done");
    assert_answer(file, "write r 12", "what?");
    close(file);
    assert_answer(other, "read r 12", "1 2");
    close(other);
    struct fenced_verdict verdict = fenced_witness_judge(witness, NULL);
    assert_int_equal(verdict.applied, 1);
    assert_int_equal(verdict.refused, 2);
    assert_int_equal(verdict.stale, 1);
    assert_int_equal(verdict.lost, 1);
    assert_int_equal(verdict.holds, 2);
    assert_int_equal(verdict.overlaps, 1);
}

static void who_goes_without_waiting_is_forgotten(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        int file = client_connect();
        if (send(file, "read r 1", 8, MSG_NOSIGNAL) != 8)
            abort();
        close(file);
    }
    int file = client_connect();
    assert_answer(file, "read r 1", "0 0");
    close(file);
}

/* Each under a larger token than all before it. */
static atomic_uint next_token = 1, done;

static void *client_run(void *context)
{
    char message[MESSAGE_MAX];
    int file = client_connect();
    (void)context;
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t fenced = 0, plain = 0;
        unsigned token = atomic_fetch_add(&next_token, 1);
        snprintf(message, sizeof message, "read r %u", token);
        ask(file, message);
        if (sscanf(message, "%" SCNu64 " %" SCNu64, &fenced, &plain) != 2)
            continue;
        snprintf(message, sizeof message, "write r %u k%u %" PRIu64 " %" PRIu64, token, token, fenced + 1, plain + 1);
        ask(file, message);
        atomic_fetch_add(&done, strcmp(message, "done") == 0);
    }
    close(file);
    return NULL;
}

static void a_crowd_without_a_lock_is_kept_in_order_by_the_fence(void **state)
{
    (void)state;
    pthread_t clients[CLIENTS];
    for (unsigned i = 0; i < CLIENTS; i++)
        pthread_create(&clients[i], NULL, client_run, NULL);
    for (unsigned i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    struct fenced_verdict verdict = fenced_witness_judge(witness, NULL);
    assert_int_equal(verdict.applied, atomic_load(&done));
    assert_true(verdict.applied > 0);
    assert_int_equal(verdict.miscounted, 0);
}

#define witness_test(function) cmocka_unit_test_setup_teardown(function, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        witness_test(it_answers_what_the_register_says),
        witness_test(who_goes_without_waiting_is_forgotten),
        witness_test(a_crowd_without_a_lock_is_kept_in_order_by_the_fence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
