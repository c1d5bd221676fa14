/* The exec job: what a program is given, how it ends, and that it ends. */
#include "tests/support/test.h"

#include <sys/stat.h>

#include "tests/support/fake_host.h"
#include "tests/support/private_directory.h"

struct shop {
    char directory[PRIVATE_DIRECTORY_MAX], script[300], command[340], left[300];
    const char *kill_after;
    struct fake_setting settings[8];
    struct fake_plugin *plugin;
};
static struct shop *shop;

static void enter(void)
{
    shop = calloc(1, sizeof *shop);
    private_directory_create(shop->directory);
    snprintf(shop->script, sizeof shop->script, "%s/script", shop->directory);
    snprintf(shop->left, sizeof shop->left, "%s/left", shop->directory);
    snprintf(shop->command, sizeof shop->command, "/bin/sh  %s one two ", shop->script);
    shop->kill_after = "20000";
}

static void leave(void)
{
    if (shop->plugin != NULL)
        fake_plugin_close(shop->plugin);
    unlink(shop->script);
    unlink(shop->left);
    int failed = rmdir(shop->directory);
    free(shop);
    assert_int_equal(failed, 0);
}

/* Opens the plugin with that script as the program "x", which runs in the directory. */
static void script(const char *text)
{
    char reason[512] = "";
    FILE *file = fopen(shop->script, "w");
    fputs(text, file);
    fclose(file);
    const struct fake_setting settings[] = {{"programs", " x "},
                                            {"program_x", shop->command},
                                            {"directory", shop->directory},
                                            {"kill_after", shop->kill_after},
                                            {NULL, NULL}};
    memcpy(shop->settings, settings, sizeof settings);
    if (shop->plugin != NULL)
        fake_plugin_close(shop->plugin);
    shop->plugin = fake_plugin_open("exec", shop->settings, reason);
    if (shop->plugin == NULL)
        fail_msg("%s", reason);
}

static int run_with(hf_job *job, const char *text)
{
    script(text);
    job->jid = "jid-1";
    if (job->json == NULL)
        job->json = "[\"x\"]";
    return fake_plugin_run(shop->plugin, job);
}

/* --- what it is given --------------------------------------------------------------------------------------- */

TEST(the_arguments_are_its_input)
{
    hf_job job = {.json = " [ \"x\" , 1.50, {\"a\":\"\\u00e9]\"} ] "};
    assert_int_equal(run_with(&job, "cat"), HF_OK);
    assert_contains(job.last_event, "stream=stdout text=[1.50, {\"a\":\"\\u00e9]\"}]");
    job = (hf_job){.json = "[\"x\"]"};
    assert_int_equal(run_with(&job, "cat"), HF_OK);
    assert_contains(job.last_event, "text=[]");
}

TEST(the_command_line_and_the_place_are_those_of_the_settings)
{
    hf_job job = {0};
    assert_int_equal(run_with(&job, "echo $#:$1:$2:$(pwd):$(umask)"), HF_OK);
    assert_contains(job.last_event, "text=2:one:two:");
    assert_contains(job.last_event, strrchr(shop->directory, '/'));
    assert_contains(job.last_event, ":0077");
}

TEST(the_environment_has_the_facts_and_nothing_else)
{
    static const char *const names[] = {"account:1", "account:2"};
    hf_job job = {.resources = names, .resource_count = 2, .token = "42"};
    setenv("SECRET_OF_THE_WORKER", "s", 1);
    assert_int_equal(run_with(&job, "echo $HF_JID $HF_CLASS $HF_QUEUE $HF_ATTEMPT $HF_RESOURCE $HF_RESOURCES "
                                    "$HF_FENCE \"<$SECRET_OF_THE_WORKER>\" ${PATH:+has-path}"),
                     HF_OK);
    assert_contains(job.last_event, "text=jid-1 fake default 0 account:1 [\"account:1\",\"account:2\"] 42 <> has-path");
    job.seat = 3;
    assert_int_equal(run_with(&job, "echo $HF_FENCE $HF_SEAT"), HF_OK);
    assert_contains(job.last_event, "text=42 3");
    job = (hf_job){.trace = "00-trace"};
    assert_int_equal(run_with(&job, "echo $TRACEPARENT"), HF_OK);
    assert_contains(job.last_event, "text=00-trace");
    job = (hf_job){0};
    assert_int_equal(run_with(&job, "echo \"<$TRACEPARENT$HF_RESOURCE$HF_FENCE$HF_SEAT$HF_LOCK_UNTIL_MS>\""), HF_OK);
    assert_contains(job.last_event, "text=<>");
    unsetenv("SECRET_OF_THE_WORKER");
}

