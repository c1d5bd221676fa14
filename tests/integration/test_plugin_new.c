/* holdfast plugin new: what it makes, and what it leaves alone. That what it makes can be built, and passes its own
 * tests, is seen by scripts/try-install. */
#include "tests/support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/private_directory.h"
#include "tests/support/program_run.h"

#define RESULT_TTL "24h" /* the default in worker/config/config_table.c */

enum { PATH_SIZE = 512, FILE_SIZE = 8192 };

struct place {
    char directory[PRIVATE_DIRECTORY_MAX];
};

static int enter(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    private_directory_create(place->directory);
    *state = place;
    return 0;
}

static void path_join(char out[PATH_SIZE], const char *directory, const char *name)
{
    assert_true(snprintf(out, PATH_SIZE, "%s/%s", directory, name) < PATH_SIZE);
}

/* A directory and the files in it. Returns how many there were. */
static int directory_empty(const char *path)
{
    int count = 0;
    DIR *entries = opendir(path);
    if (entries == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        char inner[PATH_SIZE];
        if (entry->d_name[0] == '.')
            continue;
        path_join(inner, path, entry->d_name);
        count++;
        if (unlink(inner) != 0)
            (void)rmdir(inner);
    }
    closedir(entries);
    return count;
}

static int leave(void **state)
{
    struct place *place = *state;
    static const char *const made[] = {"one", "two", "three", "four"};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        char path[PATH_SIZE];
        path_join(path, place->directory, made[i]);
        directory_empty(path);
    }
    directory_empty(place->directory);
    int failed = rmdir(place->directory);
    free(place);
    return failed;
}

static struct program_result plugin_new(const struct place *place, const char *name, const char *language)
{
    return program_run_arguments((const char *const[]){"plugin", "new", name, "--directory", place->directory,
                                                       language != NULL ? "--language" : NULL, language, NULL},
                                 -1);
}

/* The text of a file of a handler; NULL when there is none. The caller frees it. */
static char *file_text(const struct place *place, const char *name, const char *file)
{
    char directory[PATH_SIZE], path[PATH_SIZE];
    path_join(directory, place->directory, name);
    path_join(path, directory, file);
    FILE *from = fopen(path, "r");
    if (from == NULL)
        return NULL;
    char *text = calloc(1, FILE_SIZE);
    size_t length = fread(text, 1, FILE_SIZE - 1, from);
    assert_true(length < FILE_SIZE - 1);
    assert_int_equal(fclose(from), 0);
    return text;
}

static void expect_file(const struct place *place, const char *name, const char *file, const char *part,
                        bool is_executable)
{
    char directory[PATH_SIZE], path[PATH_SIZE];
    struct stat facts;
    char *text = file_text(place, name, file);
    if (text == NULL)
        fail_msg("%s/%s is missing", name, file);
    assert_contains(text, part);
    assert_lacks(text, "@NAME@");
    free(text);
    path_join(directory, place->directory, name);
    path_join(path, directory, file);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal((facts.st_mode & S_IXUSR) != 0, is_executable);
    assert_int_equal(facts.st_mode & (S_IWGRP | S_IWOTH), 0);
}

TEST(each_language_has_its_files)
{
    static const struct {
        const char *name, *language, *source, *part;
        bool is_program;
    } kinds[] = {
        {"one", NULL, "one.c", ".name = \"one\"", false},
        {"two", "c++", "two.cpp", "handler.name = \"two\"", false},
        {"three", "shell", "three", "tasks of the class three", true},
        {"four", "python", "four", "tasks of the class four", true},
    };
    const struct place *place = *state;
    mode_t umask_before = umask(0); /* nobody else may write what a worker loads, whatever it is */
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char conf[64], class_entry[64], path[PATH_SIZE];
        struct program_result result = plugin_new(place, kinds[i].name, kinds[i].language);
        assert_string_equal(result.error, "");
        assert_int_equal(result.exit_code, 0);
        assert_contains(result.out, kinds[i].source);
        program_result_free(&result);
        snprintf(conf, sizeof conf, "%s.conf", kinds[i].name);
        snprintf(class_entry, sizeof class_entry, "class = \"%s\";", kinds[i].name);
        expect_file(place, kinds[i].name, kinds[i].source, kinds[i].part, kinds[i].is_program);
        expect_file(place, kinds[i].name, "Makefile", kinds[i].name, false);
        expect_file(place, kinds[i].name, "README.md", kinds[i].name, false);
        expect_file(place, kinds[i].name, "test", kinds[i].name, true);
        expect_file(place, kinds[i].name, conf, class_entry, false);
        expect_file(place, kinds[i].name, conf, "without this line " RESULT_TTL, false);
        if (!kinds[i].is_program)
            expect_file(place, kinds[i].name, conf, "a list `jobs`, it has to name", false);
        path_join(path, place->directory, kinds[i].name);
        assert_int_equal(directory_empty(path), 5);
    }
    umask(umask_before);
}

