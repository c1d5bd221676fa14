#include "tests/support/program_fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tests/support/private_directory.h"
#include "tests/support/test.h"

struct programs *programs;
struct outing outing;
static char directory[PRIVATE_DIRECTORY_MAX];
static unsigned scripts;

/* --- the job's link ----------------------------------------------------------------------------------------------- */

static bool link_hears(struct hf_job *job, enum hf_log_level level)
{
    (void)job;
    return level > HF_LOG_DEBUG;
}

static void link_log(struct hf_job *job, enum hf_log_level level, const char *text)
{
    (void)job;
    buffer_format(&outing.said, "log %d %s\n", level, text);
}

static void link_event(struct hf_job *job, enum hf_log_level level, const char *name, const hf_field *fields,
                       size_t count)
{
    (void)job;
    buffer_format(&outing.said, "event %d %s", level, name);
    for (size_t i = 0; i < count; i++)
        buffer_format(&outing.said, " %s=%s", fields[i].key, fields[i].value);
    buffer_append_text(&outing.said, "\n");
}

static bool link_progress(struct hf_job *job, const char *json)
{
    (void)job;
    buffer_format(&outing.said, "progress %s\n", json);
    return true;
}

static const struct job_link outing_link = {
    .hears = link_hears, .log = link_log, .event = link_event, .progress = link_progress};

/* --- the run ------------------------------------------------------------------------------------------------------ */

static void outing_began(struct isolated_run *run)
{
    (void)run;
    assert_false(outing.has_begun);
    outing.has_begun = true;
}

static void outing_ended(struct isolated_run *run, int code)
{
    (void)run;
    assert_false(outing.has_ended);
    outing.has_ended = true;
    outing.code = code;
    run_entry_close(outing.job.run_entry);
}

static void outing_init(void)
{
    static const char args[] = "[\"first\",2]";
    outing.job = (struct hf_job){.class_name = "sums",
                                 .queue = "low",
                                 .jid = "0123456789abcdef01234567",
                                 .args = {args, sizeof args - 1},
                                 .reports_progress = true,
                                 .keeps_result = true,
                                 .may_push = true,
                                 .run_entry = run_table_entry(run_table, 0),
                                 .run_table = run_table,
                                 .link = &outing_link};
    outing.job.outcome.retry_in_ms = -1;
    outing.handler = (struct plugin_handler){.class_name = "sums", .program = outing.program};
    outing.rules = (struct task_rules){.isolation = CONFIG_ISOLATION_EXEC};
    outing.run = (struct isolated_run){.job = &outing.job,
                                       .run_entry = outing.job.run_entry,
                                       .handler = &outing.handler,
                                       .rules = &outing.rules,
                                       .began = outing_began,
                                       .ended = outing_ended};
    outing.has_begun = outing.has_ended = false;
    buffer_clear(&outing.said);
    atomic_store(&run_table->lease_end, INT64_MAX);
    run_entry_clear(outing.job.run_entry);
}

int program_set_up(void **state)
{
    if (launcher_set_up(state) != 0)
        return -1;
    private_directory_create(directory);
    programs = programs_create(&(struct isolation_options){.loop = loop, .launcher = launcher, .run_table = run_table});
    outing_init();
    return 0;
}

static void directory_remove(void)
{
    DIR *listing = opendir(directory);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;)
        if (entry->d_name[0] != '.')
            unlink(script_path(entry->d_name));
    closedir(listing);
    rmdir(directory);
}

int program_tear_down(void **state)
{
    programs_destroy(programs);
    job_outcome_fini(&outing.job.outcome);
    buffer_fini(&outing.said);
    directory_remove();
    return launcher_tear_down(state);
}

const char *script_path(const char *name)
{
    static char path[PRIVATE_DIRECTORY_MAX + 64];
    snprintf(path, sizeof path, "%s/%.60s", directory, name);
    return path;
}

const char *script_write(const char *text)
{
    char name[32];
    snprintf(name, sizeof name, "script-%u", scripts++);
    const char *path = script_path(name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "%s%s\n", strncmp(text, "#!", 2) == 0 ? "" : "#!/bin/sh\n", text);
    assert_int_equal(fchmod(fileno(file), 0755), 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

void outing_start(const char *file)
{
    static char kept[PRIVATE_DIRECTORY_MAX + 64];
    snprintf(kept, sizeof kept, "%s", file);
    outing.program[0] = kept;
    outing.has_begun = outing.has_ended = false;
    job_outcome_clear(&outing.job.outcome);
    run_entry_open(outing.job.run_entry, outing.job.jid, outing.job.class_name);
    programs_start(programs, &outing.run);
    assert_false(outing.has_begun || outing.has_ended);
}

static bool has_ended(void *context)
{
    (void)context;
    return outing.has_ended;
}

int outing_await_end(void)
{
    launcher_until(has_ended, NULL);
    return outing.code;
}

int outing_run(const char *text)
{
    outing_start(script_write(text));
    return outing_await_end();
}