TEST(it_has_three_descriptors_and_the_usual_signals)
{
    int forgotten = open("/dev/null", O_RDONLY); /* by somebody, without O_CLOEXEC */
    hf_job job = {0};
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(run_with(&job, "n=0; for f in 3 4 5 6 7 8 9; do if [ -e /proc/$$/fd/$f ]; then n=$f; fi; done\n"
                                    "echo $n $(grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -s '\\n\\t ' ' ')"),
                     HF_OK);
    signal(SIGPIPE, SIG_DFL);
    close(forgotten);
    assert_contains(job.last_event, "text=0 SigBlk: 0000000000000000 SigIgn: 0000000000000000");
}

/* --- how it ends -------------------------------------------------------------------------------------------- */

TEST(the_exit_status_decides)
{
    static const struct {
        const char *text;
        int code;
        const char *error_class;
    } cases[] = {{"exit 0", HF_OK, ""},
                 {"exit 1", HF_FAIL, "HF::Failed"},
                 {"exit 64", HF_BURY, "HF::Failed"},
                 {"exit 65", HF_BURY, "HF::Failed"},
                 {"exit 69", HF_FAIL, "HF::Failed"},
                 {"exit 75", HF_FAIL, "HF::Failed"},
                 {"exit 77", HF_BURY, "HF::Failed"},
                 {"exit 78", HF_BURY, "HF::Failed"},
                 {"exit 98", HF_SNOOZE, ""},
                 {"exit 99", HF_DISCARD, ""},
                 {"exit 127", HF_FAIL, "HF::NotStarted"},
                 {"kill -SEGV $$", HF_FAIL, "HF::Crashed"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hf_job job = {0};
        int code = run_with(&job, cases[i].text);
        if (code != cases[i].code)
            fail_msg("%s gave %d", cases[i].text, code);
        assert_string_equal(job.error_class, cases[i].error_class);
    }
}

TEST(the_last_line_says_why)
{
    hf_job job = {0};
    assert_int_equal(run_with(&job, "echo first >&2; echo no such invoice >&2; echo >&2; exit 3"), HF_FAIL);
    assert_string_equal(job.error, "the program x exited with status 3: no such invoice");
}

TEST(one_that_is_gone_was_not_started)
{
    char reason[512] = "";
    hf_job job = {.jid = "j", .json = "[\"x\"]"};
    FILE *file = fopen(shop->script, "w");
    fputs("#!/bin/sh\n", file);
    fclose(file);
    chmod(shop->script, 0700);
    const struct fake_setting settings[] = {{"programs", "x"}, {"program_x", shop->script}, {NULL, NULL}};
    memcpy(shop->settings, settings, sizeof settings);
    shop->plugin = fake_plugin_open("exec", shop->settings, reason);
    assert_int_equal(fake_plugin_run(shop->plugin, &job), HF_OK);
    unlink(shop->script);
    assert_int_equal(fake_plugin_run(shop->plugin, &job), HF_FAIL);
    assert_string_equal(job.error_class, "HF::NotStarted");
    assert_contains(job.error, "No such file");
}

TEST(output_without_end_is_bounded)
{
    hf_job job = {0};
    assert_int_equal(run_with(&job, "yes a line | head -n 5000; yes long | tr -d '\\n' | head -c 1000000"), HF_OK);
    assert_int_equal(job.events, 1000);
    assert_contains(job.last_log, "more lines of the program x were left out");
    assert_int_equal(strtol(job.last_log, NULL, 10), 4000 + 1000000 / 200);
    job = (hf_job){0};
    assert_int_equal(run_with(&job, "yes long | tr -d '\\n' | head -c 1001; echo; echo"), HF_OK);
    assert_int_equal(job.events, 6);
    assert_string_equal(strstr(job.last_event, "text="), "text=l");
}

/* --- that it ends ------------------------------------------------------------------------------------------- */

/* Once it has said something. */
static void cancel_when_ready(hf_job *job)
{
    job->is_cancelled = job->events > 0;
}

TEST(one_that_does_not_listen_is_killed_when_the_lock_is_lost)
{
    hf_job job = {.when_asked = cancel_when_ready};
    assert_int_equal(run_with(&job, "trap '' TERM; echo ready; while :; do :; done"), HF_CANCELLED);
}

TEST(one_that_does_not_listen_is_killed_a_little_later)
{
    hf_job job = {.when_asked = cancel_when_ready, .reason = HF_SHUTDOWN};
    shop->kill_after = "50";
    assert_int_equal(run_with(&job, "trap '' TERM; echo ready; while :; do :; done"), HF_CANCELLED);
}

TEST(one_that_is_asked_politely_can_clear_up)
{
    hf_job job = {.when_asked = cancel_when_ready, .reason = HF_USER};
    assert_int_equal(
        run_with(&job, "exec 2>&-; trap 'echo cleared; exit 1' TERM; echo ready; while :; do sleep 0.01; done"),
        HF_CANCELLED);
    assert_contains(job.last_event, "text=cleared");
    job = (hf_job){.when_asked = cancel_when_ready, .reason = HF_USER};
    assert_int_equal(run_with(&job, "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"), HF_OK);
}

/* Dead, whether or not somebody has reaped it. */
static bool is_gone(pid_t process)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return true;
    const char *state = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
    fclose(file);
    return state == NULL || state[2] == 'Z' || state[2] == 'X';
}

