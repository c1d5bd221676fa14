/* Options of a command line: what each type takes and refuses, how they may be written, and that the tables of all
 * commands agree with each other. */
#include "tests/support/test.h"

#include "base/clock.h"
#include "base/quantity.h"
#include "worker/commands/manual.h"
#include "worker/config/command_options.h"

struct inner {
    const char *name;
    bool has_name;
};

struct example {
    bool is_set, has_count;
    const char *text;
    struct option_texts texts, pair;
    int64_t count, any, wait_ns, taken;
    bool waits;
    struct inner inner;
};

static bool even_take(void *target, const char *text, struct error *error)
{
    *(int64_t *)target = text != NULL ? (int64_t)strlen(text) : -1;
    return text == NULL || strlen(text) % 2 == 0 || error_set(error, "'%s' is odd", text);
}

static const struct option_row inner_rows[] = {
    {OPTION_TEXT, 0, "name", "TEXT", "a name", .offset = offsetof(struct inner, name),
     .given = GIVEN(offsetof(struct inner, has_name))},
    {.type = OPTION_END},
};

#define AT(member) offsetof(struct example, member)
static const struct option_row rows[] = {
    {OPTION_FLAG, 's', "set", NULL, "a flag", .offset = AT(is_set)},
    {OPTION_TABLE, .table = inner_rows, .help = "The inner ones", .offset = AT(inner)},
    {OPTION_TEXT, 'x', "text", "TEXT", "a text", .offset = AT(text)},
    {OPTION_TEXTS, 'm', "more", "TEXT", "texts", .offset = AT(texts)},
    {OPTION_TEXTS, 0, "pair", "TEXT", "two texts", .offset = AT(pair), .most = 2},
    {OPTION_COUNT, 'n', "count", "N", "a count", .offset = AT(count), .least = 2, .most = 9,
     .given = GIVEN(AT(has_count))},
    {OPTION_COUNT, 0, "any", "N", "a count without a bound above", .offset = AT(any), .least = 1},
    {OPTION_DURATION, 'w', "wait", "[=DURATION]", "a duration", .offset = AT(wait_ns), .least = NS_PER_S,
     .most = 60 * NS_PER_S, .given = GIVEN(AT(waits))},
    {OPTION_TAKEN, 0, "even", "[=TEXT]", "what a function reads", .offset = AT(taken), .take = even_take},
    {.type = OPTION_END},
};
#undef AT

enum { WORDS_MAX = 140 };

struct run {
    struct example example;
    struct options_found found;
    struct error error;
    char *argv[WORDS_MAX];
    int argc;
};

static enum options_outcome read_words(struct run *run, const char *const *words)
{
    *run = (struct run){.argc = 1, .argv = {(char *)(uintptr_t) "example"}};
    while (words[run->argc - 1] != NULL) {
        run->argv[run->argc] = (char *)(uintptr_t)words[run->argc - 1];
        run->argc++;
    }
    return options_read(rows, run->argc, run->argv, &run->example, &run->found, &run->error);
}

#define READ(run, ...) read_words(run, (const char *const[]){__VA_ARGS__, NULL})

#define assert_wrong(says, ...)                                                                                        \
    do {                                                                                                               \
        struct run wrong;                                                                                              \
        assert_int_equal(READ(&wrong, __VA_ARGS__), OPTIONS_WRONG);                                                    \
        assert_string_equal(wrong.error.text, says);                                                                   \
    } while (0)

TEST(every_type_is_read)
{
    struct run run;
    assert_int_equal(READ(&run, "--set", "--text", "a", "--more=b", "-mc", "--count", "9", "--any=1", "--wait=2s",
                          "--even=abcd", "--name", "in"),
                     OPTIONS_READ);
    assert_true(run.example.is_set && run.example.has_count && run.example.waits && run.example.inner.has_name);
    assert_string_equal(run.example.text, "a");
    assert_int_equal(run.example.texts.count, 2);
    assert_string_equal(run.example.texts.items[0], "b");
    assert_string_equal(run.example.texts.items[1], "c");
    assert_int_equal(run.example.count, 9);
    assert_int_equal(run.example.any, 1);
    assert_int_equal(run.example.wait_ns, 2 * NS_PER_S);
    assert_int_equal(run.example.taken, 4);
    assert_string_equal(run.example.inner.name, "in");
    assert_int_equal(run.found.first, run.argc);
}

