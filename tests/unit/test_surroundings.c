/* What programs of the configuration find when they start: read, and refused with the place of what is wrong. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "tests/support/config_place.h"
#include "worker/config/surroundings.h"

#define CLASS(settings) CONFIG_NODES "classes = ( { class = \"a\"; program = \"/bin/true\"; " settings " } );"

static struct findings findings;

static char **read_of(const char *text)
{
    struct config *config = config_place_read_good(text);
    const struct config_class *entry = &config->classes[0];
    findings_fini(&findings);
    findings = (struct findings){0};
    return surroundings_read(&entry->surroundings, entry->source.where, "", &findings);
}

/* In one text, in the order in which a program gets them. */
static void assert_variables(const char *text, const char *expected)
{
    struct buffer found = {0};
    char **variables = read_of(text);
    for (char **item = variables; *item != NULL; item++)
        buffer_format(&found, "%s\n", *item);
    assert_int_equal(findings.count, 0);
    assert_string_equal(buffer_text(&found), expected);
    surroundings_forget(variables);
    buffer_fini(&found);
}

static void assert_refused(const char *text, const char *words)
{
    surroundings_forget(read_of(text));
    assert_int_equal(findings.errors, 1);
    assert_contains(findings.items[0].text, words);
}

static void assert_file_refused(const char *content, mode_t mode, const char *words)
{
    config_place_write("secret", content, mode);
    assert_refused(CLASS("environment_file = \"secret\";"), words);
}

TEST(pairs_come_before_the_lines_of_the_file)
{
    config_place_write("secret", "# secrets\n\nTOKEN=a=b c \nSTAGE=of the file\r\nEMPTY=\nLAST=1", 0600);
    assert_variables(CLASS("environment = { STAGE = \"test\"; }; environment_file = \"secret\"; directory = \"/\";"),
                     "STAGE=test\nTOKEN=a=b c \nEMPTY=\nLAST=1\n");
    assert_variables(CLASS(""), "");
}

TEST(a_variable_of_the_worker_has_to_be_there)
{
    setenv("OF_THE_WORKER", "its value", 1);
    assert_variables(CLASS("environment = { API = \"${OF_THE_WORKER}\"; };"), "API=its value\n");
    unsetenv("OF_THE_WORKER");
    assert_refused(CLASS("environment = { API = \"${OF_THE_WORKER}\"; };"),
                   "t.conf:2: environment.API: the environment variable OF_THE_WORKER is not set here");
    assert_refused(CLASS("environment = { API = \"http://${HOST}/\"; };"), "${NAME} stands alone");
    assert_refused(CLASS("environment = { API = \"${}\"; };"), "${NAME} stands alone");
}

TEST(names_of_the_worker_are_refused)
{
    assert_refused(CLASS("environment = { HF_JID = \"1\"; };"),
                   "t.conf:2: environment.HF_JID: names that begin with HF_ are those of the worker");
    assert_refused(CLASS("environment = { TRACEPARENT = \"1\"; };"), "TRACEPARENT comes with the task");
    assert_refused(CLASS("environment = { a-b = \"1\"; };"), "letters, digits and underscores");
    assert_file_refused("A=1\nHF_FENCE=7\n", 0600, "secret:2: names that begin with HF_");
}

TEST(a_wrong_line_is_named_and_not_quoted)
{
    assert_file_refused("A=1\nverysecret\n", 0600, "secret:2: expected NAME=VALUE");
    assert_null(strstr(findings.items[0].text, "verysecret"));
    assert_file_refused("A=1\n\nA=2\n", 0600, "secret:3: this variable is in the file twice");
    assert_file_refused("export A=1\n", 0600, "secret:1: a name of a variable has letters");
    assert_file_refused("1A=1\n", 0600, "secret:1: a name of a variable has letters");
    assert_file_refused("=1\n", 0600, "secret:1: a name of a variable has letters");
    assert_file_refused("A=\"b c\"\n", 0600, "secret:1: write the value without quotes");
}

TEST(a_file_that_is_missing_or_not_private_is_refused)
{
    assert_refused(CLASS("environment_file = \"none\";"), "t.conf:2: environment_file: ");
    assert_contains(findings.items[0].text, "none: cannot be opened: No such file or directory");
    assert_file_refused("A=1\n", 0644, "others than its owner have access to this secret (mode 644)");
}

TEST(what_is_too_long_is_refused)
{
    static char text[70000];
    memset(text, 'x', sizeof text - 1);
    memcpy(text, "A=", 2);
    assert_file_refused(text, 0600, "secret: is longer than 64 KiB");
}

TEST(a_directory_has_to_be_one)
{
    assert_refused(CLASS("directory = \"/dev/null\";"),
                   "t.conf:2: directory: a program cannot be started in /dev/null: Not a directory");
    assert_refused(CLASS("directory = \"missing\";"), "missing: No such file or directory");
}

TEST(without_a_program_they_have_no_meaning)
{
    config_place_expect_error(CONFIG_NODES "classes = ( { class = \"a\"; directory = \"/\"; } );",
                              "t.conf:2: environment, environment_file and directory have no meaning without a "
                              "program: a plugin has its plugin_settings");
}

RUN_TESTS_WITH(config_place_enter, config_place_leave)