/* A grandchild that would write a file a little later, and holds the output open. */
TEST(nothing_of_the_group_outlives_it)
{
    hf_job job = {0};
    assert_int_equal(run_with(&job, "(trap '' TERM HUP; while :; do sleep 0.01; done; echo >left) & echo $!"), HF_OK);
    const char *text = strstr(job.last_event, "text=");
    pid_t grandchild = (pid_t)strtol(text + strlen("text="), NULL, 10);
    assert_true(grandchild > 1);
    test_await(is_gone(grandchild));
}

/* As the worker does with a process that it kills: the program goes with it. */
TEST(a_program_does_not_outlive_who_started_it)
{
    char bytes[32] = "";
    int status;
    pid_t child = fork();
    if (child == 0) {
        hf_job job = {0};
        run_with(&job, "echo $$ >left.new; mv left.new left; while :; do :; done");
        _exit(0);
    }
    test_await(access(shop->left, R_OK) == 0);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    FILE *file = fopen(shop->left, "r");
    assert_non_null(fgets(bytes, sizeof bytes, file));
    fclose(file);
    pid_t program = (pid_t)strtol(bytes, NULL, 10);
    assert_true(program > 1);
    test_await(is_gone(program));
}

/* --- arguments and settings --------------------------------------------------------------------------------- */

TEST(what_nobody_named_is_buried)
{
    static const char *const cases[] = {"[]", "[1]", "[\"y\"]", "[\"/bin/sh\",\"-c\"]", "[\"\"]"};
    script("exit 0");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hf_job job = {.jid = "j", .json = cases[i]};
        assert_int_equal(fake_plugin_run(shop->plugin, &job), HF_BURY);
        assert_string_equal(job.error_class, "HF::BadArguments");
    }
}

TEST(wrong_settings_are_refused_with_a_reason)
{
    static const struct {
        struct fake_setting settings[4];
        const char *reason;
    } cases[] = {{{{"programs", "x"}}, "program_x"},
                 {{{"programs", "x"}, {"program_x", "sh -c"}}, "program_x"},
                 {{{"programs", "x"}, {"program_x", "/none"}}, "program_x"},
                 {{{"programs", "x"}, {"program_x", "/etc/passwd"}}, "program_x"},
                 {{{"programs", "x"}, {"program_x", "/tmp"}}, "program_x"},
                 {{{"directory", "/none"}}, "directory"},
                 {{{"kill_after", "60001"}}, "kill_after"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char reason[512] = "";
        assert_null(fake_plugin_open("exec", cases[i].settings, reason));
        assert_contains(reason, cases[i].reason);
    }
}

RUN_TESTS_BETWEEN(enter, leave)
