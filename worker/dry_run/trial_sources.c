/* Where a trial hears what happens: the rings of its own workers, what guests bring, the nodes themselves, the clock
 * of the machine. Everything goes to the tally. */
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/log.h"
#include "worker/dry_run/trial_private.h"

/* Records that are taken in one turn of the loop: it has pushes to make in time, too. */
enum { RECORDS_MAX = 20000 };
/* Lines of workers' logs that are shown. */
enum { LINES_MAX = 20 };

/* There is a tally from the moment the load begins; before that nothing happens that counts. */

/* --- workers ------------------------------------------------------------------------------------------------------ */

/* The first time; the result tells all of it. */
static void crash_told(struct trial *trial, const struct crash *crash)
{
    char quoted[LOG_QUOTE_MAX];
    if (!trial->has_crashes)
        trial_say(trial,
                  "the check() of the class %s crashes, which takes a worker of production down: here its task "
                  "is buried",
                  log_quote(crash->class_name, quoted));
    trial->has_crashes = true;
}

static void own_record(void *context, unsigned number, const struct record *record, const char *bytes, size_t length)
{
    struct trial *trial = context;
    (void)bytes, (void)length;
    if (record->kind == RECORD_PROCESS && trial->shadow != NULL)
        trial_shadow_note(trial, number - 1, &record->process);
    if (record->kind == RECORD_CRASH)
        crash_told(trial, &record->crash);
    if (trial->tally != NULL && tally_record(trial->tally, 0, number - 1, record, 0))
        trial_load_follow(trial, 1);
}

static void worker_ended(void *context, const struct workforce_exit *end)
{
    struct trial *trial = context;
    if (end->was_orderly)
        return;
    (void)workforce_read(trial->terms.workforce, SIZE_MAX, own_record, trial); /* each ring once: its last words */
    if (trial->tally != NULL)
        tally_process_died(trial->tally, 0, end->number - 1, loop_now(trial->loop));
    if (end->was_wanted)
        return;
    trial->unwanted_ends++;
    error_set(&trial->trouble, "worker process %u ended by itself (%s %d)", end->number,
              WIFSIGNALED(end->wait_status) ? "signal" : "exit code",
              WIFSIGNALED(end->wait_status) ? WTERMSIG(end->wait_status) : WEXITSTATUS(end->wait_status));
}

static void worker_said(void *context, unsigned number, const char *text)
{
    struct trial *trial = context;
    char quoted[LOG_QUOTE_MAX];
    if (trial->lines_told++ > LINES_MAX)
        return;
    if (trial->lines_told > LINES_MAX)
        trial_say(trial, "workers have more to say, which is left out");
    else
        trial_say(trial, "worker %u: %s", number, log_quote(text, quoted));
}

size_t trial_sources_read(struct trial *trial)
{
    struct workforce *workforce = trial->terms.workforce;
    size_t records = workforce_read(workforce, RECORDS_MAX, own_record, trial);
    workforce_reap(workforce, worker_ended, trial);
    workforce_read_log(workforce, worker_said, trial);
    if (trial->tally != NULL)
        tally_records_lost(trial->tally, 0, workforce_records_lost(workforce));
    return records;
}

/* --- guests ------------------------------------------------------------------------------------------------------- */

static void guest_note(struct trial *trial, unsigned number)
{
    const struct reception_guest *guest = reception_guest(trial->reception, number);
    int64_t error_ns =
        guest->beat.clock.error_ns + node_clock_error(reception_clock(trial->reception), loop_now(trial->loop));
    tally_host(trial->tally, number + 1,
               &(struct tally_host){.name = guest->name,
                                    .processes = guest->beat.processes,
                                    .threads = guest->beat.threads,
                                    .clock_error_ns = error_ns});
    tally_records_lost(trial->tally, number + 1, guest->beat.records_lost);
}

static void guest_brought(void *context, unsigned number, unsigned process, struct text_span records)
{
    struct trial *trial = context;
    static struct record record; /* large; there is one thread */
    const struct reception_guest *guest = reception_guest(trial->reception, number);
    const char *bytes = records.bytes;
    size_t length = records.length;
    if (process >= DRY_RUN_PROCESSES_MAX || trial->tally == NULL)
        return;
    int64_t offset_ns = node_clock_between(&guest->beat.clock, reception_clock(trial->reception));
    guest_note(trial, number);
    while (record_read(&bytes, &length, &record))
        if (tally_record(trial->tally, number + 1, process, &record, offset_ns))
            trial_load_follow(trial, 1);
}

/* Its workers have died with it, or do as if: what they were at counts as it does when a worker of this host dies. */
static void guest_missed(void *context, unsigned number)
{
    struct trial *trial = context;
    char quoted[LOG_QUOTE_MAX];
    const struct reception_guest *guest = reception_guest(trial->reception, number);
    trial_say(trial, "the host %s is not heard of any more: what it has told until then counts",
              log_quote(guest->name, quoted));
    if (trial->tally == NULL)
        return;
    guest_note(trial, number);
    for (unsigned process = 0; process < guest->beat.processes; process++)
        tally_process_died(trial->tally, number + 1, process, guest->heard);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static void node_sampled(void *context, unsigned number, const struct node_sample *sample)
{
    struct trial *trial = context;
    if (number >= RESULT_NODES_MAX)
        return;
    struct trial_node *node = &trial->nodes[number];
    if (!node->was_seen)
        node->first = *sample;
    node->was_seen = true;
    node->last = *sample;
    if (trial->tally != NULL)
        trial_node_tell(trial, number, sample);
}

/* --- while it is measured ----------------------------------------------------------------------------------------- */

static int64_t own_cpu_ns(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NS_PER_S +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * NS_PER_US;
}

void trial_measure_begin(struct trial *trial)
{
    trial->measures = true;
    machine_load_read(&trial->machine_from);
    trial->cpu_from_ns = own_cpu_ns();
}

void trial_measure_end(struct trial *trial)
{
    machine_load_read(&trial->machine_to);
    trial->cpu_to_ns = own_cpu_ns();
}

/* --- life --------------------------------------------------------------------------------------------------------- */

void trial_sources_open(struct trial *trial)
{
    const struct trial_terms *terms = &trial->terms;
    trial->watch = node_watch_create(trial->loop, terms->config, node_sampled, trial);
    trial->reception = reception_create(trial->loop, &(struct reception_options){.node = &terms->config->queue_node,
                                                                                 .space = terms->key_space,
                                                                                 .plan = trial->plan,
                                                                                 .brought = guest_brought,
                                                                                 .missed = guest_missed,
                                                                                 .context = trial});
}

void trial_sources_close(struct trial *trial)
{
    reception_destroy(trial->reception);
    node_watch_destroy(trial->watch);
}
