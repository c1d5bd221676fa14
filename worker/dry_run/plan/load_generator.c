/* Every random number is a hash of what it is for: the seed, the number of the task, the purpose. There is no state
 * that is drawn from, so a task wants the same however many came before it and whatever they wanted.
 *
 * A jid is the id of the run, then 12 digits that are the number of the task, encrypted: numbers in sequence would make
 * tasks look alike to a hash of jids. */
#include "worker/dry_run/plan/load_generator.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/memory.h"

struct load {
    const struct dry_run_plan *plan;
    uint64_t number; /* of the next one */
    double due_s;
    struct buffer text, names;
    const char *resources[DRY_RUN_PER_TASK_MAX];
    char made[DRY_RUN_PER_TASK_MAX][POPULARITY_NAME_MAX];
};

/* --- chance ----------------------------------------------------------------------------------------------------- */

/* Spreads what is in the bits over all of them: the finalizer of MurmurHash3, which is in the public domain. */
static uint64_t bits_mix(uint64_t bits)
{
    bits = (bits ^ bits >> 33) * UINT64_C(0xff51afd7ed558ccd);
    bits = (bits ^ bits >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return bits ^ bits >> 33;
}

/* A purpose is a small number; two of them are far apart by a multiple of the golden ratio. */
static uint64_t bits_for(uint64_t bits, uint64_t purpose)
{
    return bits_mix(bits_mix(bits) + (purpose + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

static double unit_of(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

enum purpose { FOR_GAP, FOR_RESOURCES };

/* The `draw`-th number of a task for that purpose, in [0, 1). */
static double uniform_of(const struct load *load, enum purpose purpose, unsigned draw)
{
    uint64_t task = bits_for(load->plan->seed, load->number);
    return unit_of(bits_for(task, (uint64_t)purpose * DRY_RUN_PER_TASK_MAX + draw));
}

/* --- arrivals --------------------------------------------------------------------------------------------------- */

/* The time between two arrivals of a Poisson process is exponential. */
static void due_advance(struct load *load)
{
    if (load->plan->arrivals == DRY_RUN_OPEN)
        load->due_s -= log1p(-uniform_of(load, FOR_GAP, 0)) / load->plan->rate;
}

struct load *load_create(const struct dry_run_plan *plan)
{
    invariant(plan->popularity.count >= plan->resources_per_task && plan->resources_per_task > 0 &&
              plan->resources_per_task <= DRY_RUN_PER_TASK_MAX);
    struct load *load = memory_new(struct load);
    load->plan = plan;
    due_advance(load);
    return load;
}

void load_destroy(struct load *load)
{
    if (load == NULL)
        return;
    buffer_fini(&load->text);
    buffer_fini(&load->names);
    free(load);
}

int64_t load_due_ns(const struct load *load)
{
    return (int64_t)(load->due_s * (double)NS_PER_S);
}

/* --- tasks ------------------------------------------------------------------------------------------------------ */

/* Four rounds of a Feistel network over two halves of 24 bits: one to one, so no two tasks of a run have one jid. */
static uint64_t number_encrypt(uint64_t seed, uint64_t number)
{
    const uint64_t half = 0xffffff;
    uint64_t left = number >> 24 & half, right = number & half;
    for (uint64_t round = 0; round < 4; round++) {
        uint64_t next = left ^ (bits_for(seed ^ right, round) & half);
        left = right;
        right = next;
    }
    return left << 24 | right;
}

static void taken_insert(unsigned *taken, unsigned count, unsigned resource)
{
    unsigned place = count;
    for (; place > 0 && taken[place - 1] > resource; place--)
        taken[place] = taken[place - 1];
    taken[place] = resource;
}

static void resources_draw(struct load *load)
{
    const struct popularity *popularity = &load->plan->popularity;
    unsigned taken[DRY_RUN_PER_TASK_MAX];
    buffer_clear(&load->names);
    for (unsigned i = 0; i < load->plan->resources_per_task; i++) {
        unsigned resource = popularity_at(popularity, uniform_of(load, FOR_RESOURCES, i), taken, i);
        taken_insert(taken, i, resource);
        load->resources[i] = popularity_name(popularity, resource, load->made[i]);
        buffer_append_text(&load->names, i > 0 ? "," : "[");
        envelope_append_string(&load->names, load->resources[i], strlen(load->resources[i]));
    }
    buffer_append(&load->names, "]", 1);
}

void load_next(struct load *load, struct wall_time now, struct load_task *task)
{
    const struct dry_run_plan *plan = load->plan;
    *task = (struct load_task){.number = load->number,
                               .at_ns = load_due_ns(load),
                               .class_name = plan->class_name,
                               .queue = load_queue(plan),
                               .resources = load->resources,
                               .resource_count = plan->resources_per_task};
    snprintf(task->jid, sizeof task->jid, "%.*s%012" PRIx64, DRY_RUN_ID_BYTES, plan->id,
             number_encrypt(plan->seed, load->number));
    resources_draw(load);
    char args[32];
    int args_length = snprintf(args, sizeof args, "[%" PRIu64 "]", load->number);
    struct envelope_draft draft = {.class_name = plan->class_name,
                                   .queue = load_queue(plan),
                                   .args = {args, (size_t)args_length},
                                   .resources_json = text_span_of(&load->names),
                                   .jid = task->jid};
    buffer_clear(&load->text);
    envelope_write(&draft, now, &load->text);
    task->text = text_span_of(&load->text);
    load->number++;
    due_advance(load);
}

/* --- what is drawn of a task ------------------------------------------------------------------------------------ */

double load_draw(const struct dry_run_plan *plan, const char *jid, unsigned attempt, enum load_lot lot)
{
    if (strlen(jid) == LOAD_JID_DIGITS && memcmp(jid, plan->id, DRY_RUN_ID_BYTES) == 0)
        jid += DRY_RUN_ID_BYTES;
    uint64_t task = hash_bytes(bits_mix(plan->seed), jid, strlen(jid));
    return unit_of(bits_for(bits_for(task, (uint64_t)lot), attempt));
}

int64_t load_hold_ns(const struct dry_run_plan *plan, const struct distribution *hold, const char *jid,
                     unsigned attempt)
{
    double seconds = distribution_at(hold, load_draw(plan, jid, attempt, LOAD_HOLD));
    double ns = seconds / plan->speed * (double)NS_PER_S;
    return ns < (double)DRY_RUN_HOLD_MAX_NS ? (int64_t)(ns + 0.5) : DRY_RUN_HOLD_MAX_NS;
}

bool load_fails(const struct dry_run_plan *plan, const char *jid, unsigned attempt)
{
    return load_draw(plan, jid, attempt, LOAD_FAILURE) < plan->failures;
}