/* The program need not be on the path yet. */
TEST(its_test_says_which_program_it_lacks)
{
    const struct place *place = *state;
    char script[PATH_SIZE], directory[PATH_SIZE], said[PATH_SIZE];
    int status = 0;
    struct program_result result = plugin_new(place, "three", "shell");
    assert_int_equal(result.exit_code, 0);
    program_result_free(&result);
    path_join(directory, place->directory, "three");
    path_join(script, directory, "test");
    path_join(said, directory, "said");
    pid_t child = fork();
    if (child == 0) {
        int fd = open(said, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        dup2(fd, STDERR_FILENO);
        setenv("HOLDFAST", "/nonexistent/holdfast", 1);
        execl(script, script, NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    char *text = file_text(place, "three", "said");
    assert_string_equal(text, "there is no program /nonexistent/holdfast: install Holdfast, or say where it is: make "
                              "test HOLDFAST=/where/it/is/holdfast\n");
    free(text);
}

TEST(what_exists_is_left_alone)
{
    const struct place *place = *state;
    struct program_result result = plugin_new(place, "one", NULL);
    assert_int_equal(result.exit_code, 0);
    program_result_free(&result);
    result = plugin_new(place, "one", "shell");
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "it exists already");
    assert_string_equal(result.out, "");
    program_result_free(&result);
    assert_null(file_text(place, "one", "one"));
    expect_file(place, "one", "one.c", "HF_PLUGIN_HEAD(\"one\"", false);
}

/* The limit is on the size of a file that the program may write: the first that is larger cannot be finished. */
TEST(half_of_it_is_nothing)
{
    const struct place *place = *state;
    struct rlimit before, limit;
    char path[PATH_SIZE];
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){1500, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct program_result result = plugin_new(place, "one", "c");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "one.c: File too large; nothing was made");
    program_result_free(&result);
    path_join(path, place->directory, "one");
    assert_int_equal(access(path, F_OK), -1);
}

TEST(a_place_that_is_none_is_told)
{
    const struct place nowhere = {.directory = "/nonexistent/place"};
    (void)state;
    struct program_result result = plugin_new(&nowhere, "one", NULL);
    assert_int_equal(result.exit_code, 1);
    assert_contains(result.error, "one in /nonexistent/place: No such file or directory");
    program_result_free(&result);
}

TEST(names_are_checked)
{
    static const char *const wrong[] = {"",    "One",  "1one", "_one", "-one", "o.e",
                                        "o/e", "../o", "o e",  "test", "on\n", "o\xc3\xa9"};
    const struct place *place = *state;
    char name[65];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct program_result result = plugin_new(place, wrong[i], NULL);
        if (result.exit_code != 2)
            fail_msg("\"%s\" was taken for a name: %d, %s", wrong[i], result.exit_code, result.error);
        program_result_free(&result);
    }
    memset(name, 'a', sizeof name);
    name[64] = '\0';
    struct program_result result = plugin_new(place, name, NULL);
    assert_int_equal(result.exit_code, 2);
    assert_contains(result.error, "cannot be the name of a handler");
    program_result_free(&result);
    assert_int_equal(directory_empty(place->directory), 0);
    name[63] = '\0';
    result = plugin_new(place, name, NULL);
    assert_int_equal(result.exit_code, 0);
    program_result_free(&result);
    char path[PATH_SIZE];
    path_join(path, place->directory, name);
    assert_int_equal(directory_empty(path), 5);
}

TEST(other_mistakes_are_told)
{
    const struct place *place = *state;
    struct program_result result = plugin_new(place, "one", "pyton");
    assert_int_equal(result.exit_code, 2);
    assert_contains(result.error, "not pyton (did you mean python?)");
    program_result_free(&result);
    static const char *const lines[] = {"plugin", "plugin new", "plugin old one", "plugin new one two",
                                        "plugin new one --directory="};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        result = program_run(lines[i]);
        assert_int_equal(result.exit_code, 2);
        program_result_free(&result);
    }
}

RUN_TESTS_WITH(enter, leave)
