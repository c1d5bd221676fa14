/* holdfast run-handler: what a handler sees and says, and what would become of its task, in each place where it can
 * run. The handler is tests/plugins/scripted.c, or a script. */
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/private_directory.h"
#include "tests/support/program_run.h"

enum { WORDS_MAX = 24, PATH_SIZE = 512 };

/* "thread" or "process". */
static const char *const places[] = {"thread", "process"};
enum { PLACES = 2 };

static const char *const *command(const char *place, const char *args, const char *const *more)
{
    static const char *words[WORDS_MAX];
    static char plugin[PATH_SIZE];
    size_t count = 0;
    snprintf(plugin, sizeof plugin, "%s/tests/plugins/scripted.so", test_build());
    const char *first[] = {"run-handler", "scripted", args, "--plugin", plugin};
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        words[count++] = first[i];
    if (strcmp(place, "thread") == 0)
        words[count++] = "--in-process";
    for (size_t i = 0; more != NULL && more[i] != NULL; i++)
        words[count++] = more[i];
    words[count] = NULL;
    return words;
}

#define MORE(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct program_result run_handler(const char *place, const char *args, const char *const *more)
{
    return program_run_arguments(command(place, args, more), -1);
}

static void expect(struct program_result *result, int exit_code, const char *out)
{
    if (result->exit_code != exit_code)
        fail_msg("exit code %d, not %d: %s%s", result->exit_code, exit_code, result->out, result->error);
    assert_contains(result->out, out);
}

TEST(all_that_it_says_is_told)
{
    for (int i = 0; i < PLACES; i++) {
        struct program_result result = run_handler(places[i], "[\"say\"]", NULL);
        expect(&result, 0, "log       warn  a ?[31mcolour\n");
        assert_contains(result.out, "event     info  stored bytes=7 name=\"a b\"\n");
        assert_contains(result.out, "progress  {\"done\":1}\nprogress  {\"done\":2}\n");
        assert_contains(
            result.out,
            "result    {\"sum\":12}\npush      {\"class\":\"next\",\"args\":[1]}\noutcome   done; it ran for ");
        assert_string_equal(result.error, "");
        program_result_free(&result);
    }
}

TEST(the_outcome_is_json_when_that_is_wanted)
{
    for (int i = 0; i < PLACES; i++) {
        struct program_result result = run_handler(places[i], "[\"say\"]", MORE("--json"));
        expect(&result, 0, "{\"class\":\"scripted\",\"jid\":\"");
        assert_contains(result.out, "\"outcome\":\"done\",\"error\":null,\"comes_again_in\":null,\"ran_for\":");
        assert_contains(result.out, ",\"progress\":{\"done\":2},\"result\":{\"sum\":12},"
                                    "\"pushed\":[{\"class\":\"next\",\"args\":[1]}]}\n");
        assert_contains(result.error, "progress  {\"done\":1}\n");
        assert_lacks(result.out, "progress  ");
        assert_contains(result.out, i == 0 ? "\"isolation\":\"thread\"" : "\"isolation\":\"process\"");
        program_result_free(&result);
        result = run_handler(places[i], "[\"snooze\"]", MORE("--json"));
        expect(&result, 98, "\"outcome\":\"snoozed\",\"error\":null,\"comes_again_in\":5.0,");
        program_result_free(&result);
    }
}

TEST(what_cannot_be_pushed_is_refused_at_once)
{
    for (int i = 0; i < PLACES; i++) {
        struct program_result result = run_handler(places[i], "[\"nothing\"]", NULL);
        expect(&result, 65, "error     Unpushed: ");
        assert_contains(result.out, "class");
        program_result_free(&result);
    }
}

