#include "tests/chaos/former_worker.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "tests/support/test.h"

#define SCRIPTS "tests/support/scheme1/"
#define CLAIMS  "hf:claims:" FORMER_IDENTITY
#define BELL    "hf:bell:" FORMER_IDENTITY ":jobs"

void former_worker_start(struct former_worker *worker, struct fleet *fleet)
{
    *worker = (struct former_worker){.fleet = fleet};
    worker->claim = fleet_script(fleet, SCRIPTS "claim.lua");
    worker->postpone = fleet_script(fleet, SCRIPTS "postpone.lua");
    worker->give_back = fleet_script(fleet, SCRIPTS "give_back.lua");
    worker->leave = fleet_script(fleet, SCRIPTS "leave.lua");
    char *enlist = fleet_script(fleet, SCRIPTS "enlist.lua");
    free(fleet_ask(fleet, "EVALSHA %s 1 hf:processes " FORMER_IDENTITY, enlist));
    free(enlist);
}

static void next_id(struct former_worker *worker, char id[17])
{
    snprintf(id, 17, "%016x", ++worker->ids);
}

/* An answer is "-", "!..." or "+queue", a line end, and the task. */
static void answers_read(struct former_worker *worker, char *answers)
{
    char *rest = answers, *line;
    for (unsigned i = 0; i < FORMER_SLOTS; i++) {
        struct former_slot *slot = &worker->slots[i];
        line = strsep(&rest, "\n");
        assert_non_null(line);
        worker->lost += line[0] == '!';
        slot->task[0] = '\0';
        if (line[0] == '+') {
            assert_string_equal(line, "+jobs");
            snprintf(slot->task, sizeof slot->task, "%s", strsep(&rest, "\n"));
        }
    }
}

void former_worker_turn(struct former_worker *worker, bool wants)
{
    struct buffer command = {0};
    buffer_format(&command,
                  "EVALSHA %s 4 hf:processes " CLAIMS " " BELL " queue:jobs " FORMER_IDENTITY " 1000000 jobs jobs",
                  worker->claim);
    for (unsigned i = 0; i < FORMER_SLOTS; i++) {
        struct former_slot *slot = &worker->slots[i];
        char id[17];
        next_id(worker, id);
        buffer_format(&command, " %u \"%s\" %s %d", i, slot->id, id, wants);
        snprintf(slot->id, sizeof slot->id, "%s", id);
    }
    char *answers = redis_server_command(worker->fleet->queue, "%s", buffer_text(&command));
    answers_read(worker, answers);
    free(answers);
    buffer_fini(&command);
}

void former_worker_ring(struct former_worker *worker)
{
    free(fleet_ask(worker->fleet, "LMOVE queue:jobs " BELL " RIGHT LEFT"));
}

void former_worker_retry(struct former_worker *worker, unsigned number)
{
    struct former_slot *slot = &worker->slots[number];
    char id[17];
    next_id(worker, id);
    /* What it wrote into the record of a failure, as far as it matters here: a task that failed before has it. */
    const char *queue = strstr(slot->task, "\"queue\"") == NULL ? ",\"queue\":\"jobs\"" : "";
    slot->task[strlen(slot->task) - 1] = '\0';
    worker->lost += fleet_number(worker->fleet, "EVALSHA %s 2 " CLAIMS " retry %u %s %s 0 '%s%s}' 0 0",
                                 worker->postpone, number, slot->id, id, slot->task, queue) != 1;
    snprintf(slot->id, sizeof slot->id, "%s", id);
    slot->task[0] = '\0';
}

void former_worker_give_back(struct former_worker *worker, unsigned number)
{
    struct former_slot *slot = &worker->slots[number];
    char id[17];
    next_id(worker, id);
    worker->lost += fleet_number(worker->fleet, "EVALSHA %s 2 " CLAIMS " queue:jobs %u %s %s", worker->give_back,
                                 number, slot->id, id) != 1;
    snprintf(slot->id, sizeof slot->id, "%s", id);
    slot->task[0] = '\0';
}

void former_worker_leave(struct former_worker *worker)
{
    assert_int_equal(fleet_number(worker->fleet,
                                  "EVALSHA %s 4 hf:processes " CLAIMS " " BELL " queue:jobs " FORMER_IDENTITY " queue:",
                                  worker->leave),
                     0);
    free(worker->claim);
    free(worker->postpone);
    free(worker->give_back);
    free(worker->leave);
}
