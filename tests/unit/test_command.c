/* The program as somebody at a terminal meets it. */
#include "tests/support/test.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/support/private_directory.h"
#include "tests/support/program_run.h"

static void assert_misused(const char *line, const char *part)
{
    struct program_result result = program_run(line);
    assert_contains(result.error, part);
    assert_contains(result.error, "--help");
    assert_string_equal(result.out, "");
    assert_int_equal(result.exit_code, 2);
    program_result_free(&result);
}

static void assert_prints(const char *line, const char *part)
{
    struct program_result result = program_run(line);
    assert_contains(result.out, part);
    assert_string_equal(result.error, "");
    assert_int_equal(result.exit_code, 0);
    program_result_free(&result);
}

static void assert_fails(const char *line, const char *part)
{
    struct program_result result = program_run(line);
    assert_contains(result.error, part);
    assert_string_equal(result.out, "");
    assert_int_equal(result.exit_code, 1);
    program_result_free(&result);
}

TEST(help_and_version_are_printed)
{
    assert_prints("--help", "Exit codes:");
    assert_prints("-h", "holdfast COMMAND");
    assert_prints("help", "Exit codes:");
    assert_prints("--version", "holdfast 0.");
    assert_prints("version", "holdfast 0.");
    assert_prints("check --help", "Usage: holdfast check [OPTIONS]");
    assert_prints("check -h", "Options:");
    assert_prints("help check", "Usage: holdfast check [OPTIONS]");
    assert_prints("help --man", "holdfast-check.1\n");
    assert_prints("help --man=holdfast-check.1", ".TH \"holdfast-check\" 1 ");
    assert_prints("help --completion=bash", "complete -F _holdfast holdfast\n");
}

TEST(mistyped_commands_are_suggested)
{
    assert_misused("chekc", "there is no command chekc (did you mean check?)");
    assert_misused("frobnicate", "there is no command frobnicate\n");
    assert_misused("", "a command is missing");
    assert_misused("help frobnicate", "there is no command frobnicate");
}

TEST(mistyped_options_are_suggested)
{
    assert_misused("check --jsno", "unknown or ambiguous option --jsno (did you mean --json?)");
    assert_misused("check --frobnicate=3", "unknown or ambiguous option --frobnicate\n");
    assert_misused("check -x", "unknown option -x");
    assert_misused("check --json=1", "the option --json takes no value");
    assert_misused("check -c", "a value is missing after -c");
    assert_misused("check --config", "a value is missing after --config");
    assert_misused("check -c a b", "unexpected argument b");
    assert_misused("check a", "unexpected argument a");
    assert_misused("check -c x --json --print-config", "give either --json or --print-config");
    assert_misused("config --sample --manual", "go without other options");
    assert_misused("help push --man", "give one of COMMAND, --manual, --metrics, --man and --completion");
    assert_misused("help --man=holdfast-pusch.1", "there is no page holdfast-pusch.1");
    assert_misused("help --completion csh", "--completion wants bash, zsh or fish, not \"csh\"");
    assert_misused("quiet --all --wait 20s",
                   "unexpected argument 20s (a value of --wait is written with =: --wait=20s)");
    assert_misused("push --wait 5s echo [1]", "unexpected argument 5s (a value of --wait is written with =");
    assert_misused("push echo [1] x", "unexpected argument x");
}

/* The first piece of each list could be a node. */
TEST(no_message_quotes_a_password_that_a_comma_cuts)
{
    static const char *const lists[] = {"redis://u:1,secret,x@h:1", "redis://u:1 secret x@h:1",
                                        "redis://u:1,secret:2,secret:2,x@h:1"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        setenv("HOLDFAST_LOCK_NODES", lists[i], 1);
        struct program_result result = program_run("lock a -- true");
        unsetenv("HOLDFAST_LOCK_NODES");
        assert_int_equal(result.exit_code, 2);
        assert_contains(result.error, "$HOLDFAST_LOCK_NODES: number ");
        assert_lacks(result.error, "secret");
        program_result_free(&result);
    }
}

TEST(options_may_be_written_in_every_gnu_way)
{
    static const char *const lines[] = {"config -c conf/holdfast.conf", "config -cconf/holdfast.conf",
                                        "config --config conf/holdfast.conf", "config --config=conf/holdfast.conf",
                                        "config --conf=conf/holdfast.conf"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        assert_prints(lines[i], "threads = 16;");
}

TEST(output_that_cannot_be_written_is_a_failure)
{
    char program[4096], *arguments[] = {program, (char[]){"--help"}, NULL};
    int status;
    snprintf(program, sizeof program, "%s/holdfast", test_build());
    if (fork() == 0) {
        dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
        dup2(open("/dev/full", O_WRONLY | O_CLOEXEC), 1);
        execv(program, arguments);
        _exit(127);
    }
    assert_true(wait(&status) > 0);
    assert_int_equal(WEXITSTATUS(status), 1);
}

TEST(a_reader_that_has_seen_enough_is_no_failure)
{
    char program[4096], *arguments[] = {program, (char[]){"help"}, (char[]){"--manual"}, NULL}, text[256] = "";
    int status, output[2], errors[2];
    snprintf(program, sizeof program, "%s/holdfast", test_build());
    assert_int_equal(pipe(output), 0);
    assert_int_equal(pipe(errors), 0);
    close(output[0]);
    if (fork() == 0) {
        signal(SIGPIPE, SIG_IGN); /* as loops set it */
        dup2(output[1], 1);
        dup2(errors[1], 2);
        close(output[1]);
        close(errors[1]);
        execv(program, arguments);
        _exit(127);
    }
    close(output[1]);
    close(errors[1]);
    assert_int_equal(read(errors[0], text, sizeof text - 1), 0);
    assert_string_equal(text, "");
    close(errors[0]);
    assert_true(wait(&status) > 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void page_compare(const char *page, const char *command)
{
    char *text = calloc(1, 1 << 18);
    int fd = open(page, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(read(fd, text, (1 << 18) - 1) > 0);
    close(fd);
    struct program_result result = program_run(command);
    if (strcmp(text, result.out) != 0)
        fail_msg("%s is not what the program says: run make docs", page);
    program_result_free(&result);
    free(text);
}

TEST(a_token_that_cannot_be_used_is_an_error)
{
    char path[PRIVATE_DIRECTORY_MAX], line[PRIVATE_DIRECTORY_MAX + 32];
    int fd = private_file_create(path);
    assert_int_equal(write(fd, "too-short\n", 10), 10);
    close(fd);
    snprintf(line, sizeof line, "serve --token-file %s", path);
    assert_fails(line, "holdfast serve: --token-file: ");
    assert_fails(line, "a token has at least 16 characters");
    unlink(path);
    assert_fails(line, "cannot be opened: No such file or directory");
}

TEST(the_manual_is_up_to_date)
{
    page_compare("docs/commands.md", "help --manual");
    page_compare("docs/metrics.md", "help --metrics");
}

RUN_TESTS