TEST(it_sees_what_the_options_say)
{
    for (int i = 0; i < PLACES; i++) {
        struct program_result result = run_handler(places[i], "[\"facts\"]",
                                                   MORE("-r", "b", "-r", "a", "--fence", "77", "--attempt", "3",
                                                        "--checkpoint", "{\"at\":9}", "--setting", "word=hello"));
        expect(&result, 0,
               "result    {\"resources\":2,\"first\":\"a\",\"fence\":\"77\",\"verify\":1,\"danger\":0,\"valid\":1,"
               "\"attempt\":3,\"saved\":{\"at\":9},\"setting\":\"hello\"}");
        assert_contains(result.out, "lock      held on a, b, its token is 77\n");
        program_result_free(&result);
        result = run_handler(places[i], "[\"facts\"]", NULL);
        expect(&result, 0,
               "result    {\"resources\":0,\"first\":\"\",\"fence\":\"\",\"verify\":1,\"danger\":0,\"valid\":1,"
               "\"attempt\":0,\"saved\":null,\"setting\":\"\"}");
        program_result_free(&result);
    }
}

/* Who stands still for less than the danger lasts tells both. */
TEST(the_loss_of_its_lock_is_told_and_its_result_refused)
{
    for (int i = 0; i < PLACES; i++) {
        struct program_result result =
            run_handler(places[i], "[\"loss\"]", MORE("-r", "a", "--danger-after", "300ms", "--lose-lock-after", "5s"));
        expect(&result, 97, "lock      in danger\nlock      lost\n");
        assert_contains(result.out,
                        "error     HF::LockLost: the lock was lost while it ran, so its result was refused\n"
                        "outcome   lock_lost: it comes again in ");
        if (i == 0) /* a process may be killed before it has said it */
            assert_contains(result.out, "log       info  reason 1, verify 0\n");
        program_result_free(&result);
    }
}

TEST(danger_is_seen_and_is_no_loss)
{
    for (int i = 0; i < PLACES; i++) {
        struct program_result result =
            run_handler(places[i], "[\"danger\"]", MORE("-r", "a", "--danger-after", "200ms"));
        expect(&result, 0, "\"verify\":0,\"danger\":1,\"valid\":1,");
        assert_contains(result.out, "lock      in danger\n");
        assert_lacks(result.out, "lost");
        program_result_free(&result);
    }
}

TEST(it_is_asked_to_stop)
{
    for (int i = 0; i < PLACES; i++) {
        struct program_result result = run_handler(places[i], "[\"order\"]", MORE("--cancel-after", "200ms"));
        expect(&result, 130, "cancel    asked to stop: the task is cancelled\noutcome   cancelled");
        program_result_free(&result);
        result = run_handler(places[i], "[\"order\"]", MORE("--timeout", "200ms"));
        expect(&result, 75, "cancel    asked to stop: it took longer than 200ms\n");
        assert_contains(result.out, "error     HF::TimedOut: ");
        program_result_free(&result);
        result = run_handler(places[i], "[\"order\"]", MORE("--timeout", "200ms", "--attempt", "25"));
        expect(&result, 65, "outcome   dead");
        program_result_free(&result);
    }
}

TEST(who_does_not_listen_is_killed_in_a_process)
{
    struct program_result result = run_handler("process", "[\"deaf\"]", MORE("-r", "a", "--lose-lock-after", "300ms"));
    expect(&result, 97, "outcome   lock_lost");
    program_result_free(&result);
    result = run_handler("process", "[\"crash\"]", NULL);
    expect(&result, 75, "error     HF::Crashed: ");
    assert_contains(result.out, "signal 6");
    program_result_free(&result);
    result = run_handler("thread", "[\"crash\"]", NULL);
    assert_int_equal(result.exit_code, -1); /* nothing is hidden from a debugger */
    program_result_free(&result);
}

/* Of its status nobody can tell that there was no outcome. */
TEST(exit_is_no_outcome)
{
    struct program_result result = run_handler("process", "[\"exit\"]", NULL);
    expect(&result, 75, "error     HF::Crashed: ");
    assert_contains(result.out, "exited with status 0");
    program_result_free(&result);
    result = run_handler("thread", "[\"exit\"]", NULL);
    expect(&result, 1, "leaving");
    assert_contains(result.error, "the handler of scripted called exit(), which ends the whole process");
    assert_lacks(result.out, "outcome");
    program_result_free(&result);
}

static bool has_said(const struct program *program, const char *text)
{
    char *said = program_error_text(program);
    bool found = strstr(said, text) != NULL;
    free(said);
    return found;
}

