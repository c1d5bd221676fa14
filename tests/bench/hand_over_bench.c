/* What it costs to hand a run to a thread of the worker and to get it back: processor time of the whole process for
 * each, with one run on its way at a time (every one wakes a sleeping thread, and the loop) and with as many as
 * there are threads. The run itself does nothing.
 *
 * One JSON line goes to standard output. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/invariant.h"
#include "base/loop.h"
#include "worker/isolation/thread_pool.h"

enum { THREADS_MAX = 64, EXIT_USAGE = 2 };

static struct loop *loop;
static struct thread_pool *pool;
static struct work works[THREADS_MAX];
static unsigned long to_submit, to_return;

static void usage(FILE *out)
{
    fputs("usage: hand-over-bench [options]\n"
          "Hands runs that do nothing to threads and back, and prints one line of JSON.\n"
          "  --runs N      how many, 1 to 100000000 (200000)\n"
          "  --threads N   of the pool, 1 to 64 (4)\n"
          "  --help        this text\n",
          out);
}

static unsigned long number_parse(const char *text, unsigned long most)
{
    char *end = NULL;
    unsigned long number = strtoul(text, &end, 10);
    if (end == text || *end != '\0' || number == 0 || number > most) {
        fprintf(stderr, "hand-over-bench: '%s' is no number from 1 to %lu (see --help)\n", text, most);
        exit(EXIT_USAGE);
    }
    return number;
}

static void nothing(struct work *work)
{
    (void)work;
}

static void came_back(struct loop_message *message)
{
    struct work *work = list_owner(message, struct work, done);
    if (--to_return == 0)
        loop_stop(loop);
    if (to_submit == 0)
        return;
    to_submit--;
    thread_pool_submit(pool, work);
}

static int64_t cpu_ns(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    int64_t seconds = used.ru_utime.tv_sec + used.ru_stime.tv_sec;
    return seconds * NS_PER_S + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * NS_PER_US;
}

static void begin(struct loop_message *message)
{
    (void)message;
}

/* Microseconds of processor time for each run. */
static double measure(unsigned long runs, unsigned at_once)
{
    static struct loop_message start = {.deliver = begin};
    int64_t before = cpu_ns();
    to_return = runs;
    to_submit = runs > at_once ? runs - at_once : 0;
    for (unsigned i = 0; i < at_once && i < runs; i++)
        thread_pool_submit(pool, &works[i]);
    loop_post(loop, &start); /* a turn, at whose end they go */
    loop_run(loop);
    return (double)(cpu_ns() - before) / (double)NS_PER_US / (double)runs;
}

int main(int count, char **words)
{
    static const struct option options[] = {{"runs", required_argument, NULL, 'r'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    unsigned long runs = 200000;
    unsigned threads = 4;
    for (int option; (option = getopt_long(count, words, "", options, NULL)) != -1;) {
        if (option == 'h') {
            usage(stdout);
            return 0;
        }
        if (option == 'r')
            runs = number_parse(optarg, 100000000);
        else if (option == 't')
            threads = (unsigned)number_parse(optarg, THREADS_MAX);
        else
            return EXIT_USAGE;
    }
    struct error error = ERROR_NONE;
    loop = loop_create(&error);
    pool = loop != NULL ? thread_pool_create(loop, threads, &error) : NULL;
    if (pool == NULL) {
        fprintf(stderr, "hand-over-bench: %s\n", error.text);
        return EXIT_FAILURE;
    }
    for (unsigned i = 0; i < threads; i++) {
        works[i] = (struct work){.run = nothing, .done.deliver = came_back};
        list_init(&works[i].link);
    }
    double one = measure(runs, 1), all = measure(runs, threads);
    printf("{\"runs\":%lu,\"threads\":%u,\"cpu_us_one_at_a_time\":%.2f,\"cpu_us_all_at_once\":%.2f}\n", runs, threads,
           one, all);
    thread_pool_destroy(pool);
    loop_destroy(loop);
    return 0;
}