TEST(what_is_not_given_stays)
{
    struct run run;
    assert_int_equal(READ(&run, "word"), OPTIONS_READ);
    assert_false(run.example.is_set || run.example.has_count || run.example.waits || run.example.inner.has_name);
    assert_null(run.example.text);
    assert_int_equal(run.found.first, 1);
    assert_null(run.found.bare);
}

TEST(options_may_be_written_in_every_way)
{
    struct run run;
    assert_int_equal(READ(&run, "one", "-sn3", "--te", "a", "two", "--", "-s"), OPTIONS_READ);
    assert_true(run.example.is_set);
    assert_int_equal(run.example.count, 3);
    assert_string_equal(run.example.text, "a");
    assert_int_equal(run.argc - run.found.first, 3);
    assert_string_equal(run.argv[run.found.first], "one");
    assert_string_equal(run.argv[run.found.first + 2], "-s");
    assert_int_equal(READ(&run, "-x", "a", "-x", "b"), OPTIONS_READ);
    assert_string_equal(run.example.text, "b");
    assert_int_equal(READ(&run, "--set", "--help"), OPTIONS_HELP);
    assert_int_equal(READ(&run, "-h"), OPTIONS_HELP);
}

TEST(an_optional_value_takes_only_the_equals_sign)
{
    struct run run;
    assert_int_equal(READ(&run, "--wait", "5s"), OPTIONS_READ);
    assert_true(run.example.waits);
    assert_int_equal(run.example.wait_ns, 0);
    assert_string_equal(run.found.bare->name, "wait");
    assert_string_equal(run.found.behind_bare, "5s");
    assert_int_equal(READ(&run, "-w5s"), OPTIONS_READ);
    assert_int_equal(run.example.wait_ns, 5 * NS_PER_S);
    assert_null(run.found.bare);
    assert_int_equal(READ(&run, "--even"), OPTIONS_READ);
    assert_int_equal(run.example.taken, -1);
    assert_null(run.found.behind_bare);
}

TEST(mistakes_say_what_is_wrong)
{
    assert_wrong("--count wants a number from 2 to 9, not \"1\"", "--count", "1");
    assert_wrong("--count wants a number from 2 to 9, not \"10\"", "-n10");
    assert_wrong("--count wants a number from 2 to 9, not \"3x\"", "-n", "3x");
    assert_wrong("--any wants a number from 1 on, not \"0\"", "--any", "0");
    assert_wrong("--wait wants a time from 1s to 1m, not \"500ms\"", "--wait=500ms");
    assert_wrong("--wait wants a time from 1s to 1m, not \"61s\"", "--wait=61s");
    assert_wrong("--even: 'abc' is odd", "--even=abc");
    assert_wrong("--pair can be given 2 times at most", "--pair=a", "--pair=b", "--pair=c");
    assert_wrong("a value is missing after --text", "--text");
    assert_wrong("a value is missing after -x", "-x");
    assert_wrong("the option --set takes no value", "--set=1");
    assert_wrong("unknown option -z", "-z");
    assert_wrong("unknown or ambiguous option --cuont (did you mean --count?)", "--cuont=1");
    assert_wrong("unknown or ambiguous option --nmae (did you mean --name?)", "--nmae");
    struct run run;
    assert_int_equal(READ(&run, "--wait=soon"), OPTIONS_WRONG);
    assert_int_equal(strncmp(run.error.text, "--wait: ", 8), 0);
}

TEST(as_many_texts_are_taken_as_there_is_room_for)
{
    const char *words[OPTION_TEXTS_MAX + 2] = {NULL};
    struct run run;
    for (size_t i = 0; i < OPTION_TEXTS_MAX; i++)
        words[i] = "-mx";
    assert_int_equal(read_words(&run, words), OPTIONS_READ);
    assert_int_equal(run.example.texts.count, OPTION_TEXTS_MAX);
    words[OPTION_TEXTS_MAX] = "-mx";
    assert_int_equal(read_words(&run, words), OPTIONS_WRONG);
    assert_string_equal(run.error.text, "--more can be given 64 times at most");
}

/* --- the commands ------------------------------------------------------------------------------------------------- */

enum arity { ARITY_FLAG, ARITY_VALUE, ARITY_OPTIONAL };

static enum arity arity_of(const struct option_row *row)
{
    return row->value == NULL ? ARITY_FLAG : option_value_is_optional(row) ? ARITY_OPTIONAL : ARITY_VALUE;
}

enum { KNOWN_MAX = 200 };