/* With --json what it says comes on standard error at once. */
TEST(an_interrupt_cancels_and_a_second_one_kills)
{
    for (int i = 0; i < PLACES; i++) {
        struct program program = program_start(command(places[i], "[\"order\"]", MORE("--json")), -1);
        test_await(has_said(&program, "waiting"));
        kill(program.pid, SIGINT);
        struct program_result result = program_wait(&program);
        expect(&result, 130, "\"outcome\":\"cancelled\"");
        program_result_free(&result);

        program = program_start(command(places[i], "[\"deaf\"]", MORE("--json")), -1);
        test_await(has_said(&program, "deaf"));
        kill(program.pid, SIGINT);
        test_await(has_said(&program, "once more kills it"));
        kill(program.pid, SIGINT);
        result = program_wait(&program);
        assert_int_equal(result.exit_code, 130);
        assert_contains(result.error, "cancel    killed\n");
        program_result_free(&result);
    }
}

TEST(refusals_come_before_the_run)
{
    char args[700] = "[\"";
    memset(args + 2, 'x', 600);
    memcpy(args + 602, "\"]", 3);
    for (int i = 0; i < PLACES; i++) {
        struct program_result result = run_handler(places[i], args, NULL);
        expect(&result, 65, "error     HF::BadArguments: too long for me\noutcome   dead");
        program_result_free(&result);
        result = run_handler(places[i], "[]", MORE("--setting", "word=refuse"));
        assert_int_equal(result.exit_code, 1);
        assert_contains(result.error, "refused, as the setting says");
        assert_string_equal(result.out, "");
        program_result_free(&result);
    }
}

TEST(arguments_come_from_standard_input_too)
{
    int input = memfd_create("input", MFD_CLOEXEC);
    assert_int_equal(write(input, " [\"say\"]\n", 9), 9);
    lseek(input, 0, SEEK_SET);
    struct program_result result = program_run_arguments(command("thread", "-", NULL), input);
    expect(&result, 0, "result    {\"sum\":12}");
    program_result_free(&result);
}

/* --- of a configuration ------------------------------------------------------------------------------------------- */

struct place {
    char directory[PRIVATE_DIRECTORY_MAX], config[PATH_SIZE], script[PATH_SIZE];
};

static int enter(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    private_directory_create(place->directory);
    snprintf(place->config, sizeof place->config, "%s/t.conf", place->directory);
    snprintf(place->script, sizeof place->script, "%s/script", place->directory);
    *state = place;
    return 0;
}

static int leave(void **state)
{
    struct place *place = *state;
    unlink(place->config);
    unlink(place->script);
    int failed = rmdir(place->directory);
    free(place);
    return failed;
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static struct program_result run_configured(const struct place *place, const char *class_settings, const char *args,
                                            const char *const *more)
{
    char text[2048];
    const char *words[WORDS_MAX] = {"run-handler", "scripted", args, "-c", place->config};
    for (size_t i = 0; more != NULL && more[i] != NULL; i++)
        words[5 + i] = more[i];
    snprintf(text, sizeof text,
             "queue_node = { host = \"127.0.0.1\"; };\n"
             "worker = { jobs_directory = \"%s/tests/plugins\"; jobs = [\"scripted\"]; };\n"
             "plugin_settings = ( { plugin = \"scripted\"; settings = { word = \"file\"; }; } );\n"
             "lock = { ttl = \"1s\"; };\n"
             "classes = ( { class = \"scripted\"; %s } );\n",
             test_build(), class_settings);
    write_file(place->config, text, 0600);
    return program_run_arguments(words, -1);
}

TEST_WITH(a_configuration_says_what_the_class_is, enter, leave)
{
    const struct place *place = *state;
    struct program_result result =
        run_configured(place, "isolation = \"thread\"; resource = [\"item:{1}\"];", "[\"facts\",7]", MORE("--json"));
    expect(&result, 0, "\"isolation\":\"thread\"");
    assert_contains(result.out, "\"first\":\"item:7\",\"fence\":\"1\"");
    assert_contains(result.out, "\"setting\":\"file\"");
    program_result_free(&result);
    result = run_configured(place, "isolation = \"thread\"; fence = \"no\";", "[\"facts\"]",
                            MORE("-r", "x", "--setting", "word=line"));
    expect(&result, 0, "\"first\":\"x\",\"fence\":\"\"");
    assert_contains(result.out, "\"setting\":\"line\"");
    program_result_free(&result);
    result = run_configured(place, "lock = \"required\";", "[\"facts\"]", NULL);
    expect(&result, 65, "error     HF::NoResource: ");
    program_result_free(&result);
    result = run_configured(place, "on_lost = \"dead\";", "[\"loss\"]", MORE("-r", "x", "--lose-lock-after=0"));
    expect(&result, 97, "outcome   lock_lost: it goes to the dead set");
    program_result_free(&result);
    result = run_configured(place, "max_hold = \"1s\";", "[\"order\"]", MORE("-r", "x"));
    expect(&result, 97, "it was held for as long as its class may");
    program_result_free(&result);
    result = run_configured(place, "timeout = \"100ms\"; grace = \"100ms\";", "[\"deaf\"]", NULL);
    expect(&result, 75, "error     HF::TimedOut: ");
    program_result_free(&result);
    result = run_configured(place, "grace = \"100ms\";", "[\"deaf\"]", MORE("--cancel-after=100ms"));
    expect(&result, 130, "outcome   cancelled");
    program_result_free(&result);
    result = run_configured(place, "time_out = \"100ms\";", "[\"deaf\"]", NULL);
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "did you mean timeout?");
    program_result_free(&result);
}

