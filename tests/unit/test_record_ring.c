/* A ring of records: what comes out is what was put in, whole, in order; between threads, between processes, and when
 * the writer is killed in the middle of it. */
#include "tests/support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/memory.h"
#include "base/random.h"
#include "worker/dry_run/run/record_ring.h"

enum { CAPACITY = 4096, MESSAGES = 200000, MESSAGE_MAX = 200, KILLS = 50 };

static struct record_ring *ring;
static struct buffer taken;

static int set_up(void **state)
{
    (void)state;
    void *memory = mmap(NULL, record_ring_size(CAPACITY), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -1;
    ring = record_ring_place(memory, CAPACITY);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buffer_fini(&taken);
    return munmap(ring, record_ring_size(CAPACITY));
}

TEST(what_was_put_is_taken)
{
    assert_int_equal(record_ring_take(ring, &taken), 0);
    assert_true(record_ring_put(ring, "one", 3));
    assert_true(record_ring_put(ring, "two", 3));
    assert_int_equal(record_ring_take(ring, &taken), 6);
    assert_memory_equal(taken.bytes, "onetwo", 6);
    assert_int_equal(record_ring_take(ring, &taken), 0);
    assert_int_equal(record_ring_lost(ring), 0);
}

TEST(a_full_ring_refuses_and_counts)
{
    char bytes[CAPACITY + 1] = "";
    assert_false(record_ring_put(ring, bytes, CAPACITY + 1));
    assert_true(record_ring_put(ring, bytes, CAPACITY - 1));
    assert_false(record_ring_put(ring, "ab", 2));
    assert_true(record_ring_put(ring, "c", 1));
    assert_false(record_ring_put(ring, "d", 1));
    assert_int_equal(record_ring_lost(ring), 3);
    assert_int_equal(record_ring_take(ring, &taken), CAPACITY);
    assert_int_equal(taken.bytes[CAPACITY - 1], 'c');
    assert_true(record_ring_put(ring, "e", 1));
}

TEST(it_goes_round_at_every_place)
{
    char bytes[97];
    for (unsigned i = 0; i < 3 * CAPACITY; i++) {
        memset(bytes, (int)(i & 0x7F), sizeof bytes);
        buffer_clear(&taken);
        assert_true(record_ring_put(ring, bytes, 1 + i % sizeof bytes));
        assert_int_equal(record_ring_take(ring, &taken), 1 + i % sizeof bytes);
        assert_memory_equal(taken.bytes, bytes, 1 + i % sizeof bytes);
    }
}

/* --- streams ------------------------------------------------------------------------------------------------------ */

/* A message: its length, and its number again and again. */
static size_t message_make(uint32_t number, unsigned char out[MESSAGE_MAX])
{
    size_t length = 8 + 4 * (size_t)(number * 2654435761u >> 27);
    memcpy(out, &(uint32_t){(uint32_t)length}, 4);
    for (size_t i = 4; i < length; i += 4)
        memcpy(out + i, &number, 4);
    return length;
}

/* Looks at what was taken; every message must be whole, and later than those before. Returns how many there were. */
static uint32_t messages_check(uint32_t *next)
{
    uint32_t count = 0, length, number;
    for (size_t at = 0; at < taken.length; at += length, count++) {
        assert_true(taken.length - at >= 8);
        memcpy(&length, taken.bytes + at, 4);
        assert_true(length >= 8 && length <= taken.length - at);
        memcpy(&number, taken.bytes + at + 4, 4);
        assert_true(number >= *next);
        for (size_t i = 8; i < length; i += 4)
            assert_memory_equal(taken.bytes + at + i, &number, 4);
        *next = number + 1;
    }
    buffer_clear(&taken);
    return count;
}

static atomic_bool has_ended;

static void *writer_run(void *unused)
{
    unsigned char message[MESSAGE_MAX];
    (void)unused;
    for (uint32_t number = 0; number < MESSAGES; number++)
        record_ring_put(ring, message, message_make(number, message));
    atomic_store(&has_ended, true);
    return NULL;
}

TEST(a_thread_and_its_reader_agree)
{
    pthread_t writer;
    uint32_t next = 0;
    uint64_t count = 0;
    bool is_over;
    atomic_store(&has_ended, false);
    assert_int_equal(pthread_create(&writer, NULL, writer_run, NULL), 0);
    do {
        is_over = atomic_load(&has_ended);
        record_ring_take(ring, &taken);
        count += messages_check(&next);
    } while (!is_over);
    pthread_join(writer, NULL);
    assert_true(count > 0);
    assert_int_equal(count + record_ring_lost(ring), MESSAGES);
}

/* --- the writer dies ---------------------------------------------------------------------------------------------- */

static _Noreturn void write_for_ever(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when the test fails */
    unsigned char message[MESSAGE_MAX];
    for (uint32_t number = 0;; number++)
        record_ring_put(ring, message, message_make(number, message));
}

TEST(a_killed_writer_leaves_nothing_half)
{
    for (unsigned i = 0; i < KILLS; i++) {
        uint32_t next = 0, count = 0;
        pid_t writer = fork();
        assert_true(writer >= 0);
        if (writer == 0)
            write_for_ever();
        uint32_t enough = (uint32_t)random_between(1, 2000);
        struct instant patience = instant_after(instant_now(), TEST_PATIENCE_NS);
        while (count < enough && !instant_reached(instant_now(), patience)) {
            record_ring_take(ring, &taken);
            count += messages_check(&next);
        }
        assert_int_equal(kill(writer, SIGKILL), 0);
        assert_int_equal(waitpid(writer, NULL, 0), writer);
        assert_true(count >= enough);
        record_ring_take(ring, &taken);
        messages_check(&next);
        assert_true(record_ring_put(ring, "after", 5)); /* and somebody else may go on */
        assert_int_equal(record_ring_take(ring, &taken), 5);
        buffer_clear(&taken);
    }
}

/* A wild writer may write over the positions: nothing is read that is not there. */
TEST(positions_that_cannot_be_are_not_believed)
{
    assert_true(record_ring_put(ring, "one", 3));
    size_t head = record_ring_size(CAPACITY) - CAPACITY;
    for (unsigned trial = 0; trial < 1000; trial++) {
        random_bytes((char *)ring + sizeof(size_t), head - sizeof(size_t));
        buffer_clear(&taken);
        assert_true(record_ring_take(ring, &taken) <= CAPACITY);
    }
}

RUN_TESTS_WITH(set_up, tear_down)