/* Every option that any command has, once by its name. */
struct known {
    const struct option_row *rows[KNOWN_MAX];
    const char *commands[KNOWN_MAX];
    size_t count;
};

/* `holdfast lock` has options that users of flock, consul and etcdctl expect: -n is a name, --wait takes a time,
 * --hold takes none, and --limit is that of holders, as in the configuration of a class. */
static bool is_of_lock(const struct option_row *row, const char *command)
{
    static const char *const own[] = {"name", "wait", "hold", "limit"};
    bool is_own = false;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        is_own |= strcmp(row->name, own[i]) == 0;
    return is_own && strcmp(command, "lock") == 0;
}

static void known_add(struct known *known, const struct option_row *row, const char *command)
{
    for (size_t i = 0; i < known->count; i++) {
        const struct option_row *other = known->rows[i];
        bool is_same = strcmp(other->name, row->name) == 0;
        if (is_same && (arity_of(other) != arity_of(row) || other->letter != row->letter))
            fail_msg("--%s of %s and of %s differ", row->name, command, known->commands[i]);
        if (!is_same && other->letter != 0 && other->letter == row->letter)
            fail_msg("-%c is --%s of %s and --%s of %s", row->letter, row->name, command, other->name,
                     known->commands[i]);
        if (is_same)
            return;
    }
    assert_true(known->count < KNOWN_MAX);
    known->commands[known->count] = command;
    known->rows[known->count++] = row;
}

TEST(letters_and_values_mean_the_same_everywhere)
{
    struct known known = {.count = 0};
    for (const struct command *const *command = command_list; *command != NULL; command++) {
        struct option_walk walk = {.table = (*command)->options};
        for (const struct option_row *row; (row = option_next(&walk)) != NULL;)
            if (!is_of_lock(row, (*command)->name))
                known_add(&known, row, (*command)->name);
    }
    assert_true(known.count > 40);
}

TEST(no_command_has_a_name_twice)
{
    for (const struct command *const *command = command_list; *command != NULL; command++) {
        const char *names[OPTION_ROWS_MAX];
        size_t count = 0;
        struct option_walk walk = {.table = (*command)->options};
        for (const struct option_row *row; (row = option_next(&walk)) != NULL; names[count++] = row->name)
            for (size_t i = 0; i < count; i++)
                if (strcmp(names[i], row->name) == 0)
                    fail_msg("holdfast %s has --%s twice", (*command)->name, row->name);
    }
}

TEST(every_line_of_help_fits)
{
    struct buffer manual = {0};
    manual_print_markdown(&manual);
    for (const char *line = buffer_text(&manual); *line != '\0'; line += strcspn(line, "\n") + 1)
        if (strcspn(line, "\n") > (line[0] == ' ' ? 120 : 110)) /* lists and examples stay as they were written */
            fail_msg("%zu columns: %.*s", strcspn(line, "\n"), (int)strcspn(line, "\n"), line);
    for (const struct command *const *command = command_list; *command != NULL; command++) {
        struct option_walk walk = {.table = (*command)->options};
        for (const struct option_row *row; (row = option_next(&walk)) != NULL;)
            if (strchr(row->help, '\n') != NULL || row->help[0] == '\0')
                fail_msg("the help of --%s of %s is not one line", row->name, (*command)->name);
    }
    buffer_fini(&manual);
}

TEST(the_help_of_all_options_begins_in_one_column)
{
    for (const struct command *const *command = command_list; *command != NULL; command++) {
        struct buffer help = {0};
        struct option_walk walk = {.table = (*command)->options};
        size_t column = 0;
        manual_print_command(*command, &help);
        const char *line = strstr(buffer_text(&help), "\nOptions:\n") + 1;
        for (const struct option_row *row; (row = option_next(&walk)) != NULL;) {
            char form[64], start[64];
            size_t first = strcspn(row->help, " ");
            snprintf(form, sizeof form, "--%s", row->name);
            snprintf(start, sizeof start, "  %.*s", (int)(first + 1 + strcspn(row->help + first + 1, " ")), row->help);
            do
                line += strcspn(line, "\n") + 1;
            while (strspn(line, " ") > 6 || line[0] != ' ' || strstr(line, form) == NULL);
            const char *found = strstr(line, start);
            assert_non_null(found);
            if (column != 0 && (size_t)(found - line) != column)
                fail_msg("holdfast %s: the help of --%s begins in another column", (*command)->name, row->name);
            column = (size_t)(found - line);
        }
        buffer_fini(&help);
    }
}

RUN_TESTS