/* --- of programs -------------------------------------------------------------------------------------------------- */

static struct program_result run_program(const struct place *place, const char *script, const char *const *more)
{
    const char *words[WORDS_MAX] = {"run-handler", "anything", "[1,\"two\"]", "--program", place->script};
    for (size_t i = 0; more != NULL && more[i] != NULL; i++)
        words[5 + i] = more[i];
    write_file(place->script, script, 0700);
    return program_run_arguments(words, -1);
}

TEST_WITH(programs_are_run_as_a_worker_does, enter, leave)
{
    const struct place *place = *state;
    struct program_result result = run_program(place,
                                               "#!/bin/sh\n"
                                               "echo '{\"progress\":{\"done\":1}}' >&3\n"
                                               "printf '{\"result\":%s}\\n' \"$(cat)\" >&3\n"
                                               "echo \"$HF_RESOURCE $HF_FENCE $HF_CLASS\"\n",
                                               MORE("-r", "a", "--fence", "5"));
    expect(&result, 0, "result    [1,\"two\"]\noutcome   done");
    assert_contains(result.out, "progress  {\"done\":1}\n");
    assert_contains(result.error, "text=\"a 5 anything\"");
    program_result_free(&result);
    result = run_program(place, "#!/bin/sh\necho broken >&2\nexit 65\n", NULL);
    expect(&result, 65, "outcome   dead");
    assert_contains(result.out, "broken");
    program_result_free(&result);
    result = run_program(place, "#!/bin/sh\nexit 3\n", NULL);
    expect(&result, 75, "exited with status 3");
    program_result_free(&result);
    result = run_program(place, "#!/bin/sh\nexec sleep 100\n", MORE("--cancel-after=200ms"));
    expect(&result, 130, "outcome   cancelled");
    program_result_free(&result);
    /* It has as long to set its trap. */
    static const char told[] = "#!/bin/sh\ntrap 'exit 65' TERM\nwhile :; do sleep 0.05; done\n";
    result = run_program(place, told, MORE("--cancel-after=5s"));
    expect(&result, 65, "outcome   dead");
    program_result_free(&result);
    result = run_program(place, told, MORE("-r", "a", "--danger-after=5s"));
    expect(&result, 65, "outcome   dead");
    program_result_free(&result);
    result =
        run_program(place, "#!/bin/sh\ntrap '' TERM\nexec sleep 100\n", MORE("-r", "a", "--lose-lock-after=300ms"));
    expect(&result, 97, "outcome   lock_lost");
    program_result_free(&result);
}

