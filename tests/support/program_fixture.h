/* For tests of programs as handlers: launcher_fixture.h, a directory for scripts, the programs of a worker, and a job
 * that remembers what is said of it. Each test has one run at a time. */
#ifndef TESTS_SUPPORT_PROGRAM_FIXTURE_H
#define TESTS_SUPPORT_PROGRAM_FIXTURE_H

#include "base/buffer.h"
#include "tests/support/launcher_fixture.h"
#include "worker/isolation/program.h"

struct outing {
    struct hf_job job;
    struct plugin_handler handler;
    struct task_rules rules;
    struct isolated_run run;
    const char *program[4];
    bool has_begun, has_ended;
    int code;
    struct buffer said; /* through its link: "log LEVEL TEXT\n", "event LEVEL NAME KEY=VALUE...\n", "progress JSON\n" */
};

extern struct programs *programs;
extern struct outing outing;

int program_set_up(void **state);
int program_tear_down(void **state);

/* An executable file of the test's directory, whose text begins with "#!/bin/sh" unless it says another. */
const char *script_write(const char *text);
/* Any file of that directory. */
const char *script_path(const char *name);
/* Starts the outing with the script or file; the job, rules and run entry may be changed before. */
void outing_start(const char *file);
/* Until it has ended: its code. */
int outing_await_end(void);
/* All of it. */
int outing_run(const char *text);

#endif