/* It looks where every command looks; the rules of that are test_origin's. */
TEST_WITH(a_configuration_is_looked_for, enter, leave)
{
    const struct place *place = *state;
    struct program_result result = run_configured(place, "isolation = \"thread\";", "[\"settings\"]", NULL);
    program_result_free(&result);
    setenv("HOLDFAST_CONFIG", place->config, 1);
    result = program_run("run-handler scripted -v");
    assert_int_not_equal(result.exit_code, 2);
    assert_contains(result.error, "t.conf, named by $HOLDFAST_CONFIG\n");
    assert_contains(result.out, "outcome   ");
    program_result_free(&result);
    result = program_run("run-handler other");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "nobody serves the class other");
    assert_contains(result.error, "t.conf, named by $HOLDFAST_CONFIG\n");
    program_result_free(&result);
    result = program_run("run-handler scripted --local --plugin a.so");
    assert_int_equal(result.exit_code, 2);
    unsetenv("HOLDFAST_CONFIG");
    program_result_free(&result);
}

/* Its words help without a configuration, which `holdfast check` would want. */
TEST_WITH(a_program_that_a_worker_refuses_is_not_begun, enter, leave)
{
    const struct place *place = *state;
    const char *words[WORDS_MAX] = {"run-handler", "anything", "[]", "--program", place->script};
    write_file(place->script, "#!/bin/sh\n", 0757);
    struct program_result result = program_run_arguments(words, -1);
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "/script: others may write it (mode 757), and it runs with the worker's rights; "
                                  "chmod go-w /");
    assert_string_equal(result.out, "");
    program_result_free(&result);
}

TEST_WITH(programs_that_are_none_are_refused, enter, leave)
{
    const struct place *place = *state;
    struct program_result result = program_run("run-handler anything [] --program /nonexistent/program");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "/nonexistent/program: No such file or directory");
    program_result_free(&result);
    result = run_program(place, "#!/bin/sh\n", MORE("--in-process"));
    assert_int_equal(result.exit_code, 2);
    program_result_free(&result);
}

/* --- mistakes ----------------------------------------------------------------------------------------------------- */

TEST(mistakes_are_told)
{
    static const struct {
        const char *line;
        int exit_code;
        const char *error;
    } mistakes[] = {
        {"run-handler", 2, "name the class"},
        {"run-handler echo {}", 2, "have to be a JSON array"},
        {"run-handler echo [1", 2, "not valid JSON"},
        {"run-handler echo [] --fence 0", 2, "--fence wants a number from 1"},
        {"run-handler echo [] --timeout 5", 2, "--timeout: "},
        {"run-handler echo [] --timeout=-5s", 2, "--timeout: "},
        {"run-handler echo [] --attempt x", 2, "--attempt wants a number"},
        {"run-handler echo [] --setting word", 2, "--setting: KEY=VALUE, not"},
        {"run-handler echo [] --checkpoint {", 2, "--checkpoint: "},
        {"run-handler echo [] --plugin a.so --program b", 2, "give one of"},
        {"run-handler ecko []", 1, "nobody serves the class ecko (did you mean echo?)"},
        {"run-handler echo [] --plugin /etc/passwd", 1, "ends with .so"},
        {"run-handler echo [] --lose-lock-after 1s", 1, "there is no lock that could be lost"},
        {"run-handler echo [] -r hf:x", 1, "hf:"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        struct program_result result = program_run(mistakes[i].line);
        if (result.exit_code != mistakes[i].exit_code)
            fail_msg("%s: %d, %s", mistakes[i].line, result.exit_code, result.error);
        assert_contains(result.error, mistakes[i].error);
        assert_string_equal(result.out, "");
        program_result_free(&result);
    }
}

TEST(it_learns_how_a_program_ends_also_where_its_parent_ignores_that)
{
    char program[PATH_SIZE], plugin[PATH_SIZE];
    int status = -1;
    snprintf(program, sizeof program, "%s/holdfast", test_build());
    snprintf(plugin, sizeof plugin, "%s/jobs/exec.so", test_build());
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGCHLD, SIG_IGN);
        execl(program, program, "run-handler", "exec", "[\"good\"]", "--in-process", "--plugin", plugin, "--setting",
              "programs=good", "--setting", "program_good=/bin/true", NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

RUN_TESTS
